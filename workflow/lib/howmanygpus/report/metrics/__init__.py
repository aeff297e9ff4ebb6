"""
Quality metrics, one module each.

A module defines UNIT, BETTER (`higher` or `lower`) and `compute(rank, loss)`. It gets the stored predictions of one
evaluation over the whole test split and returns a number, or None if it is undefined. RANGE, which may be left out, is
the lowest and the highest value, with None for no limit; thresholds outside of it are refused.
"""

import importlib
import pkgutil


def list_metrics() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(__path__)]


def load_metric(name: str):
    return importlib.import_module(f"{__name__}.{name}")

"""
Figures, one module each.

A module defines TITLE (what its entry in the report is called), TABLES (names of the tables it reads) and
`draw(**tables)`, which gets those tables of one study and returns a matplotlib figure. Its caption is
workflow/report/<module>.rst.
"""

import ast
import importlib
import pkgutil
from pathlib import Path


def list_figures() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load_figure(name: str):
    return importlib.import_module(f"{__name__}.{name}")


def describe_figure(name: str) -> dict:
    """TITLE and TABLES of a figure, read without importing it and the drawing library."""
    tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text())
    constants = {node.targets[0].id: node.value for node in tree.body if isinstance(node, ast.Assign)}
    return {key: ast.literal_eval(constants[key]) for key in ("TITLE", "TABLES")}

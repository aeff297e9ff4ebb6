"""
Figures, one module each.

A module defines TITLE (what its entry in the report is called), TABLES (names of the tables it reads) and
`draw(**tables)`, which gets those tables of one study and returns a matplotlib figure. COMPARES, if it defines it, is
the key of a study whose entries it compares: a study with only one goes without. NEEDS_PREFLIGHT, if it defines it,
says that it is drawn where the preflight has measured something. Its caption is workflow/report/<module>.rst.
"""

import importlib
from pathlib import Path

from howmanygpus.report.modules import describe_module, list_modules

FOLDER = Path(__file__).parent


def list_figures(study: dict | None = None, preflight: bool = False) -> list[str]:
    """All figures, or those that a study (its config), with a preflight or without, has something to show in."""
    names = list_modules(FOLDER)
    if study is None:
        return names
    described = {name: describe_figure(name) for name in names}
    return [
        name
        for name, figure in described.items()
        if (figure["COMPARES"] is None or len(study[figure["COMPARES"]]) > 1)
        and (preflight or not figure["NEEDS_PREFLIGHT"])
    ]


def load_figure(name: str):
    return importlib.import_module(f"{__name__}.{name}")


def describe_figure(name: str) -> dict:
    """The constants of a figure's module."""
    return describe_module(FOLDER / f"{name}.py", ("TITLE", "TABLES"), {"COMPARES": None, "NEEDS_PREFLIGHT": False})

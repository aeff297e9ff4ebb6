"""
Figures of a study, one module each.

A module defines TITLE (the name of its entry in the report), TABLES (the tables it reads) and `draw(**tables)`, which
gets those tables of one study and returns a matplotlib figure. Its caption is workflow/report/<module>.rst.

Two constants are optional. COMPARES names the key of a study whose entries the figure compares: it is not drawn for a
study with only one entry. NEEDS_PREFLIGHT = True: the figure is drawn only if the preflight measures.
"""

import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from howmanygpus.report.modules import list_modules, read_constants, require_constant

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Description:
    """What a figure's module says of itself. compares: key of a study, or None."""

    title: str
    tables: tuple[str, ...]
    compares: str | None
    needs_preflight: bool


def list_figures(study: dict | None = None, preflight: bool = False) -> list[str]:
    """Names of all figures, or of those that can show something of a study, given its config and the preflight."""
    names = list_modules(FOLDER)
    return names if study is None else [name for name in names if _shows_something(name, study, preflight)]


def _shows_something(name: str, study: dict, preflight: bool) -> bool:
    figure = describe_figure(name)
    if figure.needs_preflight and not preflight:
        return False
    return figure.compares is None or len(study[figure.compares]) > 1


def load_figure(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")


def describe_figure(name: str) -> Description:
    """Read a figure's module without importing it."""
    path = FOLDER / f"{name}.py"
    constants = read_constants(path)
    return Description(
        title=require_constant(path, "TITLE"),
        tables=tuple(require_constant(path, "TABLES")),
        compares=constants.get("COMPARES"),
        needs_preflight=constants.get("NEEDS_PREFLIGHT", False),
    )

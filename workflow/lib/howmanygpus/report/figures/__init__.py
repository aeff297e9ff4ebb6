"""
Figures of a study, one module each.

A module defines TITLE (the name of its entry in the report), CATEGORY (one of report/categories.py, in which the entry
is), TABLES (the tables it reads) and `draw(**tables)`, which gets those tables of one study and returns a matplotlib
figure. Its caption is workflow/report/captions/<module>.rst.

These constants are optional. COMPARES names the key of a study whose entries the figure compares: it is not drawn for a
study with only one entry. NEEDS names a key of the study: it is drawn only for a study that switches it on.
NEEDS_PREFLIGHT = True: the figure is drawn only if the preflight measures, or for a study
with `diagnose`.
NEEDS_PRICE = True: only if the machine file has a price. NEEDS_PUBLISHED names columns of published numbers: only for a
study that is compared with a table with a value in one of them. NEEDS_PROTOCOLS = True: only for a study that switches
on an unfair protocol. SHOWS_UNFAIR = True: the figure shows and marks runs that follow one; other figures do not get
them. SHOWS_PREDICTED = True: `draw` also gets `predictions`, the table of that name, of a study with the key `predict`.

One process draws all figures of a study.
"""

import importlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from howmanygpus.self_description import describe_module, has_several, is_switched_on, list_modules

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Description:
    """The constants of a figure's module. compares: key of a study, or None. needs_published: columns."""

    title: str
    category: str
    tables: tuple[str, ...]
    compares: str | None = None
    needs: str | None = None
    needs_preflight: bool = False
    needs_price: bool = False
    needs_published: tuple[str, ...] = ()
    needs_protocols: bool = False
    shows_unfair: bool = False
    shows_predicted: bool = False


def list_figures(
    study: dict | None = None, preflight: bool = False, priced: bool = False, published: Collection[str] = ()
) -> list[str]:
    """Return the names of all figures, or of those that can show something of a study, given its config.

    preflight: whether all-reduces are measured. priced: whether a device has a price. published: the columns with
    values in the published numbers that the study is compared with.
    """
    names = list_modules(FOLDER)
    if study is None:
        return names
    return [name for name in names if _shows_something(describe_figure(name), study, preflight, priced, published)]


def _shows_something(
    figure: Description, study: dict, preflight: bool, priced: bool, published: Collection[str]
) -> bool:
    if (figure.needs_preflight and not preflight) or (figure.needs_price and not priced):
        return False
    if figure.needs_published and not set(figure.needs_published) & set(published):
        return False
    if figure.needs_protocols and not any(study["protocols"].values()):
        return False
    return has_several(study, figure.compares) and is_switched_on(study, figure.needs)


def list_needed(names: list[str]) -> list[str]:
    """Return the tables from which figures are drawn."""
    return list(dict.fromkeys(table for name in names for table in describe_figure(name).tables))


def load_figure(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")


def describe_figure(name: str) -> Description:
    """Read a figure's module without importing it."""
    return describe_module(FOLDER / f"{name}.py", Description)

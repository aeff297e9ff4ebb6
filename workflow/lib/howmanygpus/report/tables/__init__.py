"""
Tables of a study, one module each.

A module defines COLUMNS, READS and `tabulate(plan, **inputs)`, which returns a data frame with these columns. `plan` is
the content of results/plans/{study}.json. READS names the inputs: other tables of the study, and sources
(helpers/sources.py). A table that reads `published` is made only for studies with the key of that name, and one that
reads `searches` only for those with `per_device_batch_size: max`.

Eight constants are optional. USES_METRIC = True: the table depends on the code of the study's metric. IS_MERGED = True:
the tables of all studies are joined in results/tables/. NEEDS_PREFLIGHT = True: the table is made only if the
preflight measures, or for a study with `diagnose`. COMPARES names a key of the study: a study with only one entry of it
has no such table. IN_REPORT = True: the report has a page of the table of each study, besides those of joined tables.
CATEGORY is its category in the report (report/categories.py), "Tables" without one. SHOWN_IF_VARIED names a column: the
report has no page of the table if all its rows have the same value there. NEEDS names a key of the study: only a study
that switches it on has the table. A page has the description in workflow/report/captions/<table>.rst or, without this
file, the docstring of the module.

One rule makes all tables that every study has, and each other table has a rule of its own. Words in cells are macros of
workflow/report/templates/ (report/words.py). Code that several tables share and nothing else needs is in helpers/.
"""

import importlib
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

from howmanygpus.report.tables.helpers.sources import READERS
from howmanygpus.self_description import describe_module, has_several, is_switched_on, list_modules

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Description:
    """The constants of a table's module."""

    reads: tuple[str, ...]
    uses_metric: bool = False
    is_merged: bool = False
    needs_preflight: bool = False
    compares: str | None = None
    needs: str | None = None
    in_report: bool = False
    shown_if_varied: str | None = None
    category: str = "Tables"

    @property
    def inputs(self) -> tuple[str, ...]:
        """Other tables of the study that the table is made from."""
        return tuple(each for each in self.reads if each not in READERS)

    @property
    def sources(self) -> tuple[str, ...]:
        """What else the table is made from."""
        return tuple(each for each in self.reads if each in READERS)

    @property
    def is_common(self) -> bool:
        """Whether every study has this table."""
        reads_more = "published" in self.reads or "searches" in self.reads
        return not (reads_more or self.needs_preflight or self.compares or self.needs)


def list_tables(
    study: dict | None = None, preflight: bool = True, published: bool = True, searched: bool = True
) -> list[str]:
    """Return the names of all tables, or of those of a study, given its config.

    Without a preflight, published numbers or searches, tables that need them are left out.
    """
    described = {name: describe_table(name) for name in list_modules(FOLDER)}
    return [
        name
        for name, table in described.items()
        if (preflight or not table.needs_preflight)
        and (published or "published" not in table.reads)
        and (searched or "searches" not in table.reads)
        and has_several(study, table.compares)
        and is_switched_on(study, table.needs)
    ]


def list_common() -> list[str]:
    """Return the tables that every study has, each after those that it is made from."""
    common = {name: describe_table(name).inputs for name in list_tables() if describe_table(name).is_common}
    return list(TopologicalSorter(common).static_order())


def list_merged() -> list[str]:
    return [name for name in list_tables() if describe_table(name).is_merged]


def load_table(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")


def describe_table(name: str) -> Description:
    """Read a table's module without importing it."""
    return describe_module(FOLDER / f"{name}.py", Description)

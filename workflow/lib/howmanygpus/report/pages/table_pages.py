"""
A page for each table that has rows: the table to sort and filter, its description, units, and itself as a TSV file.

The page is one file that needs no other. Columns with the same value in all rows are named once, above the table. The
template is that of the page of all runs, too.
"""

import re
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from howmanygpus.clone import CAPTIONS, TEMPLATES
from howmanygpus.report.categories import MORE, SAME_WORK
from howmanygpus.report.columns import BATCH, PLACE, SERIES, STUDY, TASK, list_columns
from howmanygpus.report.files import TEXTS
from howmanygpus.report.tables import FOLDER, describe_table, list_tables
from howmanygpus.report.words import write_number
from howmanygpus.self_description import read_docstring

OTHERS = {"parity": ("parity_table", SAME_WORK), "probes": ("probes", MORE)}
"""Caption and category of the tables that are no modules of report/tables/."""
ALL = "all"
"""Name of the folder of pages of tables over all studies. No study can have it, since it is that of a rule."""
NAMING = list_columns(STUDY, TASK, SERIES, PLACE, BATCH)
"""Columns with a list of values to choose from, besides texts with few values."""
MOST_CHOICES, MOST_LISTS = 50, 8
"""Longest list of values, and most lists of a page."""
FEW = 12
"""Most values of a text that names no configuration, for a list of them."""
LONG = 60
"""Characters of a text beyond which its column breaks lines."""
CODE = re.compile(r",?\s+see\s+(report|helpers)[.]\w+")
"""Where a docstring refers to other modules."""
STATISTIC = re.compile(r"_(median|mean|min|max|low|high|lowest|highest|begin|end|p\d\d|traced|measured)$")
UNITS = {
    r"device_s_per_image": "device-s/{one}",
    r"s_per_image": "s/{one}",
    r"joules_per_image": "J/{one}",
    r"images_per_joule": "{unit}/J",
    r"images_per_s(_per_\w+)?": "{unit}/s",
    r"gib_per_s": "GiB/s",
    r"tflop_per_s": "TFLOP/s",
    r"s_per_train_s": "s/s",
    r"frac|mfu|efficiency": "share of 1",
    r"speedup\w*|ratio": "ratio",
    r"cost\w*": "{currency}",
    r"hours": "h",
    r"gib": "GiB",
    r"mib": "MiB",
    r"mhz": "MHz",
    r"w": "W",
    r"c": "°C",
    r"s": "s",
}
"""Unit of a column by the end of its name, without a statistic; the first that fits counts."""


def name_category(table: str) -> str:
    """Return the category of a table in the report."""
    return OTHERS[table][1] if table in OTHERS else describe_table(table).category


def find_caption(table: str) -> Path | None:
    """Return the file that describes a table in the report; None if only the docstring of its module does."""
    path = CAPTIONS / f"{OTHERS[table][0] if table in OTHERS else table}.rst"
    return path if path.exists() else None


def list_described(paths: Iterable[str]) -> list[Path]:
    """Return the files from which the descriptions of tables are taken. paths: where the tables are."""
    return [find_caption(table) or FOLDER / f"{table}.py" for table in dict.fromkeys(Path(path).stem for path in paths)]


def read_caption(path: Path) -> str:
    """Return a caption of the report in one line, without the words that name its study."""
    return " ".join(path.read_text().split()).replace(" Study {{ snakemake.wildcards.study }}.", "")


def describe(table: str) -> list[str]:
    """Return the description of a table as paragraphs of HTML. The first one is the first sentence.

    It is the caption of the table, or else the docstring of its module, without what that says to programmers.
    """
    caption = find_caption(table)
    text = read_caption(caption) if caption else CODE.sub("", read_docstring(FOLDER / f"{table}.py"))
    first, *others = re.split(r"\n\s*\n", text.strip())
    sentences = re.split(r"(?<=[.])\s+(?=[A-Z`])", first, maxsplit=1)
    return [mark_up(" ".join(each.split())) for each in (*sentences, *others)]


def mark_up(text: str) -> str:
    """Return a text of reStructuredText or Markdown as HTML: code and emphasis."""
    coded = re.sub(r"(``|`)(.+?)\1", r"<code>\2</code>", escape(text, quote=False))
    return re.sub(r"(?<![\w*])\*(\w[^*<>]*)\*", r"<em>\1</em>", coded)


def is_worth_a_page(table: str, rows: list[dict[str, str]]) -> bool:
    """Return whether a table has rows and, if it compares something, more than one of it."""
    key = describe_table(table).shown_if_varied if table in list_tables() else None
    return bool(rows) and (key is None or len({row[key] for row in rows}) > 1)


def collect(table: str, path: str, rows: list[dict[str, str]]) -> dict[str, Any]:
    """Return the facts of a page. rows: of the table, as they are written. path: where its file is."""
    names = list(rows[0])
    values = {name: {row[name] for row in rows} for name in names}
    is_long = {name: max(map(len, values[name])) > LONG for name in names}
    varying = [name for name in names if len(values[name]) > 1] or names
    # What a row is about stands first, and then what is said about it in words.
    shown = sorted(varying, key=lambda name: (name not in NAMING, not is_long[name]))
    common = {name: rows[0][name] for name in names if name not in shown}
    numbers = {name for name in shown if is_number(name, values[name])}
    chosen = choose_lists(shown, values, numbers, len(rows))
    units = {name: rows[0][key] for name, key in (("unit", "unit"), ("currency", "currency")) if key in common}
    return {
        "name": table,
        "path": path,
        "description": describe(table),
        "noun": "rows",
        "columns": [
            {
                "title": name,
                "unit": find_unit(name, **units),
                "is_number": name in numbers,
                "is_long": is_long[name],
                "is_sorted": False,
                "choices": sort_values(values[name], name in numbers) if name in chosen else [],
            }
            for name in shown
        ],
        "common": [{"title": name, "value": value, "unit": find_unit(name, **units)} for name, value in common.items()],
        "header": [[name, common[name] if name in common else shown.index(name)] for name in names],
        "rows": [
            {"attributes": {}, "head": "", "cells": [describe_cell(row[name], name in numbers) for name in shown]}
            for row in rows
        ],
    }


def choose_lists(shown: list[str], values: dict[str, set[str]], numbers: set[str], num_rows: int) -> list[str]:
    """Return the columns with a list of values to choose from."""
    naming = [name for name in shown if name in NAMING and len(values[name]) <= MOST_CHOICES]
    few = [name for name in shown if name not in (*NAMING, *numbers) and len(values[name]) <= min(FEW, num_rows / 2)]
    return [*naming, *few][:MOST_LISTS]


def is_number(name: str, values: set[str]) -> bool:
    return name not in TEXTS and all(map(_is_number, values - {""})) and values != {""}


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def sort_values(values: set[str], is_number: bool) -> list[str]:
    key: Callable[[str], Any] = (lambda value: float(value or "inf")) if is_number else str
    return sorted(values, key=key)


def find_unit(name: str, unit: str = "images", currency: str = "") -> str:
    """Return the unit of a column by its name; empty if it has none. unit: what rates count, in the plural."""
    bare = STATISTIC.sub("", name)
    found = next((text for ending, text in UNITS.items() if re.search(rf"(^|_)({ending})$", bare)), "")
    return found.format(unit=unit, one=unit.removesuffix("s"), currency=currency)


def describe_cell(value: str, is_number: bool) -> dict[str, str]:
    """Return the text of a cell and its value as written. Numbers with decimals are rounded in the text."""
    rounds = is_number and re.fullmatch(r"-?[\d.]+(e[-+]?\d+)?", value) and not value.isdigit()
    return {"text": write_number(float(value)) if rounds else value, "value": value}


def render(facts: dict[str, Any], template: str = "table.html.jinja") -> str:
    """Return a page from the template of tables, or from one that extends it."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    columns = [column | {"place": place} for place, column in enumerate(facts["columns"], 1)]
    return environment.get_template(template).render(facts | {"columns": columns})

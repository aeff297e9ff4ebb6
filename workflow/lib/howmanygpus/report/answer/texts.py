"""Texts of an answer, of a comparison and of a proposal, by templates in workflow/report/templates/."""

import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from howmanygpus.report.rows import name_count
from howmanygpus.report.words import (
    WHOLE,
    Value,
    choose_unit,
    fill,
    scale,
    write_duration,
    write_median,
    write_number,
    write_target,
    write_value,
)

WIDTH, HEIGHT = 100, 25
"""Columns of texts, and lines of a first screen."""
MOST = (
    *({"doubts": doubts, "rows": 8, "alternatives": 4, "ties": 3, "decisions": 3} for doubts in (5, 4, 3)),
    *({"doubts": 3, "rows": rows, "alternatives": 4, "ties": 1, "decisions": 3} for rows in (6, 4)),
    *({"doubts": doubts, "rows": 4, "alternatives": 4, "ties": 1, "decisions": 3} for doubts in (2, 1)),
    *({"doubts": 1, "rows": 4, "alternatives": most, "ties": 1, "decisions": 3} for most in (3, 2)),
    {"doubts": 1, "rows": 3, "alternatives": 1, "ties": 0, "decisions": 8},
    *({"doubts": 1, "rows": 0, "alternatives": most, "ties": 0, "decisions": 8} for most in (2, 1, 0)),
    *({"doubts": 0, "rows": 0, "alternatives": 0, "ties": 0, "decisions": decisions} for decisions in (8, 4)),
)
"""Most parts of each kind that a first screen shows, from the fullest to the shortest."""
ALL = dict.fromkeys(MOST[0], 1000)
GAP = "  "
"""Between the columns of a table."""


def render_answer(facts: dict[str, Any], suffix: str) -> str:
    """Return the answer to a study, with its details. suffix: md or txt, which begins with the first screen."""
    most = _choose_most(facts)[0] if suffix == "txt" else ALL
    text = fill_text(f"answer.{suffix}.jinja", is_folded=suffix == "txt", facts=facts, most=most, **_TABLES)
    return re.sub("\n{3,}", "\n\n", text).strip() + "\n"


def render_screen(facts: dict[str, Any]) -> str:
    """Return the first screen of an answer, with as much of the facts as fits."""
    return _choose_most(facts)[1]


def render_bill(bill: dict[str, Any]) -> str:
    """Return the line about a bill. bill: see report.answer.bill."""
    return fill_text("bill.jinja", is_folded=False, bill=bill)


def _choose_most(facts: dict[str, Any]) -> tuple[dict[str, int], str]:
    """Return how many parts of each kind fit on a screen, and its text."""
    for most in MOST:
        text = fill_text("answer_screen.txt.jinja", facts=facts, most=most, **_TABLES)
        if len(text.splitlines()) <= HEIGHT:
            break
    return most, text


def render_proposal(facts: dict[str, Any], suffix: str) -> str:
    """Return the text of a proposal. facts: see report.proposal. suffix: md, tex or txt."""
    tables: dict[str, Any] = {
        "plain_table": write_scaling,
        "markdown_table": write_markdown,
        "tex_tables": turn_scaling,
    }
    return fill_text(f"proposal.{suffix}.jinja", is_folded=suffix == "txt", facts=facts, **tables)


def fill_text(template: str, is_folded: bool = True, **names: Any) -> str:
    lines = fill(template, **names).splitlines()
    return "\n".join(_fold(line) if is_folded else line.rstrip() for line in lines) + "\n"


def _fold(line: str) -> str:
    """Break a line between words if it is too wide, and indent what follows. Lines of a table stay whole."""
    if len(line) <= WIDTH or line.startswith((" ", ">")):
        return line.rstrip().replace(WHOLE, " ")
    folded = textwrap.fill(line, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return folded.replace(WHOLE, " ")


def write_table(decision: dict[str, Any], unit: str, num_rows: int) -> list[str]:
    """Return the lines of the table of the best configuration on each number of devices; the others are counted.

    Beside the first, those nearest to the recommended one are shown. Intervals are left out if they do
    not fit, and then names are cut.
    """
    counts, left_out = _choose_rows(decision["counts"], num_rows), len(decision["counts"]) - num_rows
    more = [f"  and {name_count(left_out, 'more row')}, in answer.json"] if left_out > 0 else []
    lines = align(_list_counts(decision, counts, unit, write_value))
    if max(map(len, lines)) > WIDTH:
        lines = align(_list_counts(decision, counts, unit, write_median))
    if (excess := max(map(len, lines)) - WIDTH) > 0:
        longest = max(len(one["series"]) for one in counts) - excess
        short = [one | {"series": _cut(one["series"], longest)} for one in counts]
        lines = align(_list_counts(decision, short, unit, write_median))
    return [*lines, *more]


def write_markdown_table(decision: dict[str, Any], unit: str) -> list[str]:
    """Return the lines of the same table in Markdown, with all device counts and intervals."""
    return _write_markdown(_list_counts(decision, decision["counts"], unit, write_value))


def _write_markdown(rows: list[list[str]]) -> list[str]:
    head, *others = rows
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---:"] * len(head), *others)]


_TABLES: dict[str, Any] = {"table": write_table, "markdown_table": write_markdown_table}
"""Functions by which templates of an answer write tables."""


def _cut(text: str, longest: int) -> str:
    """Cut the middle of a name, since rows differ at its ends: in the framework, or in the input and precision."""
    if len(text) <= longest:
        return text
    begin, end = divmod(max(2, longest - 3), 2)
    return f"{text[: begin + end]}...{text[-begin:]}"


def _choose_rows(counts: list[dict[str, Any]], num_rows: int) -> list[dict[str, Any]]:
    chosen = next((place for place, one in enumerate(counts) if one["is_recommended"]), 0)
    places = sorted(range(len(counts)), key=lambda place: (place > 0, abs(place - chosen)))
    return [counts[place] for place in sorted(places[:num_rows])]


def _list_counts(
    decision: dict[str, Any], counts: list[dict[str, Any]], unit: str, write: Callable[[Value], str]
) -> list[list[str]]:
    goal, clock = decision["goal"], decision["clock"]
    is_target = goal["threshold"] is not None
    is_rated = any(one["cost_per_million"] for one in counts)
    cost = "cost_per_million" if is_rated else "cost"
    priced = [one for one in counts if one[cost]]
    columns = {
        "": [">" if one["is_recommended"] else "" for one in counts],
        "devices": [str(one["num_gpus"]) for one in counts],
        "nodes": [str(one["num_nodes"]) for one in counts],
        "framework": [one["series"] for one in counts],
        "batch": [_write_batch(one) for one in counts],
    }
    if is_target:
        name, size = choose_unit(max(one[clock]["median"] for one in counts))
        of = " in all" if clock == "wall_s" else ""
        columns[f"{name}{of} to {write_target(goal)}"] = [write(scale(one[clock], size)) for one in counts]
    columns[f"{unit}/s"] = [write(one["images_per_s"]) if one["images_per_s"] else "-" for one in counts]
    columns["efficiency"] = ["-" if one["efficiency"] is None else f"{100 * one['efficiency']:.0f} %" for one in counts]
    if priced:
        head = f"{priced[0]['currency']}{f' per million {unit}' if is_rated else ''}"
        columns[head] = [write_number(one[cost]["median"]) if one[cost] else "-" for one in counts]
    elif is_target:
        columns["device-h"] = [f"{one['device_seconds'] / 3600:.3g}" for one in counts]
    if all(one["num_nodes"] == 1 for one in counts):
        del columns["nodes"]
    return [[*columns], *map(list, zip(*columns.values(), strict=True))]


def _write_batch(one: dict[str, Any]) -> str:
    """Write the batch of a device in a step, such as `64`, or `4 x 64` if it is accumulated."""
    batches = f"{one['accumulate']} x " if one["accumulate"] > 1 else ""
    return f"{batches}{one['per_device_batch_size']}"


def list_scaling(curve: dict[str, Any], facts: dict[str, Any]) -> list[list[str]]:
    """Return the cells of the table of a curve, its head first. Columns without any value are left out."""
    rows = curve["rows"]
    columns = {
        "devices": [f"{row['num_gpus']} x {row['device']}" for row in rows],
        "nodes": [str(row["num_nodes"]) for row in rows],
        "batch": [str(row["global_batch_size"]) for row in rows],
        "wall time": [write_duration(row["wall_s"]) if row["wall_s"] else "" for row in rows],
        f"{facts['unit']}/s": [write_value(row["images_per_s"]) for row in rows],
        "speed-up": [write_value(row["speedup"]) if row["speedup"] else "1" * row["is_base"] for row in rows],
        "efficiency": [_write_share(row["scaling_efficiency"]) for row in rows],
        f"at {100 * facts['efficiency']:.0f} %": [_write_pass(row["has_efficiency"]) for row in rows],
        "gain": ["" if row["gain"] is None else f"{row['gain']:.2f}" for row in rows],
        f"at {facts['doubling']} x": [_write_pass(row["has_gain"]) for row in rows],
        "start-up": [_write_share(row["startup_frac"]) for row in rows],
        "utilisation": [_write_share(row["utilisation_frac"]) for row in rows],
        "GiB": ["" if row["memory_gib_highest"] is None else write_number(row["memory_gib_highest"]) for row in rows],
        "MFU": [_write_share(row["mfu"]) for row in rows],
        "input wait": [_write_share(row["data_wait_frac"]) for row in rows],
        "node-hours": ["" if row["node_hours"] is None else write_number(row["node_hours"]) for row in rows],
    }
    kept = {name: cells for name, cells in columns.items() if any(cells)}
    return [[*kept], *map(list, zip(*kept.values(), strict=True))]


def turn_scaling(curve: dict[str, Any], facts: dict[str, Any]) -> list[list[list[str]]]:
    """Return the cells of the table of a curve with one column for each device count.

    If that is too wide for a page, it is cut into several tables, one below the other, with the same first column.
    """
    names, *counts = list_scaling(curve, facts)
    tables: list[list[list[str]]] = []
    left = 0
    for column in counts:
        width = max(map(len, column)) + len(GAP)
        if not tables or width > left:
            tables.append([names])
            left = WIDTH - max(map(len, names))
        tables[-1].append(column)
        left -= width
    return [[list(cells) for cells in zip(*table, strict=True)] for table in tables]


def write_scaling(curve: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    """Return the lines of the table of a curve, for plain text: each device count is a column."""
    tables = ["\n".join(align(table)) for table in turn_scaling(curve, facts)]
    return "\n\n".join(tables).splitlines()


def write_markdown(curve: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    """Return the lines of the table of a curve in Markdown."""
    return _write_markdown(list_scaling(curve, facts))


def _write_share(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def _write_pass(has_passed: bool | None) -> str:
    return "" if has_passed is None else "pass" if has_passed else "fail"


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [GAP.join(map(str.ljust, row, widths)).rstrip() for row in rows]

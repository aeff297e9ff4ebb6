"""Texts of an answer, of a comparison and of a proposal, by templates in workflow/report/templates/."""

import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from howmanygpus.report.rows import name_count
from howmanygpus.report.words import (
    WHOLE,
    Value,
    brief,
    choose_runs,
    choose_unit,
    fill,
    is_cut,
    scale,
    write_duration,
    write_median,
    write_number,
    write_target,
    write_value,
)

Facts = dict[str, Any]
WIDTH, HEIGHT = 100, 25
"""Columns of texts, and lines of a first screen."""
MOST = (
    *({"doubts": 3, "rows": rows, "alternatives": 4, "decisions": 3} for rows in (8, 6, 4)),
    *({"doubts": doubts, "rows": 4, "alternatives": 4, "decisions": 3} for doubts in (2, 1)),
    *({"doubts": 1, "rows": 4, "alternatives": most, "decisions": 3} for most in (3, 2)),
    *({"doubts": 1, "rows": rows, "alternatives": 1, "decisions": 8} for rows in (3, 2)),
    *({"doubts": 1, "rows": 0, "alternatives": most, "decisions": 8} for most in (2, 1, 0)),
    *({"doubts": 0, "rows": 0, "alternatives": 0, "decisions": decisions} for decisions in (8, 4)),
)
"""Most parts of each kind that a first screen shows, from the fullest to the shortest."""
ALL = dict.fromkeys(MOST[0], 1000)
MOST_ROWS = 8
"""Rows of the table on the page of an answer."""
DISTURBED = "disturbed"
"""Last column of a table in which some configurations were disturbed, and others not."""
BASELINE, COMMON_BASELINE = "baseline", "baseline of all"
"""Words for the baseline of one series, and of all in a table."""
GAP = "  "
"""Between the columns of a table."""


def render_answer(facts: Facts, suffix: str) -> str:
    """Return the answer to a study, with its details. suffix: md or txt, which begins with the first screen."""
    most = _choose_most(facts)[0] if suffix == "txt" else ALL
    names = _collect(facts, most)
    text = fill_text(f"answer.{suffix}.jinja", is_folded=suffix == "txt", **names)
    return _join_paragraphs(text)


def render_screen(facts: Facts) -> str:
    """Return the first screen of an answer, with as much of the facts as fits. It ends by saying where the rest is."""
    return _choose_most(facts)[1]


def render_overview(answers: Sequence[Facts], bill: Facts | None) -> str:
    """Return the first screen of several answers: the decisions of as many studies as fit, and the common bill.

    answers: the facts of each study. bill: see report.answer.bill.
    """
    for num_studies in range(len(answers), 0, -1):
        text = fill_text("answers_screen.txt.jinja", answers=answers, num_studies=num_studies, bill=bill)
        text = _join_paragraphs(text)
        if len(text.splitlines()) <= HEIGHT:
            break
    return text


def render_bill(bill: Facts) -> str:
    """Return the line about the bill of several studies. bill: see report.answer.bill."""
    return fill_text("bill.jinja", is_folded=False, bill=bill)


def list_sections(facts: Facts) -> list[dict[str, Any]]:
    """Return what the decision leaves out: headings, which say how much is below them, each with its lines.

    The name of a section is its heading without how much it is, as in a sentence. Facts without details have none.
    """
    if not facts["details"]:
        return []
    reasons = [each["why"] for each in facts["decisions"] if each["why"] and each["why"]["kind"] == "curve"]
    told = [each["curve"] for each in reasons if not is_cut(brief(each["curve"]))]
    sections: list[dict[str, Any]] = []
    for line in fill("answer_sections.jinja", facts=facts, told=told).splitlines():
        if line.startswith("# "):
            heading = line.removeprefix("# ")
            name = heading.partition(" (")[0]
            sections.append({"heading": heading, "name": name[0].lower() + name[1:], "lines": []})
        elif line:
            sections[-1]["lines"].append(line)
    return [section for section in sections if section["lines"]]


def split_doubts(doubts: list[Facts], most: int) -> tuple[list[Facts], list[Facts]]:
    """Return the doubts that a first screen shows, and all others with those that it cuts.

    Of the doubts that would be cut, only the gravest is shown.
    """
    shown = [doubt for place, doubt in enumerate(doubts[:most]) if not place or not is_cut(doubt["text"])]
    return shown, [doubt for doubt in doubts if doubt not in shown or is_cut(doubt["text"])]


def _collect(facts: Facts, most: dict[str, int]) -> dict[str, Any]:
    """Return what the templates of an answer are filled with. most: parts of each kind that the first screen shows."""
    decisions = facts["decisions"]
    left = [split_doubts(each["doubts"], most["doubts"])[1] for each in decisions[: most["decisions"]]]
    left += [each["doubts"] for each in decisions[most["decisions"] :]]
    doubts = [(each["of"], doubt) for each, own in zip(decisions, left, strict=True) for doubt in own]
    return {"facts": facts, "most": most, "doubts": doubts, "sections": list_sections(facts)} | _FUNCTIONS


def _choose_most(facts: Facts) -> tuple[dict[str, int], str]:
    """Return how many parts of each kind fit on a screen, and its text."""
    for most in MOST:
        text = _join_paragraphs(fill_text("answer_screen.txt.jinja", **_collect(facts, most)))
        if len(text.splitlines()) <= HEIGHT:
            break
    return most, text


def _join_paragraphs(text: str) -> str:
    """Return a text with one empty line between paragraphs, and none at its ends."""
    return re.sub("\n{3,}", "\n\n", text).strip("\n") + "\n"


def render_proposal(facts: Facts, suffix: str) -> str:
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
    not fit, then which repeats were disturbed, and then names are cut.
    """
    counts, left_out = _choose_rows(decision["counts"], num_rows), len(decision["counts"]) - num_rows
    more = [f"  and {name_count(left_out, 'more row')}, in answer.json"] if left_out > 0 else []
    lines = align(_list_counts(decision, counts, unit, write_value))
    if max(map(len, lines)) > WIDTH:
        rows = _list_counts(decision, counts, unit, write_median)
        # Also the doubts say what was disturbed.
        lines = align(
            rows if max(map(len, align(rows))) <= WIDTH or rows[0][-1] != DISTURBED else [row[:-1] for row in rows]
        )
    if max(map(len, lines)) > WIDTH:
        lines = align(_shorten_baseline(rows))
    if (excess := max(map(len, lines)) - WIDTH) > 0:
        longest = max(len(one["series"]) for one in counts) - excess
        short = [one | {"series": _cut(one["series"], longest)} for one in counts]
        rows = _shorten_baseline(_list_counts(decision, short, unit, write_median))
        lines = align([row[: -1 if rows[0][-1] == DISTURBED else None] for row in rows])
    return [*lines, *more]


def _shorten_baseline(rows: list[list[str]]) -> list[list[str]]:
    return [[cell.replace(COMMON_BASELINE, BASELINE) for cell in row] for row in rows]


def write_markdown_table(decision: Facts, unit: str) -> list[str]:
    """Return the lines of the same table in Markdown, with all device counts and intervals."""
    return _write_markdown(_list_counts(decision, decision["counts"], unit, write_value))


def compare_rows(decision: Facts, unit: str) -> dict[str, Any]:
    """Return the table of a page: the best configuration on each number of devices, and what stands beside them.

    If there is room, further series follow: those on as many devices as are recommended, and then the others. The
    result has the head, the rows with whether they are recommended, and the number of those that are left out.
    """
    recommended = decision["recommended"] or {}
    counts = _choose_rows(decision["counts"], MOST_ROWS)
    known = [{key: each for key, each in one.items() if key != "is_recommended"} for one in decision["counts"]]
    others = [one | {"is_recommended": False} for one in decision["configurations"] if one not in known]
    others.sort(key=lambda one: (one["num_gpus"] != recommended.get("num_gpus"), one[decision["clock"]]["median"]))
    rows = [*counts, *others[: MOST_ROWS - len(counts)]]
    rows.sort(key=lambda one: (one["num_gpus"], one["num_nodes"], one[decision["clock"]]["median"]))
    (_, *head), *cells = _list_counts(decision, rows, unit, write_median)
    return {
        "head": head,
        "rows": [
            {"cells": own, "is_recommended": one["is_recommended"]} for one, (_, *own) in zip(rows, cells, strict=True)
        ],
        "num_left_out": len(known) + len(others) - len(rows),
    }


def _write_markdown(rows: list[list[str]]) -> list[str]:
    head, *others = rows
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---:"] * len(head), *others)]


_FUNCTIONS: dict[str, Any] = {
    "table": write_table,
    "markdown_table": write_markdown_table,
    "split_doubts": split_doubts,
}
"""Functions that the templates of an answer call."""


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
    known = [*decision["counts"], *decision["configurations"]]
    base = next(((one["num_gpus"], one["num_nodes"]) for one in known if one["is_baseline"]), (0, 0))
    # Without a baseline on the fewest devices, because it was disturbed, nothing can be compared with it.
    if 0 < base[0] <= min(one["num_gpus"] for one in counts):
        is_common = len({one["series"] for one in counts}) > 1
        shares = [_write_efficiency(one, base, is_common) for one in counts]
        if any("%" in share for share in shares):
            columns["efficiency"] = shares
    if priced:
        num_runs = 1 if is_rated else choose_runs(one[cost]["median"] for one in priced)
        per = f" per million {unit}" if is_rated else f"/{num_runs:,} runs" if num_runs > 1 else ""
        prices = [write_number(num_runs * one[cost]["median"]) if one[cost] else "-" for one in counts]
        columns[f"{priced[0]['currency']}{per}"] = prices
    elif is_target:
        name, size = choose_unit(max(one["device_seconds"] for one in counts))
        columns[f"device-{name}"] = [write_number(one["device_seconds"] / size) for one in counts]
    # If all are, a doubt says so.
    if any(one["num_disturbed"] for one in counts) and not all(one["num_disturbed"] for one in counts):
        columns[DISTURBED] = [f"{one['num_disturbed']} of {len(one['run_dirs'])}" for one in counts]
    if all(one["num_nodes"] == 1 for one in counts):
        del columns["nodes"]
    return [[*columns], *map(list, zip(*columns.values(), strict=True))]


def _write_efficiency(one: dict[str, Any], base: tuple[int, int], is_common: bool) -> str:
    """Write the efficiency of a configuration, which has none on the baseline's place.

    base: devices and nodes of the baseline; is_common: whether configurations of several series are over it.
    """
    if one["is_baseline"]:
        return COMMON_BASELINE if is_common else BASELINE
    if (one["num_gpus"], one["num_nodes"]) == base:
        return ""
    return "-" if one["efficiency"] is None else f"{100 * one['efficiency']:.0f} %"


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

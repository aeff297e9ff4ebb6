"""The text of a comparison, by its template in workflow/report/."""

from typing import Any

import numpy as np

from howmanygpus.report.answer.texts import align, fill_text
from howmanygpus_tools.compare.comparison import Comparison

RELATIVE = ("relative", "low", "high")
"""Columns of the ratios of frameworks relative to each other."""


def name_least(comparison: Comparison) -> str:
    """Name the least difference of each framework that a comparison could show; nothing if no interval is known."""
    known = [one for one in comparison.frameworks if not np.isnan(one.least)]
    text = ", ".join(f"{one.least:.0%} of {one.names['framework']}".replace("%", " %") for one in known)
    if known and comparison.relative:
        text += f", or {100 * max(one.least for one in comparison.relative):.0f} % relative to each other"
    return text


def write_ratios(comparison: Comparison) -> list[str]:
    """Return the lines of the table of ratios by framework."""
    rows = [["", "framework", "x as fast", "low", "high", *(RELATIVE if comparison.relative else ())]]
    for one in comparison.frameworks:
        found = [one, *filter(None, [comparison.find_relative(one)])]
        numbers = [number for each in found for number in (each.ratio, each.low, each.high)]
        cells = [f"{number:.3f}" if np.isfinite(number) else "-" for number in numbers]
        is_named = any(each.is_difference for each in found)
        rows.append([">" if is_named else "", one.names["framework"], *cells, *[""] * (len(rows[0]) - 2 - len(cells))])
    return align(rows)


def render_comparison(comparison: Comparison, changes: list[str], first: str, second: str) -> str:
    """Return the text about two results. changes: of their circumstances; first, second: what they are called."""
    names: dict[str, Any] = {"comparison": comparison, "changes": changes, "first": first, "second": second}
    return fill_text("comparison.txt.jinja", table=write_ratios, name_least=name_least, **names)

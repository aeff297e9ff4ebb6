"""Words and columns of a dry run's summary."""

from collections import Counter
from collections.abc import Callable, Iterable

from howmanygpus.plan.dry_run.estimate import Duration

NAMED = 20
"""Runs that are named for each reason to do them again."""


def count(words: Iterable[str]) -> list[str]:
    """Return each word with how often it occurs, the most frequent first; a word that is alone needs no number."""
    counts = Counter(words)
    return [f"{number} {word}" for word, number in counts.most_common()] if len(counts) > 1 else list(counts)


def name_some(names: list[str]) -> list[str]:
    more = [f"  and {len(names) - NAMED} more; --printshellcmds lists all"] if len(names) > NAMED else []
    return [f"  {name}" for name in names[:NAMED]] + more


def align(rows: list[tuple[str, ...]]) -> list[str]:
    """Return the rows of a table as lines. Numbers are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = [
        [cell.rjust(width) if cell.isdigit() else cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        for row in rows
    ]
    return [f"  {'  '.join(cells)}".rstrip() for cells in aligned]


def format_s(seconds: float) -> str:
    """Return a duration in words, such as `40 s`, `13 min` or `2 h 10 min`."""
    minutes = round(seconds / 60)
    if seconds < 89.5:
        return f"{seconds:.0f} s"
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"


def format_h(seconds: float) -> str:
    hours = seconds / 3600
    if 0 < hours < 0.01:
        return "< 0.01"
    return f"{hours:.2g}" if hours < 99.5 else f"{hours:.0f}"


def describe_duration(duration: Duration, form: Callable[[float], str] = format_s) -> str:
    """Return what is known of a duration, such as `12 min + an unknown rest of at most 30 min`.

    Limits of some jobs say nothing about all of them.
    """
    known = form(duration.seconds)
    if duration.is_complete and not duration.limit_s:
        return known
    most = f"at most {form(duration.limit_s)}" if duration.is_complete else ""
    if not duration.seconds:
        return f"unknown, {most}" if most else "unknown"
    return f"{known} + an unknown rest of {most}" if most else f"{known} + an unknown rest"

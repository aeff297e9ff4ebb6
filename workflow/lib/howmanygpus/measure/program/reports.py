"""
Reports of a program about its progress: lines of JSON in a file, or lines of output that regular expressions match.

A report has `step` (steps done so far), `epoch` with `metric`, or an outcome under `status`. `time` is when it was
made, in seconds since 1970; without it, the moment of its arrival counts. measure.program.timeline compares both.
"""

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

REPORT_VARIABLE = "HOWMANYGPUS_REPORT"
"""Environment variable with the file to which a program writes its reports."""
OUTCOMES = ("diverged", "out_of_memory", "unsupported")
"""Outcomes that a program may report as `status`."""
NUMBERS = {"step": int, "samples": int, "epoch": int, "loss": float, "time": float}
KNOWN = {*NUMBERS, "metric", "status", "reason", "versions"}
PLAIN_GROUPS = ("step", "samples", "epoch", "loss")
"""Groups of a regular expression that are no metrics."""
RANGES = {
    "accuracy": (0.0, 1.0),
    "top5_accuracy": (0.0, 1.0),
    "macro_auc": (0.0, 1.0),
    "roc_auc": (0.0, 1.0),
    "test_loss": (0.0, math.inf),
}
"""Lowest and highest value of the metrics that the workflow knows; see RANGE in report/metrics/."""
PER_CENT = "_percent"
"""End of the name of a metric that is reported in per cent, such as accuracy_percent."""
LINE_END = re.compile(r"[\r\n\x08]|\x1b\[[\d;]*[ABEFGHf]")
"""What ends a line, or moves a terminal's cursor back so that the next line overwrites it, as progress bars do."""
TERMINAL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\].*?(\x07|\x1b\\)|\x1b[ -/]*[0-~]|[\x00-\x08\x0e-\x1f\x7f]")
"""What a terminal obeys instead of showing it: colours, movements of the cursor, titles, backspaces (ECMA-48)."""

EXAMPLE = 'write one object a line, such as {"step": 10, "samples": 640}'


class ReportError(ValueError):
    """A report cannot be understood, or contradicts an earlier one. The message contains the report."""


@dataclass(frozen=True)
class Report:
    """One report. samples: of all devices since the start. metric: values by name. time: seconds since 1970.

    has_time: whether the program gave the time. is_clear: whether no clock was set since the report before.
    """

    time: float
    has_time: bool = False
    is_clear: bool = True
    step: int | None = None
    samples: int | None = None
    epoch: int | None = None
    loss: float | None = None
    metric: dict[str, float] = field(default_factory=dict)
    status: str = ""
    reason: str = ""
    versions: dict[str, str] = field(default_factory=dict)


def parse_json(line: str, arrived: float) -> Report:
    """Read a line of JSON. Raises ReportError if it is no report."""
    try:
        values = json.loads(line)
    except json.JSONDecodeError:
        raise ReportError(f"the report {line!r} is not JSON; {EXAMPLE}") from None
    if not isinstance(values, dict) or not values:
        raise ReportError(f"the report {line!r} is not an object with keys; {EXAMPLE}")
    if unknown := sorted(set(values) - KNOWN):
        known = ", ".join(sorted(KNOWN))
        raise ReportError(f"the report {line!r} has the unknown key {unknown[0]!r}; known are {known}")
    if values.get("status", OUTCOMES[0]) not in OUTCOMES:
        raise ReportError(f"the report {line!r} has an unknown status; known are {', '.join(OUTCOMES)}")
    if ("metric" in values) and "epoch" not in values:
        raise ReportError(f"the report {line!r} has a metric and no epoch; add the key epoch")
    return _build(values, line, arrived)


def match_output(patterns: Iterable[re.Pattern], line: str, arrived: float) -> list[Report]:
    """Return a report for each expression that matches a line of output, as a terminal would show it."""
    line = TERMINAL.sub("", line)
    found = [match.groupdict() for pattern in patterns if (match := pattern.search(line))]
    return [_build(sort_groups(groups), line.strip(), arrived) for groups in found]


def sort_groups(groups: dict[str, Any]) -> dict[str, Any]:
    """Return a report's values from the groups of an expression. Every group outside PLAIN_GROUPS is a metric."""
    given = {name: value for name, value in groups.items() if value is not None}
    values = {name: given[name] for name in PLAIN_GROUPS if name in given}
    metric = {name: value for name, value in given.items() if name not in PLAIN_GROUPS}
    return values | ({"metric": metric} if metric else {})


def _build(values: dict, line: str, arrived: float) -> Report:
    read: dict[str, Any] = {"time": arrived, "has_time": "time" in values}
    try:
        read |= {name: _convert(kind, values[name]) for name, kind in NUMBERS.items() if name in values}
        read["metric"] = dict(_read_metric(str(name), value) for name, value in dict(values.get("metric", {})).items())
    except (TypeError, ValueError):
        remedy = "step, samples and epoch are whole numbers, loss and time numbers, metric an object of numbers"
        raise ReportError(f"the report {line!r} has a value that is not a number; {remedy}") from None
    if any(not math.isfinite(value) for value in [read["time"], *read["metric"].values()]):
        remedy = "leave out what is unknown, and report a loss that is not finite as loss"
        raise ReportError(f"the report {line!r} has a metric or a time that is not finite; {remedy}")
    if min(read.get("step", 0), read.get("samples", 0)) < 0:
        raise ReportError(f"the report {line!r} has a negative number; count from the start of the training")
    for name, value in read["metric"].items():
        low, high = RANGES.get(name, (-math.inf, math.inf))
        if not low <= value <= high:
            problem = f"has the {name} {value:g}, which is not between {low:g} and {high:g}"
            raise ReportError(f"the report {line!r} {problem}; report per cent under the name {name}{PER_CENT}")
    named = values.get("versions", {})
    if not isinstance(named, dict):
        raise ReportError(f'the report {line!r} has versions that are no object; write {{"torch": "2.13"}}')
    versions = {str(name): str(version) for name, version in named.items()}
    return Report(**read, status=values.get("status", ""), reason=str(values.get("reason", "")), versions=versions)


def _read_metric(name: str, value: Any) -> tuple[str, float]:
    """Return name and value of a metric, as a fraction if it is in per cent."""
    if name.endswith(PER_CENT):
        return name.removesuffix(PER_CENT), float(value) / 100
    return name, float(value)


def _convert(kind: type, value: Any) -> float | int:
    """Convert a number, also one in text such as 1,024. Raises ValueError if it is not whole and kind is int."""
    number = float(value.replace(",", "")) if isinstance(value, str) else float(value)
    if kind is int and not number.is_integer():
        raise ValueError(value)
    return kind(number)

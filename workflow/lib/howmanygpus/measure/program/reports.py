"""
Reports of a program about its progress: lines of JSON in a file, or lines of output that regular expressions match.

A report has `step` (steps done so far), `epoch` with `metric`, `checkpoint`, an outcome under `status`, or facts of the
whole program. `time` is when it was made, in seconds since 1970; without it, the moment of its arrival counts.
measure.program.timeline compares both.
"""

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

REPORT_VARIABLE = "HOWMANYGPUS_REPORT"
"""Environment variable with the file to which a program writes its reports."""
CONTROL_VARIABLE = "HOWMANYGPUS_CONTROL"
"""Environment variable with the part of its work that a program is to leave out, one of CONTROLS."""
CONTROLS = ("resident_input", "no_exchange")
OUTCOMES = ("diverged", "out_of_memory", "unsupported")
"""Outcomes that a program may report as `status`."""
COUNTS = ("step", "samples", "epoch")
FACTS = {"flops_per_sample": float, "parameters": int}
"""Positive numbers that hold for the whole program: operations of training with one sample, and trained parameters."""
NUMBERS = {**dict.fromkeys(COUNTS, int), "loss": float, "time": float, **FACTS}
BEGIN, END = "begin", "end"
"""Values of `checkpoint`."""
ONCE = (*FACTS, "sharded", "control")
"""Keys that say nothing of a moment, so that they are read from the file also of a program whose output is read."""
KNOWN = {*NUMBERS, *ONCE, "metric", "checkpoint", "status", "reason", "versions"}
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

NUMBER_FORM = r"[-+.\w]+"
"""The documented expression for a number. It takes 12, 0.5, -0.12, 2.0e-05, nan and inf."""
CUT = re.compile(r"\d(?:[eE][-+]?|\.)\d")
"""The last digit of a group and what follows, if both are one number."""
THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+")
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)(?!\w)", re.IGNORECASE)
PLAIN_NUMBER = re.compile(r"\d+(?:\.\d+)?")
"""A number that every expression for numbers takes."""
ANNOUNCED = re.compile(r"\s*(?:/|of)\s*(?P<total>\d+)\b")
"""What follows a step if a line says how many there will be, as in 20/60 and 20 of 60."""

REMEDIES = {
    "flops_per_sample": "report the operations of forward and backward pass for one sample, all devices together",
    "parameters": "report the number of parameters that the whole model trains",
}
EXAMPLE = 'write one object a line, such as {"step": 10, "samples": 640}'


class ReportError(ValueError):
    """A report cannot be understood, or contradicts an earlier one. The message contains the report."""


@dataclass(frozen=True)
class Report:
    """One report. samples: of all devices since the start. metric: values by name. time: seconds since 1970.

    flops_per_sample, parameters: see FACTS. is_sharded: whether each device keeps a part of the parameters alone; None
    if nothing was said. control: what the program leaves out, as it was asked to. checkpoint: BEGIN, END or empty.
    line: what it was read from. announced: the last step that the line announces. has_time: whether the program gave
    the time. is_clear: whether no clock was set since the report before.
    """

    time: float
    line: str = ""
    has_time: bool = False
    is_clear: bool = True
    step: int | None = None
    announced: int | None = None
    samples: int | None = None
    epoch: int | None = None
    loss: float | None = None
    metric: dict[str, float] = field(default_factory=dict)
    checkpoint: str = ""
    flops_per_sample: float | None = None
    parameters: int | None = None
    is_sharded: bool | None = None
    control: str = ""
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
    if values.get("checkpoint", BEGIN) not in (BEGIN, END):
        known = f'"{BEGIN}" before it is written and "{END}" after it'
        raise ReportError(f"the report {line!r} has an unknown checkpoint; report {known}")
    if values.get("control", CONTROLS[0]) not in CONTROLS:
        raise ReportError(f"the report {line!r} has an unknown control; known are {', '.join(CONTROLS)}")
    if not isinstance(values.get("sharded", False), bool):
        raise ReportError(f"the report {line!r} has sharded, which is neither true nor false; report one of them")
    if ("metric" in values) and "epoch" not in values:
        raise ReportError(f"the report {line!r} has a metric and no epoch; add the key epoch")
    return _build(values, line, arrived)


def parse_facts(line: str) -> Report | None:
    """Read the keys ONCE of a line of JSON; None if it has none. All others are of a program whose output is read."""
    try:
        values = json.loads(line)
    except json.JSONDecodeError:
        return None
    kept = {key: values[key] for key in ONCE if key in values} if isinstance(values, dict) else {}
    return parse_json(json.dumps(kept), 0.0) if kept else None


def match_output(patterns: Iterable[re.Pattern], line: str, arrived: float) -> list[Report]:
    """Return a report for each expression that matches a line of output, as a terminal would show it.

    Raises ReportError if an expression takes only a part of a number, or a count in per cent.
    """
    line = TERMINAL.sub("", line)
    return [_read_match(match, line, arrived) for pattern in patterns if (match := pattern.search(line))]


def _read_match(match: re.Match, line: str, arrived: float) -> Report:
    for name, value in match.groupdict().items():
        if value and (rest := _find_cut(match, name, line)):
            problem = f"has the {name} {value}{rest}, of which '{match.re.pattern}' takes {value} alone"
            raise ReportError(f"the line {line.strip()!r} {problem}; write (?P<{name}>{NUMBER_FORM})")
        if value and name in COUNTS and re.match(r" ?%", line[match.end(name) :]):
            remedy = "let the expression go on to the number behind it, as in 5/10"
            raise ReportError(
                f"the line {line.strip()!r} has the {name} {value}% in per cent, which is no count; {remedy}"
            )
    report = _build(sort_groups(match.groupdict()), line.strip(), arrived)
    if report.step is not None and (found := ANNOUNCED.match(line, match.end("step"))):
        return replace(report, announced=int(found["total"]))
    return report


def _find_cut(match: re.Match, name: str, line: str) -> str:
    """Return the rest of a number whose begin is in a group; empty if the group ends with the number."""
    end = match.end(name)
    rest = re.match(r"[\w.,+-]*", line[end:])
    assert rest is not None
    is_open = end == match.end() and re.match(r"\d,\d", line[end - 1 :])
    return rest[0].rstrip(".,") if CUT.match(line, end - 1) or is_open else ""


def shape(line: str) -> tuple[str, list[str]]:
    """Return a line with a sign in place of each number, and the numbers."""
    return NUMBER.sub("#", line), NUMBER.findall(line)


def find_unusual(line: str, matched: str) -> str:
    """Return the number that kept a line from being matched as another of the same form was; empty if there is none."""
    (form, numbers), (other, before) = shape(TERMINAL.sub("", line)), shape(TERMINAL.sub("", matched))
    if form != other:
        return ""
    pairs = zip(numbers, before, strict=True)
    return next((one for one, old in pairs if PLAIN_NUMBER.fullmatch(old) and not PLAIN_NUMBER.fullmatch(one)), "")


def sort_groups(groups: dict[str, Any]) -> dict[str, Any]:
    """Return a report's values from the groups of an expression. Every group outside PLAIN_GROUPS is a metric."""
    given = {name: value for name, value in groups.items() if value is not None}
    values = {name: given[name] for name in PLAIN_GROUPS if name in given}
    metric = {name: value for name, value in given.items() if name not in PLAIN_GROUPS}
    return values | ({"metric": metric} if metric else {})


def _build(values: dict, line: str, arrived: float) -> Report:
    read: dict[str, Any] = {"line": line, "time": arrived, "has_time": "time" in values}
    try:
        read |= {name: _convert(kind, values[name]) for name, kind in NUMBERS.items() if name in values}
        read["metric"] = dict(_read_metric(str(name), value) for name, value in dict(values.get("metric", {})).items())
    except (TypeError, ValueError):
        remedy = "step, samples, epoch and parameters are whole numbers, others numbers with a decimal point"
        raise ReportError(f"the report {line!r} has a value that is not a number; {remedy}") from None
    if any(not math.isfinite(value) for value in [read["time"], *read["metric"].values()]):
        remedy = "leave out what is unknown, and report a loss that is not finite as loss"
        raise ReportError(f"the report {line!r} has a metric or a time that is not finite; {remedy}")
    if min(read.get("step", 0), read.get("samples", 0)) < 0:
        raise ReportError(f"the report {line!r} has a negative number; count from the start of the training")
    for name in (name for name in FACTS if name in read):
        if not 0 < read[name] < math.inf:
            problem = f"has the {name} {read[name]:g}, which is not a positive number"
            raise ReportError(f"the report {line!r} {problem}; {REMEDIES[name]}, or leave it out")
    for name, value in read["metric"].items():
        low, high = RANGES.get(name, (-math.inf, math.inf))
        if not low <= value <= high:
            problem = f"has the {name} {value:g}, which is not between {low:g} and {high:g}"
            raise ReportError(f"the report {line!r} {problem}; report per cent under the name {name}{PER_CENT}")
    named = values.get("versions", {})
    if not isinstance(named, dict):
        raise ReportError(f'the report {line!r} has versions that are no object; write {{"torch": "2.13"}}')
    versions = {str(name): str(version) for name, version in named.items()}
    read |= {"checkpoint": values.get("checkpoint", ""), "control": values.get("control", "")}
    read |= {"is_sharded": values.get("sharded")}
    return Report(**read, status=values.get("status", ""), reason=str(values.get("reason", "")), versions=versions)


def _read_metric(name: str, value: Any) -> tuple[str, float]:
    """Return name and value of a metric, as a fraction if it is in per cent."""
    if name.endswith(PER_CENT):
        return name.removesuffix(PER_CENT), _convert(float, value) / 100
    return name, _convert(float, value)


def _convert(kind: type, value: Any) -> float | int:
    """Convert a number; a whole one may have commas, such as 1,024. Raises ValueError if it is none of its kind."""
    if isinstance(value, str):
        value = value.rstrip(".,")
        if "," in value and kind is int and THOUSANDS.fullmatch(value):
            value = value.replace(",", "")
    number = float(value)
    if kind is int and not number.is_integer():
        raise ValueError(value)
    return kind(number)

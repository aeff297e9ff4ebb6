"""Reads files result.json, and refuses those that cannot be compared: each message names place, value and remedy."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from howmanygpus.config.errors import ConfigError, check_schema
from howmanygpus.measure.around.schema import LOADER, SCHEMA
from howmanygpus.report.result import VERSION, Result
from howmanygpus_tools.compare.comparison import Comparison, compare

REMEDY = "name a file result.json that this workflow wrote, as in results/tables/STUDY/"
AGAIN = "make it again from its runs by the target `available` of this version of the workflow"


class ResultError(ValueError):
    """A result cannot be used. The message names the file, the value and the remedy."""


@cache
def read_schema(name: str) -> dict[str, Any]:
    return yaml.load(SCHEMA.with_name(f"{name}.schema.yaml").read_text(), LOADER)


def read_result(path: Path) -> Result:
    """Return the result of a file. Raises ResultError."""
    try:
        text = path.read_text()
    except (OSError, ValueError) as error:
        raise ResultError(f"{path} cannot be read as a result: {error}; {REMEDY}") from None
    if not text.strip():
        raise ResultError(f"{path} is empty; {REMEDY}")
    try:
        result = json.loads(text)
    except ValueError as error:
        raise ResultError(f"{path} is no JSON: {error}; {REMEDY}") from None
    if not isinstance(result, dict) or "configurations" not in result:
        raise ResultError(f"{path} is no result; {REMEDY}")
    if result.get("version") != VERSION:
        raise ResultError(f"{path}: version: {result.get('version')!r} is not {VERSION}; {AGAIN}")
    try:
        check_schema(result, read_schema("result"), "result", str(path))
    except ConfigError as error:
        raise ResultError(f"{error}; {AGAIN}") from None
    return result


def rename_framework(result: Result, old: str, new: str, place: str) -> Result:
    """Return a result in which a framework has another name. Raises ResultError. place: what the result is called."""
    known = sorted({one["framework"] for one in result["configurations"]})
    if old not in known or new in known:
        problem = f"has no framework {old}" if old not in known else f"already has a framework {new}"
        raise ResultError(
            f"{place} {problem}; it has {', '.join(known)}: write the name there, then the other result's"
        )
    configurations = [one | {"framework": new} if one["framework"] == old else one for one in result["configurations"]]
    return result | {"configurations": configurations}


def compare_named(first: Result, second: Result, first_name: str, second_name: str) -> Comparison:
    """Compare two results that have something in common. Raises ResultError, which says why they have not."""
    if first == second:
        raise ResultError(f"{first_name} and {second_name} are the same result; name two results")
    for result, name in ((first, first_name), (second, second_name)):
        if not any(rate for one in result["configurations"] for rate in one["images_per_s"]):
            raise ResultError(f"{name} has no run with a rate; do its runs, or name another result")
    units = [result["decision"]["unit"] for result in (first, second)]
    if units[0] != units[1]:
        problem = f"{first_name} counts {units[0]} and {second_name} {units[1]}, whose rates are no ratio"
        raise ResultError(f"{problem}; compare results of one study, with one `unit` of its program")
    comparison = compare(first, second)
    if not comparison.configurations:
        raise ResultError(f"{first_name} and {second_name} have no configuration in common: {_tell(first, second)}")
    return comparison


def _tell(first: Result, second: Result) -> str:
    """Say in which of their names two results have nothing in common, and what to do."""
    for name, remedy in (
        ("dataset", "compare results of one study"),
        ("model", "compare results of one study"),
        ("framework", "if a framework was renamed, say so by RENAME=OLD=NEW or --rename OLD=NEW"),
        ("input", "compare results of one study"),
        ("precision", "compare results of one study"),
        ("variant", "compare results of one study"),
        ("num_gpus", "run a number of devices that both machines have"),
        ("global_batch_size", "run a batch that both have"),
    ):
        ours, theirs = ({str(one[name]) for one in each["configurations"]} for each in (first, second))
        if not ours & theirs:
            return f"{name} {', '.join(sorted(ours))} in the one, {', '.join(sorted(theirs))} in the other; {remedy}"
    return "they share no combination of framework, devices and batch; compare results of one study"

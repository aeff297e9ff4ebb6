"""
The gallery: results of studies that were sent in, each with what its sender states; checked, listed and compared.

An entry is a folder gallery/<name>/ with result.json and about.yaml. Entries of one study are compared with its oldest.
"""

import datetime
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from howmanygpus.config.errors import ConfigError, Errors, check_schema, refuse
from howmanygpus.measure.around.schema import LOADER
from howmanygpus.report.places import find_places
from howmanygpus.report.result import Result
from howmanygpus_tools.compare.comparison import Comparison, compare, find_changes, find_other_settings
from howmanygpus_tools.compare.result_files import ResultError, read_result, read_schema

FILES = ("about.yaml", "result.json")
NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
PASSED = "passed"
OF_MACHINE = ("cores_per_device", "loader_workers")
"""Settings that machine files choose, so that machines are compared although they differ."""


@dataclass(frozen=True)
class Entry:
    """One entry. about: content of its about.yaml."""

    name: str
    about: dict[str, Any]
    result: Result

    @property
    def study(self) -> tuple[str, str | None, str | None]:
        """Name of the study, its network and its data set: what entries that are compared have in common."""
        decision = self.result["decision"]
        return decision["study"], decision["network"], decision["dataset"]

    def list_counts(self) -> list[dict[str, Any]]:
        """Return the fastest configuration of each number of devices, by rising number."""
        fastest: dict[int, dict[str, Any]] = {}
        for one in self.result["configurations"]:
            if one["summary"]["images_per_s"]:
                best = fastest.setdefault(one["num_gpus"], one)
                if one["summary"]["images_per_s"]["median"] > best["summary"]["images_per_s"]["median"]:
                    fastest[one["num_gpus"]] = one
        return [fastest[count] for count in sorted(fastest)]

    @property
    def frameworks(self) -> list[str]:
        """Versions of the frameworks that were compared, the framework itself only."""
        completed = [one for one in self.result["configurations"] if one["framework_version"]]
        first_two = (" ".join(version.split()[:2]) for one in completed for version in one["framework_version"])
        return sorted(set(first_two))


@dataclass(frozen=True)
class Pair:
    """The comparison of two entries of a study.

    comparison: None if they cannot be compared, for the reason `refusal`. changes: what else differs.
    """

    first: Entry
    second: Entry
    comparison: Comparison | None
    changes: list[str]
    refusal: str = ""


def read_gallery(folder: Path, names: tuple[str, ...] = ()) -> list[Entry]:
    """Return all entries of a gallery by study and date. Raises ConfigError with all that is wrong with any of them.

    names: of hosts and users that no entry may have.
    """
    errors = Errors()
    entries: list[Entry] = []
    for path in sorted(each for each in folder.iterdir() if each.is_dir()):
        with errors.collect():
            entry = read_entry(path, names)
            same = [other.name for other in entries if other.result == entry.result]
            if same:
                raise refuse(
                    f"{path}/result.json", same[0], "is an entry with the same result", "send each result once"
                )
            entries.append(entry)
    errors.raise_all()
    return sorted(entries, key=lambda entry: (tuple(map(str, entry.study)), entry.about["date"], entry.name))


def read_entry(folder: Path, names: tuple[str, ...] = ()) -> Entry:
    """Return an entry. Raises ConfigError with all that is wrong with it."""
    errors = Errors()
    if not NAME.fullmatch(folder.name):
        errors.add(refuse(str(folder), folder.name, "is no name of an entry", "use lower-case letters, digits, dashes"))
    found = sorted(each.name for each in folder.iterdir())
    for name in sorted(set(found) ^ set(FILES)):
        problem, remedy = ("does not belong here", "remove it") if name in found else ("is missing", "add it")
        errors.add(refuse(str(folder), name, problem, remedy))
    about: dict[str, Any] = {}
    result: Result | None = None
    with errors.collect():
        about = read_about(folder / "about.yaml") if "about.yaml" in found else {}
    try:
        result = read_result(folder / "result.json") if "result.json" in found else None
    except ResultError as problem:
        errors.add(ConfigError(str(problem)))
    for name, content in (("about.yaml", about), ("result.json", result or {})):
        for place, text, kind in find_places(content, names):
            errors.add(refuse(f"{folder / name}: {place}", text, f"is {kind}", "take it out before you send the file"))
    if result:
        errors.add(*list_problems(result, about, f"{folder}/result.json"))
    errors.raise_all()
    return Entry(folder.name, about, result or {})


def read_about(path: Path) -> dict[str, Any]:
    """Return what a sender states. Raises ConfigError. YAML may read a date as one, which is written as text again."""
    try:
        about = yaml.load(path.read_text(), LOADER)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; write it as gallery/README.md shows") from None
    if not isinstance(about, dict):
        raise refuse(str(path), about, "states nothing", "write it as gallery/README.md shows")
    if isinstance(about.get("date"), datetime.date):
        about["date"] = about["date"].isoformat()
    check_schema(about, read_schema("about"), "about", str(path))
    return about


def list_problems(result: Result, about: dict[str, Any], place: str) -> list[ConfigError]:
    """Return what keeps a result that can be compared out of the gallery."""
    problems = []
    completed = [one for one in result["configurations"] if any(one["images_per_s"])]
    if not completed:
        problems.append(refuse(place, 0, "runs have a rate", "send a result with completed runs"))
    for one in completed:
        where = f"{place}: {one['framework']} on {one['num_gpus']}"
        for name in ("framework_version", "device_model", "git_commit"):
            if not one[name]:
                problems.append(
                    refuse(where, name, "is not known", "measure in a clone, with an environment of its own")
                )
        is_equal = one["parity"] and all(verdict.startswith(PASSED) for verdict in one["parity"])
        if not is_equal and not result["decision"]["is_program"]:
            remedy = "run the study with parity: required, so that the gate checks every framework"
            problems.append(refuse(f"{where}: parity", one["parity"], "is not passed alone", remedy))
    last_day = result["decision"]["last_day"]
    if about and about["date"] != last_day:
        remedy = f"write {last_day}, the day of the last run"
        problems.append(
            refuse(place.replace("result.json", "about.yaml: date"), about["date"], "is another day", remedy)
        )
    return problems


def pair_entries(entries: list[Entry]) -> list[Pair]:
    """Compare each entry of a study with the oldest one of it."""
    pairs: list[Pair] = []
    oldest: dict[tuple, Entry] = {}
    for entry in entries:
        first = oldest.setdefault(entry.study, entry)
        if first is not entry:
            pairs.append(make_pair(first, entry))
    return pairs


def make_pair(first: Entry, second: Entry) -> Pair:
    """Compare two entries, if they did the same work on the same images."""
    others = [each for each in find_other_settings(first.result, second.result) if not each.startswith(OF_MACHINE)]
    comparison = compare(first.result, second.result)
    manifests = [
        {each for one in entry.result["configurations"] for each in one["manifest_sha256"]} for entry in (first, second)
    ]
    refusal = ""
    units = [entry.result["decision"]["unit"] for entry in (first, second)]
    if units[0] != units[1]:
        refusal = f"one counts {units[0]} and the other {units[1]}"
    elif not comparison.configurations:
        refusal = "they have no configuration in common"
    elif manifests[0] != manifests[1]:
        refusal = "their images differ, by the hashes of their manifests"
    elif others:
        refusal = f"their settings differ: {'; '.join(others)}"
    changes = find_changes(first.result, second.result)
    return Pair(first, second, None if refusal else comparison, changes, refusal)

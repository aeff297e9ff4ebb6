"""Says why a job is done again although its output exists."""

import ast
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from howmanygpus.files import sha256_of_file

LIBRARY = Path(__file__).resolve().parents[3]
DEFAULT = "its default"
FILES_NAMED = 3
"""Changed files of code that are named; an update can change a hundred."""


def is_missing(job: Any) -> bool:
    return not all(Path(path).exists() for path in job.output)


class RerunReasons:
    """dag, persistence: Snakemake's plan of the call and its records. is_forced: whether the user forces jobs."""

    def __init__(self, dag: Any, persistence: Any, is_forced: bool):
        self._dag, self._persistence, self._is_forced = dag, persistence, is_forced
        self._hashes: dict[str, str] = {}

    def explain(self, job: Any) -> str:
        """Return in a few words why a job is done again."""
        reason = self._dag.reason(job)
        if reason.forced:
            return "forced" if self._is_forced else "interrupted"
        if reason.params_changed:
            changed = [_decode(value) for value in (*reason.params_changed.only_old, *reason.params_changed.only_new)]
            return "settings changed" if any(isinstance(value, dict) for value in changed) else "code changed"
        if reason.input_changed:
            return "other input"
        if reason.code_changed:
            return "the rule changed"
        return "input changed" if reason.updated_input else "after other steps"

    def explain_run(self, job: Any) -> str:
        """Return every reason to do a run again, with the settings and files that changed.

        Snakemake skips the checks of jobs downstream of a planned job, such as a new verdict, so all is compared here.
        """
        record, reason = job.output[0], self._dag.reason(job)
        changes = self._persistence.params_changed(job)
        found = ["forced" if self._is_forced else "interrupted"] if reason.forced else []
        old, new = (list(map(_decode, values)) for values in (changes.only_old, changes.only_new))
        if settings := compare_settings(_get_dict(old), _get_dict(new)):
            found.append(f"settings changed ({', '.join(settings)})")
        code = self._list_changed_code(str(record))
        # Other settings can take other code, such as another model.
        if any(isinstance(value, str) for value in new) and (code or not settings):
            found.append(_list_files("code changed", code))
        known = self._persistence.input(record)
        if any("/environments/" in path for path in job.input if known and path not in known):
            found.append("pins of the environment changed")
        if reason.updated_input:
            found.append(_list_files("input changed", map(str, reason.updated_input)))
        if any(self._persistence.code_changed(job)):
            found.append("the rule `train` changed")
        return ", ".join(found) or self.explain(job)

    def _list_changed_code(self, record: str) -> list[str]:
        """Return the files of code that a run executed and that have changed, or nothing if it did not note them."""
        try:
            code = json.loads(Path(record).read_text()).get("code", {})
        except FileNotFoundError:
            return []
        return [name.removeprefix("howmanygpus/") for name, digest in code.items() if self._hash(name) != digest]

    def _hash(self, name: str) -> str:
        if name not in self._hashes:
            # Files of users' models and programs are named by their own paths.
            path = LIBRARY / name if (LIBRARY / name).exists() else Path(name)
            self._hashes[name] = sha256_of_file(path) if path.exists() else ""
        return self._hashes[name]


def compare_settings(old: dict, new: dict) -> list[str]:
    """Return what differs between a run's settings then and now, such as `steps: 24 -> 30`."""
    before, now = _flatten(old), _flatten(new)
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    return [f"{name}: {_show(before, name)} -> {_show(now, name)}" for name in names]


def _show(settings: dict, name: str) -> str:
    return json.dumps(settings[name]) if name in settings else DEFAULT


def _flatten(settings: dict, prefix: str = "") -> dict:
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= _flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _get_dict(values: list) -> dict:
    return next((value for value in values if isinstance(value, dict)), {})


def _decode(value: str) -> Any:
    """Return a parameter as the rule gave it: Snakemake stores its representation. Settings are JSON."""
    try:
        given = ast.literal_eval(value)
        return json.loads(given) if isinstance(given, str) and given.startswith("{") else given
    except (ValueError, SyntaxError):
        return value


def _list_files(what: str, names: Iterable[str]) -> str:
    files = sorted(names)
    more = f" and {len(files) - FILES_NAMED} more" if len(files) > FILES_NAMED else ""
    return f"{what} ({', '.join(files[:FILES_NAMED])}{more})" if files else what

"""
What a step of the workflow is asked to do, as arguments in JSON: the named files of its rule, and further values.

The first argument is {"input": {...}, "output": {...}, "wildcards": {...}} by the names in the rule. Each argument
after it is an object of values. A step is started by hand with the same arguments.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Files = Mapping[str, str | list[str]]
FOUND = "results"
"""Name of inputs that a step finds below `results/` by itself. A list of all runs may be longer than a command."""


@dataclass(frozen=True)
class Request:
    """input, output: a path for each name, or a list of paths, which is empty for what this step lacks."""

    input: SimpleNamespace
    output: SimpleNamespace
    wildcards: SimpleNamespace
    values: SimpleNamespace


def write_files(files: Files, made: Files, wildcards: Mapping[str, str]) -> str:
    """Return the first argument. files, made: the inputs and the outputs."""
    listed = {name: paths for name, paths in files.items() if name != FOUND}
    return json.dumps({"input": listed, "output": dict(made), "wildcards": dict(wildcards)})


def read_request(*arguments: str) -> Request:
    """Read the arguments of a step, by default those of this process."""
    files, *values = map(json.loads, arguments or sys.argv[1:])
    given = {name: value for each in values for name, value in each.items()}
    read_input, read_output = (
        SimpleNamespace(**{name: _read_paths(paths) for name, paths in files[side].items()})
        for side in ("input", "output")
    )
    wildcards = SimpleNamespace(**files.get("wildcards", {}))
    return Request(read_input, read_output, wildcards, SimpleNamespace(**given))


def _read_paths(paths: Any) -> Path | list[Path]:
    return Path(paths) if isinstance(paths, str) else list(map(Path, paths))

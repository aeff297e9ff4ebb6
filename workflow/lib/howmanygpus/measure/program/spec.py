"""Specification of one run of a user's own program."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from howmanygpus.measure.spec import LaunchSpec


@dataclass(frozen=True)
class ProgramSpec(LaunchSpec):
    """One planned run of a program.

    warmup_steps: first steps that count in no rate.
    program: the keys of `program` in the study's config, with the values of the run's axes under `axes`, and the
        SHA-256 of each file by its path under `files`. In a control run, `control` is what the program leaves out; in
        the try of a batch size, `stop_after` is the step after which the program is stopped.
    """

    warmup_steps: int
    program: dict[str, Any]

    @classmethod
    def read(cls, path: str | Path) -> "ProgramSpec":
        return cls(**json.loads(Path(path).read_text()))

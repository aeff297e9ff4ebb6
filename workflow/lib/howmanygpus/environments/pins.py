"""
Which requirements files make an environment, and the hash of what they say.

A file counts by its requirements: comments, blank lines and spaces change no hash, and so install nothing again.
"""

import hashlib
import json
import re
from functools import cache
from pathlib import Path

FOLDER = Path("envs")
COMMENT = re.compile(r"(^|\s)#.*$")
"""As pip reads it (requirements file format): `#` begins a comment at the start of a line or after a space."""
HOROVOD = "horovod-"
"""Prefix of environments that contain Horovod, before the name of the environment it is built beside."""
HOROVOD_TOOLS, HOROVOD_SOURCE = FOLDER / "horovod.build.txt", FOLDER / "horovod.source.txt"


def read_requirements(path: Path) -> list[str]:
    """Requirements and options of one file, one string each, with continued lines joined."""
    text = Path(path).read_text().replace("\\\n", " ")
    lines = (" ".join(COMMENT.sub("", line).split()) for line in text.splitlines())
    return [line for line in lines if line]


def hash_requirements(paths: list[Path], *more: str) -> str:
    """SHA-256 of the requirements of some files, in order, and of `more` text."""
    content = [[read_requirements(path) for path in paths], *more]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def find_pins(environment: str) -> list[Path]:
    """Requirements files of an environment: its own, those it includes, and what its build needs installed first."""
    paths = [FOLDER / f"{environment}.txt"]
    for path in paths:
        included = (line.split()[1] for line in read_requirements(path) if line.startswith("-r "))
        paths += [FOLDER / name for name in included]
    build = FOLDER / f"{environment}.build.txt"
    return [*paths, *([build] if build.exists() else [])]


def split_pins(pins: list[Path]) -> tuple[list[Path], list[Path]]:
    """(what the build needs installed first, what is installed then)."""
    first = [path for path in pins if path.name.endswith(".build.txt")]
    return first, [path for path in pins if path not in first]


def as_options(pins: list[Path]) -> list[str]:
    """Requirements files as options of pip."""
    return [word for path in pins for word in ("--requirement", str(path))]


def find_horovod_base(environment: str) -> str | None:
    """The environment beside which the Horovod of another is built; None if there is no Horovod in it."""
    return environment.removeprefix(HOROVOD) if environment.startswith(HOROVOD) else None


@cache
def find_horovod_tools(environment: str) -> tuple[Path, ...]:
    """Pins of what builds an environment's Horovod, including a CUDA compiler where one can be installed."""
    compiler = FOLDER / f"horovod.build-{environment.rpartition('-')[2]}.txt"
    return (HOROVOD_TOOLS, *([compiler] if compiler.exists() else []))

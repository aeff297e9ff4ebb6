"""
Find the requirements files of an environment, and hash their requirements.

Comments, blank lines and spaces do not change the hash, so editing them installs nothing again.
"""

import hashlib
import json
import re
import sys
from functools import cache
from pathlib import Path

from howmanygpus.clone import CLONE

FOLDER = CLONE / "envs"
LOCKS = FOLDER / "locks"
"""Folder of the files that `make locks` writes: all packages of an environment with their hashes, as constraints."""
COMMENT = re.compile(r"(^|\s)#.*$")
"""A comment in pip's requirements file format: `#` begins it at the start of a line or after a space."""
HOROVOD = "horovod-"
"""Prefix of environments that contain Horovod; the name of the environment that it is built beside follows."""
HOROVOD_TOOLS, HOROVOD_SOURCE = FOLDER / "horovod.build.txt", FOLDER / "horovod.source.txt"

OLDEST_PYTHON = "3.11.4"
"""The oldest Python that runs the workflow and its environments; see workflow/scripts/check_python.py."""
NEWEST_PYTHONS = {"numpy==1.23.5": (3, 11)}
"""The newest Python for which there are builds of a pin. MXNet 1.9 and Chainer 7.8 do not run with a later NumPy."""


def read_requirements(path: Path) -> list[str]:
    """Return the requirements and options of one file, one string each, with continued lines joined."""
    text = Path(path).read_text().replace("\\\n", " ")
    lines = (" ".join(COMMENT.sub("", line).split()) for line in text.splitlines())
    return [line for line in lines if line]


def hash_requirements(paths: list[Path], *more: str) -> str:
    """Return the SHA-256 of the requirements of the files, in order, and of the text in `more`."""
    content = [[read_requirements(path) for path in paths], *more]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def list_pin_files(environment: str) -> list[Path]:
    """Return an environment's requirements files: its own, the included ones, its build requirements and its lock."""
    paths = [FOLDER / f"{environment}.txt"]
    for path in paths:
        included = (line.split()[1] for line in read_requirements(path) if line.startswith("-r "))
        paths += [FOLDER / name for name in included]
    more = FOLDER / f"{environment}.build.txt", LOCKS / f"{environment}.txt"
    return [*paths, *(path for path in more if path.exists())]


def is_lock(path: Path) -> bool:
    return path.parent.name == LOCKS.name


def read_newest_python(pins: list[Path]) -> tuple[int, int] | None:
    """Return the newest Python, such as (3, 11), with which an environment can be built; None if any will do."""
    lines = [line for path in pins for line in read_requirements(path)]
    return min((NEWEST_PYTHONS[line] for line in lines if line in NEWEST_PYTHONS), default=None)


def split_pins(pins: list[Path]) -> tuple[list[Path], list[Path]]:
    """Return (the build requirements, which are installed first; all other pins), each with the lock."""
    first = [path for path in pins if path.name.endswith(".build.txt")]
    others = [path for path in pins if path not in first]
    return [*first, *filter(is_lock, pins)] if first else [], others


def find_requirement(name: str, pins: list[Path]) -> str:
    """Return the exact requirement of a package, such as uv==0.13.9. Raises SystemExit if the pins have none."""
    for path in pins:
        for line in read_requirements(path):
            if line.startswith(f"{name}=="):
                return line
    sys.exit(f"{sys.executable} has no {name}, and {pins[0]} does not pin it; call `make .venv/installed`")


def as_options(pins: list[Path]) -> list[str]:
    """Return requirements files and locks as options of pip and of uv."""
    return [word for path in pins for word in ("--constraint" if is_lock(path) else "--requirement", str(path))]


def resolve_horovod_base(environment: str) -> str | None:
    """Return the environment beside which an environment's Horovod is built; None if it has no Horovod."""
    return environment.removeprefix(HOROVOD) if environment.startswith(HOROVOD) else None


@cache
def list_horovod_tools(environment: str) -> tuple[Path, ...]:
    """Return the pins of the tools that build Horovod, including a CUDA compiler if one can be installed."""
    compiler = FOLDER / f"horovod.build-{environment.rpartition('-')[2]}.txt"
    return (HOROVOD_TOOLS, *([compiler] if compiler.exists() else []))

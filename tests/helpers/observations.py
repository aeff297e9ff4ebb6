"""
What programs did that take long to start, kept in the cache by all it depends on.

What is kept is judged again by every test. CI does everything anew.
"""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from howmanygpus.base.environment import resolve_cache
from howmanygpus.files import hold_lock
from howmanygpus.study.invalidation import syntax
from howmanygpus.study.invalidation.pins import hash_pins
from project import ROOT

NUM_VERSIONS = 3
"""Folders that are kept of each name, so that clones and branches with other code do not remove each other's."""
COMPLETE = "complete"
"""File in a folder that is complete. A folder is not renamed, because what is in it may name its path."""
LIBRARY, TESTS, EXAMPLES = ROOT / "workflow" / "lib" / "howmanygpus", ROOT / "tests", ROOT / "examples"
CODE = {
    LIBRARY: (
        "files.py",
        "settings.py",
        "base/**/*.py",
        "measure/**/*.py",
        "prepare/**/*.py",
        "registry.py",
        "study/loaders.py",
    ),
    TESTS: ("helpers/*.py", "measure/**/*.py"),
    EXAMPLES: ("**/*.py",),
}
"""Code that can change what a program of tests/measure/ does."""


NOT_READ = (".md", ".pyc")
"""Suffixes of files in a folder that no program reads. A pattern without `*` names a file that counts anyway."""


def hash_code(code: dict[Path, tuple[str, ...]] | None = None, left_out: tuple[str, ...] = ()) -> str:
    """Return the hash of the files that match patterns in folders. Code counts without docstrings and comments.

    left_out: ends of the paths of files that do not count.
    """
    digests = [
        f"{path.relative_to(top)} {_hash_file(path)}"
        for top, patterns in (code or CODE).items()
        for path in sorted({path for pattern in patterns for path in find_files(top, pattern)})
        if not path.as_posix().endswith(left_out)
    ]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def find_files(top: Path, pattern: str) -> list[Path]:
    found = [path for path in top.glob(pattern) if path.is_file()]
    return [path for path in found if path.suffix not in NOT_READ] if "*" in pattern else found


def _hash_file(path: Path) -> str:
    return syntax.read_code(path).digest if path.suffix == ".py" else hashlib.sha256(path.read_bytes()).hexdigest()


def keep(name: str, key: list, scratch: Path, make: Callable[[Path], None]) -> Path:
    """Return the folder that make(folder) fills, kept by everything in `key`; in CI a new one below `scratch`."""
    digest = hashlib.sha256(json.dumps([sys.version, *key]).encode()).hexdigest()[:16]
    parent = (scratch if os.environ.get("CI") else resolve_cache() / "observations") / name
    folder = parent / digest
    with hold_lock(parent.with_name(f"{parent.name}.lock")):
        if not (folder / COMPLETE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            make(folder)
        (folder / COMPLETE).touch()
        for old in sorted(parent.iterdir(), key=_find_last_use)[:-NUM_VERSIONS]:
            shutil.rmtree(old, ignore_errors=True)
    return folder


def _find_last_use(folder: Path) -> float:
    complete = folder / COMPLETE
    return complete.stat().st_mtime if complete.exists() else 0.0


class Keeper:
    """Keeps what programs of tests/measure/ and tests/measure/ did, by their code, pins and a key of the test."""

    def __init__(self, scratch: Path):
        self.scratch, self._code = scratch, hash_code()
        self._failed: dict[str, Exception] = {}

    def __call__(self, name: str, environment: str, make: Callable[[Path], None], *key) -> Path:
        """Return the folder that make(folder) fills with programs in an environment. What failed is not started again.

        The number of cores decides how processes are placed, and the workflow's packages write images to load.
        """
        if name in self._failed:
            raise self._failed[name]
        shared = [self._code, hash_pins("workflow"), len(os.sched_getaffinity(0))]
        try:
            return keep(name, [*shared, hash_pins(environment), *key], self.scratch, make)
        except Exception as error:
            self._failed[name] = error
            raise

"""Finds and hashes the files of a program, whose contents are part of its runs' settings."""

from functools import cache
from pathlib import Path

from howmanygpus.config.errors import refuse
from howmanygpus.config.files import expand_path
from howmanygpus.files import sha256_of_file

MAX_BYTES = 100 * 2**20
"""Limit of the files' size. Every call of Snakemake reads them, so they should not include data."""


def expand_paths(place: str, program: dict) -> dict:
    """Return the program with `~` and variables expanded in the paths of its interpreter and its container."""
    given = {key: program[key] for key in ("python", "container") if program[key]}
    return program | {key: expand_path(path, f"{place}.{key}") for key, path in given.items()}


def hash_program_files(place: str, given: list[str]) -> dict[str, str]:
    """Return the SHA-256 of each file, by its path; those of a folder are all files below it that are not hidden.

    Raises ConfigError for a path that does not exist, a folder without files, and files that cannot be read or are too
    large.
    """
    found: dict[str, str] = {}
    for position, text in enumerate(given):
        where = f"{place}[{position}]"
        paths = _list_files(Path(expand_path(text, where)))
        if not paths:
            raise refuse(where, text, f"is no file or folder with files, seen from {Path.cwd()}", "correct the path")
        if (size := sum(path.stat().st_size for path in paths)) > MAX_BYTES:
            remedy = "name the code alone: each call of snakemake reads these files"
            raise refuse(where, text, f"has {size >> 20} MiB, more than {MAX_BYTES >> 20}", remedy)
        try:
            found |= {str(path): _hash(path, path.stat().st_mtime_ns) for path in paths}
        except OSError as error:
            problem = f"cannot be read at {error.filename}: {error.strerror}"
            raise refuse(where, text, problem, "make it readable, or leave it out") from None
    return dict(sorted(found.items()))


def _list_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = (each for each in path.rglob("*") if each.is_file())
    return [each for each in found if not any(_is_left_out(part) for part in each.relative_to(path).parts)]


def _is_left_out(name: str) -> bool:
    return name.startswith(".") or name == "__pycache__"


@cache
def _hash(path: Path, _changed_at: int) -> str:
    return sha256_of_file(path)

"""
The folder of the cache, ${HOWMANYGPUS_CACHE:-~/.cache/howmanygpus}, and why it cannot be used.

Only the standard library is used here, because `make` asks before anything is installed.
"""

import os
import tempfile
from pathlib import Path

from howmanygpus.base import environment

VARIABLE = "HOWMANYGPUS_CACHE"
REMEDY = f"set {VARIABLE} to the absolute path of a folder in which you may write, before the first `make`"


class CacheError(Exception):
    """The cache cannot be used; the text names the variable, its value and the remedy."""


def resolve_cache() -> Path:
    """Return the folder of the environments that this user may write."""
    return environment.resolve_cache() / "environments"


def find_made(path: Path) -> Path:
    """Return a path below the cache or, if only a cache that may only be read has it, the path there."""
    own, *shared = environment.list_caches()
    places = [path, *(each / path.relative_to(own) for each in shared)]
    return next((place for place in places if place.exists()), path)


def check_cache() -> None:
    """Create the cache to write to if it is missing. Raises CacheError if it cannot be used."""
    given = os.environ.get(VARIABLE, "")
    if str(Path(given)).startswith("~"):
        words = "begins with ~, which a shell replaces only outside quotes; write $HOME instead"
        raise CacheError(f"{VARIABLE}: {given!r} {words}")
    root = environment.resolve_cache()
    where = f"{VARIABLE}: {given!r}" if given else f"{VARIABLE} is not set, and the cache {str(root)!r}"
    if not root.is_absolute():
        raise CacheError(f"{where} is a relative path, another folder for each step; write {root.absolute()}")
    for path in (root, *root.parents):
        if path.exists() and not path.is_dir():
            raise CacheError(f"{where} cannot be a folder, because {path} is a file; {REMEDY}")
    try:
        resolve_cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=resolve_cache()):
            pass
    except OSError as error:
        raise CacheError(f"{where} cannot be written ({error.strerror}: {error.filename}); {REMEDY}") from None

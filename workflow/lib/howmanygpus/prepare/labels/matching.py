"""Find the files that a table names in another way than the file system does."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

from howmanygpus.prepare.labels.names import normalize, normalize_look

WAYS: tuple[Callable[[str], str], ...] = (str, normalize, normalize_look, lambda name: normalize_look(name).casefold())
"""How names are compared, from the strictest way to the loosest: names with the same result are alike."""


class FileNames:
    """The names below a folder. Each folder is listed once, and only if a path is not found as it is written."""

    def __init__(self, root: Path):
        self._root = root
        self._index = cache(_index_names)

    def find(self, path: str) -> str | None:
        """Return the path of an existing file that is the same text or, if there is none, looks the same; else None.

        A name is the same text if only letters and accents are composed in another way, as macOS does.
        """
        try:
            (self._root / path).lstat()
            return path
        except FileNotFoundError:
            pass
        except OSError:
            # The file, or a folder on the way to it, cannot be read. Preparing it will say why.
            return path
        found = Path()
        for name in Path(path).parts:
            indices = self._index(self._root / found)
            match = next((index[way(name)] for way, index in zip(WAYS, indices, strict=True) if way(name) in index), "")
            if not match:
                return None
            found /= match
        return str(found)


def _index_names(folder: Path) -> list[dict[str, str]]:
    """Return the names in a folder for each of WAYS, by the result of that way."""
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError:
        names = []
    return [{way(name): name for name in names} for way in WAYS]

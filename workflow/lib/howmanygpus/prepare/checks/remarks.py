"""Store the remarks from preparing a data set, beside its arrays."""

from collections.abc import Iterable
from pathlib import Path

REMARKS = "remarks.txt"


def write_remarks(folder: Path, remarks: Iterable[str]) -> None:
    """Write one remark a line into a prepared folder; without remarks there is no file."""
    if lines := list(remarks):
        (folder / REMARKS).write_text("".join(f"{line}\n" for line in lines))


def read_remarks(folder: Path) -> list[str]:
    path = folder / REMARKS
    return path.read_text().splitlines() if path.exists() else []

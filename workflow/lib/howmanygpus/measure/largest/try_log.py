"""Stores the tries of a search as they end, so that a stopped search can continue and searches can share tries."""

import json
from pathlib import Path
from typing import Any

from howmanygpus.files import write_json_atomic
from howmanygpus.measure.largest.bisecting import FAILED, SizeTry


class TryLog:
    """The tries of one piece of work, which searches with different bounds share. rows: the tries in the record's form.

    Tries by other code and failures of earlier jobs are discarded. All tries are discarded if the search with this
    bound has ended before, because it is then repeated on purpose.
    """

    def __init__(self, path: Path, code: str, bound: int):
        """path: the notebook's file. code: hash of the code of a try. bound: that of the search that begins now."""
        self._path, self._code, self._bound = path, code, bound
        known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"code": None}
        is_current = known["code"] == code and bound not in known["ended"]
        self._ended: list[int] = known["ended"] if is_current else []
        self.rows: list[dict] = [row for row in known["tries"] if row["outcome"] != FAILED] if is_current else []

    @property
    def tries(self) -> list[SizeTry]:
        return [SizeTry(row["batch"], row["outcome"], row["reason"], row["is_confirmation"]) for row in self.rows]

    def add(self, row: dict) -> None:
        self.rows.append(row)
        self._write()

    def end(self) -> None:
        """Note that the search has ended."""
        self._ended.append(self._bound)
        self._write()

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_json_atomic(self._path, {"code": self._code, "ended": self._ended, "tries": self.rows})

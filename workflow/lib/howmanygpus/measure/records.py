"""The files that an attempt writes."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

ENDED_WELL = "the program ended well and "
"""How the reason begins why a program of the user has no result, although it did not fail."""


def now() -> str:
    """Return the time as records have it: in ISO 8601, to a second, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def finite_or_none(value: float | None) -> float | None:
    """Return None for nan and infinity, which JSON does not have."""
    return value if value is not None and abs(value) < float("inf") else None


class EventSink(Protocol):
    """What takes the events of a training loop."""

    def write(self, event: str, **values: Any) -> None:
        """Take one event."""


class EventLog:
    """events.jsonl: one line per window and per evaluation, which rank 0 writes and flushes at once."""

    def __init__(self, path: Path, started_at: float):
        self._file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115
        self._started_at = started_at

    def write(self, event: str, **values: Any) -> None:
        """Write one line; its wall_s counts the seconds since the launcher started."""
        line = {"event": event, "wall_s": round(time.time() - self._started_at, 6), **values}
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        self._file.flush()


class AttemptFolder:
    """The folder in which one attempt writes until it is done; no other attempt writes there."""

    def __init__(self, path: Path):
        self.path = Path(path)
        self.spec = self.path / "spec.json"
        self.placement = self.path / "placement.json"
        self.record = self.path / "attempt.json"
        self.run = self.path / "run.json"
        self.said = self.path / "said.txt"
        self.events = self.path / "events.jsonl"
        self.telemetry = self.path / "telemetry.csv"
        self.telemetry_facts = self.path / "telemetry.json"
        self.predictions = self.path / "predictions.npz"
        self.outcome = self.path / "outcome.json"
        self.trace = self.path / "trace"
        self.initial_weights = self.path / "initial.safetensors"
        self.final_weights = self.path / "final.safetensors"

    def predictions_of(self, rank: int) -> Path:
        return self.path / f"predictions.rank{rank}.npz"

    def times_of(self, rank: int) -> Path:
        return self.path / f"times.rank{rank}.json"

    def error_of(self, rank: int) -> Path:
        return self.path / f"error.rank{rank}.txt"

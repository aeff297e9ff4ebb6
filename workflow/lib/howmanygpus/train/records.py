"""Events and outcomes on disk. Whatever another process may read appears whole or not at all."""

import json
import time
from pathlib import Path


def finite_or_none(value: float) -> float | None:
    """JSON has no nan: what is not a number is absent."""
    return value if value is not None and abs(value) < float("inf") else None


class EventLog:
    """events.jsonl: one line per window and per evaluation, written by rank 0 and flushed at once."""

    def __init__(self, path: Path, started_at: float):
        self._file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115
        self._started_at = started_at

    def write(self, event: str, **values) -> None:
        """wall_s counts from the start of the run's launcher."""
        line = {"event": event, "wall_s": round(time.time() - self._started_at, 6), **values}
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class AttemptFolder:
    """Where one attempt writes until it is done: its files never mix with another attempt's."""

    def __init__(self, path: Path):
        self.path = Path(path)
        self.spec = self.path / "spec.json"
        self.placement = self.path / "placement.json"
        self.record = self.path / "attempt.json"
        self.run = self.path / "run.json"
        self.said = self.path / "said_by_srun.txt"
        self.events = self.path / "events.jsonl"
        self.telemetry = self.path / "telemetry.csv"
        self.predictions = self.path / "predictions.npz"
        self.outcome = self.path / "outcome.json"
        self.initial_weights = self.path / "initial.safetensors"
        self.final_weights = self.path / "final.safetensors"

    def predictions_of(self, rank: int) -> Path:
        return self.path / f"predictions.rank{rank}.npz"

    def error_of(self, rank: int) -> Path:
        return self.path / f"error.rank{rank}.txt"

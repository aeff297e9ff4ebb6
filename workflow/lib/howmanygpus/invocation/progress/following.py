"""
What the files of a run say about it, while it goes on and when it has ended.

The launcher and the training loop write them anyway, so that showing the progress costs the measured processes nothing.
On a cluster, the files are read through the shared file system.
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from howmanygpus.base.machine_lock import read_held
from howmanygpus.files import find_files
from howmanygpus.paths import ATTEMPTS, JOBS, RUNS
from howmanygpus.report.metrics import load_metric, name_metric
from howmanygpus.site.jobs.ledger import HELD_TIME_SUFFIX, RUN

IN_QUEUE, STARTS, WAITS = "in SLURM's queue", "starts", "waits for the machine"


@dataclass
class Events:
    """The events of a run as far as they are written. batch: its global batch size, for images per second."""

    batch: int = 0
    epoch: int | None = None
    step: int = 0
    loss: float | None = None
    metric: dict[str, float] | None = None
    images: int = 0
    measured_s: float = 0.0

    def add(self, event: dict) -> None:
        """Take one event. The rate is that of the tables: all images over all seconds of the measured windows."""
        self.epoch = event.get("epoch") or self.epoch
        if event["event"] == "evaluation":
            self.metric = event.get("metric", self.metric)
        if event["event"] != "window":
            return
        self.step, self.loss = event["first_step"] + event["num_steps"] - 1, event.get("loss")
        if event["phase"] == "train":
            self.images += event.get("samples", event["num_steps"] * self.batch)
            self.measured_s += event["elapsed_s"]

    @property
    def rate(self) -> float | None:
        return self.images / self.measured_s if self.measured_s else None


class RunFollower:
    """Follows one run. is_queued: whether it waits for its turn in SLURM's queue until it has an attempt.

    unit: what its study counts.
    """

    def __init__(self, run: str, is_queued: bool, unit: str = "images"):
        self._run, self._is_queued, self._unit = run, is_queued, unit
        self._folder: Path | None = None
        self._spec: dict[str, Any] = {}
        self._has_machine = False
        self._read_bytes = 0
        self.events = Events()

    @property
    def is_in_queue(self) -> bool:
        return self._is_queued and self._folder is None

    @property
    def is_started(self) -> bool:
        """Whether the run has its devices."""
        return self._folder is not None and (self._has_machine or self._is_queued)

    def look(self) -> None:
        """Read what is new. Files may appear and move at any time."""
        with suppress(OSError, ValueError, KeyError):
            if self._folder is None:
                self._find_attempt()
            if self._folder and not self._has_machine and not self._is_queued:
                self._has_machine = self._hold_machine()
            if self._folder:
                self._read_events(self._folder / "events.jsonl")

    def _find_attempt(self) -> None:
        """Find the attempt that goes on. Attempts of killed calls have ended before this call started its jobs."""
        for record in reversed(find_files(ATTEMPTS / self._run, "*/attempt.json")):
            if json.loads(record.read_text())["status"] == "running":
                self._spec = json.loads((record.parent / "spec.json").read_text())
                self.events = Events(self._spec["global_batch_size"])
                self._folder, self._read_bytes = record.parent, 0
                return

    def _hold_machine(self) -> bool:
        """Whether this run has the machine's lock, according to the record of its job."""
        for record in reversed(find_files(JOBS / RUN / self._run, "*.json")):
            if json.loads(record.read_text()).get("attempt") == str(self._folder):
                return read_held(record.with_suffix(HELD_TIME_SUFFIX))["holding_since"] is not None
        return True

    def _read_events(self, path: Path) -> None:
        with open(path, "rb") as file:
            file.seek(self._read_bytes)
            # The last line may not be complete yet.
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read_bytes += len(whole) + len(newline)
        for line in whole.splitlines():
            self.events.add(json.loads(line))

    def describe(self) -> str:
        """Return in a few words how far the run is."""
        if self._folder is None:
            return IN_QUEUE if self.is_in_queue else STARTS
        if not self.is_started:
            return WAITS
        events, spec = self.events, self._spec
        if not events.step:
            return STARTS
        epochs, steps = spec.get("epochs"), spec.get("steps")
        if events.epoch is not None and not steps:
            place = f"epoch {events.epoch}" + (f" of {epochs}" if epochs else "")
        else:
            place = f"step {events.step}" + (f" of {steps}" if steps else "")
        return ", ".join([place, *describe_events(events, self._unit)])


def describe_events(events: Events, unit: str) -> list[str]:
    """Return rate, loss and reported metrics in words, as far as they are known. unit: of the rate, such as images."""
    words = [f"{events.rate:,.0f} {unit}/s"] if events.rate else []
    if events.metric:
        return words + [f"{name} {value:.3g}" for name, value in events.metric.items()]
    return words if events.loss is None else [*words, f"loss {events.loss:.3g}"]


@dataclass(frozen=True)
class EndedRun:
    """A run with an outcome. words: status and reason, or rate and quality. seconds: of its wall time, if known."""

    is_completed: bool
    words: str
    seconds: float | None


def read_ended_run(run: str, metric: str, unit: str = "images") -> EndedRun:
    """Read the outcome of a run. metric: the metric of its study. unit: what its study counts.

    Raises OSError, ValueError or KeyError if the record cannot be read.
    """
    folder = RUNS / run
    record = json.loads((folder / "run.json").read_text())
    seconds, spec = record.get("wall_time_s"), record["spec"]
    if record["status"] != "completed":
        return EndedRun(False, ": ".join(filter(None, [record["status"], record["reason"]])), seconds)
    events = Events(spec["global_batch_size"])
    for line in (folder / "events.jsonl").read_text().splitlines():
        events.add(json.loads(line))
    if "program" not in spec and (quality := _compute_quality(folder, metric)) is not None:
        events.metric = {name_metric(metric): quality}
    return EndedRun(True, ", ".join(["completed", *describe_events(events, unit)]), seconds)


def _compute_quality(folder: Path, metric: str) -> float | None:
    """Return the metric of the last evaluation; None if there was none or it is undefined."""
    # Imported here because it imports OpenCV, which a call that trains nothing does not need.
    from howmanygpus.report.predictions import read_predictions

    with suppress(OSError, ValueError):
        for last in list(read_predictions(folder / "predictions.npz"))[-1:]:
            return load_metric(metric).compute(last)
    return None

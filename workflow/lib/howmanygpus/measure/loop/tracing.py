"""
Takes a few more steps under the framework's own profiler, once everything of a run is recorded.

They are steps of a loop of their own, on the batches with which the run began, so that no rate, time, weight or count
of the run includes them. All processes take them; the first one is traced. The trace is left in the folder `trace` of
the run, beside `steps.json` with what the loop saw of the steps. A trace that cannot be had leaves the run completed,
and its record says why.
"""

import abc
import dataclasses
import gzip
import importlib
import math
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from howmanygpus.files import write_json_atomic
from howmanygpus.measure.loop.loop import TrainingLoop
from howmanygpus.measure.spec import RunSpec

NUM_STEPS = 10
"""Steps that are looked at. The steps before them, until batches arrive as in the run, are in the trace, too."""
MAX_BYTES = 32 * 2**20
"""Largest size of a compressed trace that is kept. Ten steps of ResNet-50 take less than a MiB."""
STEP = "howmanygpus_step_"
"""Name of the mark around each step in the trace, before the number of the step."""
UNFINISHED = "a process ended before the trace was complete"


class NoTraceError(Exception):
    """There is no trace for a known reason, such as a framework without a profiler."""


class Profiler(abc.ABC):
    """The profiler of a framework. It is used once, in one process.

    folder: for its files; it exists and is empty. form: suffix of its trace, by which it is read.
    """

    form = ".json"

    def __init__(self, spec: RunSpec, folder: Path):
        self.spec, self.folder = spec, folder

    @abc.abstractmethod
    def start(self) -> None:
        """Begin to record. Raises NoTraceError if there is no trace of this device."""

    @abc.abstractmethod
    def mark(self, name: str) -> AbstractContextManager:
        """Return a context whose begin is in the trace under this name."""

    @abc.abstractmethod
    def stop(self) -> Path:
        """End the recording, and return the file in `folder` that was written."""


def load_profiler(spec: RunSpec, folder: Path) -> Profiler:
    """Return the profiler in the family's folder. Raises NoTraceError if the family has none."""
    name = f"howmanygpus.measure.frameworks.{spec.family}.profiler"
    if importlib.util.find_spec(name) is None:
        raise NoTraceError(f"no profiler of {spec.framework} is known that writes a trace")
    return importlib.import_module(name).PROFILER(spec, folder)


class TracedLoop(TrainingLoop):
    """Steps in one window under a profiler, after those of `run`. Nothing is evaluated, recorded or judged.

    profiler: None on every process but the first.
    """

    def __init__(self, run: TrainingLoop, profiler: Profiler | None):
        self.lead_steps = run.spec.prefetch + 2
        num_steps = self.lead_steps + NUM_STEPS
        changes: dict[str, Any] = {"epochs": None, "steps": num_steps, "gradient_noise_every_epochs": None}
        rates = np.full(num_steps, run.learning_rates[-1])
        super().__init__(dataclasses.replace(run.spec, **changes), run.data, run.backend, rates, None)
        self._profiler, self._mark = profiler, ExitStack()
        self.steps: list[dict[str, float | None]] = []
        """What the loop saw of each step, in seconds of its clock.

        began_s: the step's work was about to be enqueued, and its mark begins. ready_s: its batch had arrived on the
        devices, or was handed to a framework that takes it there; None for a resident batch. finished_s: it was
        complete.
        """

    def _find_window_end(self) -> int:
        return self.num_steps

    @property
    def _steps_to_evaluation(self) -> float:
        return math.inf

    def _check_loss(self, loss: float) -> None:
        """Accept any loss, because the training is over."""

    def _wait_for_devices(self) -> None:
        super()._wait_for_devices()
        if self._profiler is not None:
            self._mark.enter_context(self._profiler.mark(f"{STEP}{self.steps_done + 1}"))

    def after_step(self) -> None:
        self._mark.close()
        super().after_step()

    def _time_steps(self, elapsed_s: float, host_s: float) -> tuple[list[float], float]:
        steps, opened = range(1, self.steps_done + 1), self._window_opened
        seen = [{"began_s": self._began_at[step], "ready_s": self._ready_at.get(step)} for step in steps]
        steps_s, waited_s = super()._time_steps(elapsed_s, host_s)
        finished = opened + np.cumsum(steps_s)
        self.steps = [one | {"finished_s": float(end)} for one, end in zip(seen, finished, strict=True)]
        return steps_s, waited_s


def trace_run(
    run: TrainingLoop, folder: Path, load: Callable[[RunSpec, Path], Profiler] = load_profiler
) -> dict[str, Any]:
    """Take the traced steps, write `folder`, and return the entry `trace` of the record.

    Every process must call it; what the others than the first return is of no use. run: the loop of the run, which is
    closed. An exception of a step is raised.
    """
    profiler, kept, problem = None, None, ""
    with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as raw:
        if run.backend.rank == 0:
            profiler, problem = attempt(lambda: load(run.spec, Path(raw)))
        with TracedLoop(run, profiler) as loop:
            if profiler is not None:
                _, problem = attempt(profiler.start)
            if run.backend.max_over_ranks(float(bool(problem))) == 0:
                run.backend.train(loop)
                if profiler is not None:
                    kept, problem = attempt(lambda: keep(profiler, loop, folder))
    return kept or {"problem": problem}


def attempt(call: Callable[[], Any]) -> tuple[Any, str]:
    """Return the result of a call, and why it failed: nothing if it did not."""
    try:
        return call(), ""
    except Exception as error:
        return None, explain(error)


def explain(error: Exception) -> str:
    """Say in one line why there is no trace."""
    said = (str(error).strip() or type(error).__name__).splitlines()[0]
    return said if isinstance(error, NoTraceError) else f"{type(error).__name__}: {said}"


def keep(profiler: Profiler, loop: TracedLoop, folder: Path) -> dict[str, Any]:
    """End the recording, compress its file into `folder`, and write what the loop saw beside it.

    Returns the entry of the record. Raises NoTraceError if the trace is too large.
    """
    written, kept = profiler.stop(), folder / f"trace{profiler.form}.gz"
    folder.mkdir()
    with open(written, "rb") as source, gzip.open(kept, "wb", compresslevel=6) as target:
        shutil.copyfileobj(source, target)
    if (size := kept.stat().st_size) > MAX_BYTES:
        shutil.rmtree(folder)
        steps, limit = len(loop.steps), MAX_BYTES / 2**20
        raise NoTraceError(f"{steps} steps make a trace of {size / 2**20:.0f} MiB, more than {limit:.0f} MiB")
    write_json_atomic(folder / "steps.json", {"mark": STEP, "lead_steps": loop.lead_steps, "steps": loop.steps})
    return {
        "problem": None,
        **{"file": kept.name, "bytes": size, "steps": NUM_STEPS, "lead_steps": loop.lead_steps},
    }

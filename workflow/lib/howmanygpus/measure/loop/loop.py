"""
The only code that counts and times training steps, also those of frameworks that bring a loop of their own.

It opens and closes windows, evaluates, and stops if the loss is not finite. It owns all clocks. Each window belongs
to a kind: `compile` (the first step), `warmup` (the other steps up to warmup_steps, which no rate includes) or `train`.
Evaluations have a clock of their own, and so has the wait for input within windows. Every window starts and ends on
idle devices; the slowest process's time counts.

A window ends with the last of three independent signals: wait_until_idle returns, its losses have been read, and the
marker of its last step, for which a thread waits (completions.py), is complete. A signal that comes too early therefore
makes no rate too high. The host runs ahead of the devices by `prefetch` steps, at least one.
"""

import itertools
import math
import time
from collections.abc import Generator
from contextlib import closing
from typing import Any

import numpy as np

from howmanygpus.measure.host.other_work import OtherWork
from howmanygpus.measure.host.processes import read_core_wait_s
from howmanygpus.measure.input.loaders import SHARED, load_loader
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.loop.backend import Backend
from howmanygpus.measure.loop.clocks import (
    END_S,
    HANDOVERS,
    READ_S,
    Clocks,
    PhaseTimer,
    WindowChecks,
    read_second_clock,
    time_handover,
)
from howmanygpus.measure.loop.completions import Completions
from howmanygpus.measure.loop.evaluation import Evaluation
from howmanygpus.measure.loop.gradient_noise import GradientNoise
from howmanygpus.measure.loop.prefetch import Prefetcher, feed_device
from howmanygpus.measure.loop.targets import read_targets
from howmanygpus.measure.records import EventSink, finite_or_none
from howmanygpus.measure.spec import RANDOM_INPUTS, RESIDENT, RunSpec


class DivergedError(Exception):
    """The training loss is not finite, or in fp16 no loss scale keeps the gradients finite; becomes a status."""


class TrainingLoop:
    """Counts and times a backend's steps. `events` is None on every process but the first.

    A backend that takes batches from `batches` calls after_step after each step. One whose framework takes batches to
    the devices by itself gives it `iterate_handed_batches`, and calls begin_step before each step and after_step after
    it.

    Closing the loop as a context stops the threads that feed it, however the training ended.
    """

    def __init__(
        self,
        spec: RunSpec,
        data: PreparedData,
        backend: Backend,
        learning_rates: np.ndarray,
        events: EventSink | None,
        others: OtherWork | None = None,
        is_cold: bool = False,
        clock=time.perf_counter,
        second_clock=read_second_clock,
    ):
        """others: measures other work on this node; one process of each node has it.

        is_cold: whether the first epoch reads images from a disk that later epochs find in memory. No rate includes it
        then.
        """
        self.others, self.is_cold = others, is_cold and spec.input != RESIDENT
        self.spec, self.data, self.backend, self.events, self._clock = spec, data, backend, events, clock
        self._run_ahead = max(1, spec.prefetch)
        self.training_batches = load_loader(spec.loader, spec.frozen_batches)(
            spec, data, backend.rank, backend.num_processes
        )
        self.steps_per_epoch = self.training_batches.steps_per_epoch
        self.num_steps = self.training_batches.num_steps
        self._warmup_steps = max(spec.warmup_steps, self.steps_per_epoch if self.is_cold else 0)
        self.learning_rates = learning_rates
        self.evaluation = Evaluation(spec, data, backend)
        self.noise = GradientNoise(spec, data, backend, self.training_batches)
        self.clocks = Clocks()
        self.steps_done = 0
        self.loss_scale = backend.read_loss_scale()
        self._completions = Completions(backend.wait_for_step, clock)
        self.checks = WindowChecks()
        self._feed: Prefetcher | Generator | None = None
        self._ready_at: dict[int, float] = {}
        self._began_at: dict[int, float] = {}
        self._losses_read: list[float] = []
        self.batches_ahead = spec.prefetch
        self.resident_batch = self._put_resident_batch() if spec.input == RESIDENT else None
        """The batch of every step, which stays on the devices; None with any other input."""
        if spec.loader == SHARED:
            self.training_batches.prepare()
        self.laps = PhaseTimer(clock, second_clock)
        self._open_window()

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        if self._feed is not None:
            self._feed.close()
        self.evaluation.close()
        self._completions.close()

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next step."""
        return float(self.learning_rates[self.steps_done])

    def host_batches(self):
        """Every batch of the run from the first, (images, targets) in the host's memory; see measure.loop.targets."""
        return read_targets(self.training_batches, self.spec, self.data)

    def batches(self):
        """Every batch of the run on the device, up to `prefetch` ahead; or the resident batch again and again."""
        is_resident = self.resident_batch is not None
        for batch in itertools.repeat(self.resident_batch, self.num_steps) if is_resident else self._arriving_batches():
            self._wait_for_devices()
            yield batch

    def _arriving_batches(self):
        """Every batch of the run on the device. Notes when each has arrived there."""
        self._feed = feed_device(self.host_batches(), self._put_on_device, self.spec)
        for step, (batch, ready_at) in enumerate(self._feed, start=1):
            self._ready_at[step] = ready_at
            yield batch

    def _put_resident_batch(self) -> Any:
        with closing(self.host_batches()) as batches:
            batch, _ = self._put_on_device(next(batches))
        return batch

    def _put_on_device(self, host_batch: tuple[np.ndarray, np.ndarray]) -> tuple[Any, float]:
        batch = self.backend.put_on_device(*host_batch)
        self.backend.wait_for_batch(batch)
        return batch, self._clock()

    def iterate_handed_batches(self):
        """Every batch of host_batches, for a framework that fetches ahead by itself. Notes when each is handed over.

        Such a framework may look at a few batches and then start again: every call begins with the first batch.
        """
        self._ready_at.clear()
        for step, batch in enumerate(self.host_batches(), start=1):
            self._ready_at[step] = self._clock()
            self.batches_ahead = max(self.batches_ahead, step - self.steps_done - 1)
            yield batch

    def begin_step(self) -> None:
        """Call before a step on a batch of iterate_handed_batches is enqueued."""
        self._wait_for_devices()

    def _wait_for_devices(self) -> None:
        """Wait, before the next step is enqueued, until the host is no further ahead of the devices than it may be."""
        self._completions.wait_for(self.steps_done + 1 - self._run_ahead)
        self._began_at[self.steps_done + 1] = self._clock()

    def after_step(self) -> None:
        """Call after a step was enqueued. Closes the window if it ends with this step.

        An evaluation's first batches are read during the last steps before it, unless the run forbids it.
        """
        self.steps_done += 1
        marker = self.backend.mark_step()
        if self.spec.eval_prefetch and self._steps_to_evaluation <= self.spec.prefetch:
            self.evaluation.start_feeding()
        if self.spec.reads_every_loss:
            self._losses_read.append(self.backend.read_window_loss(1))
        is_last = self.steps_done == self._window_end
        # A step without a marker is complete here; any work of this thread from now on delays the window's end.
        host_before = self._read_host_s() if is_last else (0.0, 0.0)
        self._completions.add(self.steps_done, marker)
        if is_last:
            self.close_window(*host_before)

    def _open_window(self) -> None:
        self._window_end = self._find_window_end()
        self._window_start = self.steps_done
        if self.others and self.steps_done == max(1, self._warmup_steps):
            self.others.start()
        self.backend.wait_until_idle()
        # No process starts while the first one still writes or evaluates.
        self.backend.max_over_ranks(0.0)
        self.laps.end("barrier")
        self._window_opened = self.laps.last_end

    def _find_window_end(self) -> int:
        """A window ends with the first step, the warm-up, an epoch, the run, or after window_steps steps."""
        epoch_end = (self.steps_done // self.steps_per_epoch + 1) * self.steps_per_epoch
        ends = [epoch_end, self.num_steps, self.steps_done + self.spec.window_steps, 1, self._warmup_steps]
        return min(end for end in ends if end > self.steps_done)

    def close_window(self, computed_s: float, waited_s: float) -> None:
        """Wait for the window's steps, count them, and record them. See _read_host_s for the seconds before."""
        num_steps = self.steps_done - self._window_start
        loss, own_s, host_s = self._end_window(num_steps, computed_s, waited_s)
        if self.others and self.steps_done == self.num_steps > max(1, self._warmup_steps):
            self.others.stop()
        steps_s, own_data_wait_s = self._time_steps(own_s, host_s)
        elapsed_s = self.backend.max_over_ranks(own_s)
        data_wait_s = self.backend.max_over_ranks(own_data_wait_s)
        scaling = self._read_loss_scale()
        loss = self.backend.average_loss(loss)
        self.laps.end("barrier")
        phase = self._count_window(num_steps, elapsed_s, data_wait_s)
        if phase == "train":
            self.clocks.own_measured_s += own_s
            self.clocks.own_data_wait_s += own_data_wait_s
        self._record(
            "window",
            epoch=self._epoch_of_last_step,
            phase=phase,
            first_step=self._window_start + 1,
            num_steps=num_steps,
            elapsed_s=elapsed_s,
            data_wait_s=data_wait_s,
            steps_s=[round(step_s, 6) for step_s in steps_s],
            loss=finite_or_none(loss),
            **scaling,
        )
        self.laps.end("log")
        # Replicas that train alone have losses of their own, and no training that could diverge.
        if self.spec.exchanges:
            self._check_loss(loss)
        if self._steps_to_evaluation == 0:
            self.evaluate(self._epoch_of_last_step)
        if self.noise.is_due(self.steps_done, self.num_steps):
            self._record("gradient_noise", **self.noise.measure(self.steps_done))
            self.laps.end("evaluation")
        if self.steps_done < self.num_steps:
            self._open_window()

    def _check_loss(self, loss: float) -> None:
        """Raise DivergedError, on all processes alike, if the training cannot go on. loss: of the last window."""
        if not math.isfinite(loss):
            raise DivergedError(f"training loss is {loss} in steps {self._window_start + 1} to {self.steps_done}")
        if self.loss_scale:
            problem = self.loss_scale.explain_divergence(self.steps_done, self.steps_done == self.num_steps)
            if problem:
                raise DivergedError(problem)

    def _read_loss_scale(self) -> dict[str, float]:
        """Return the skipped steps of the window and the scale after it; nothing in any precision but fp16."""
        before, after = self.loss_scale, self.backend.read_loss_scale()
        if before is None or after is None:
            return {}
        self.loss_scale = after
        return {"skipped_steps": after.skipped_steps - before.skipped_steps, "loss_scale": after.scale}

    @staticmethod
    def _read_host_s() -> tuple[float, float]:
        """Return the seconds that this thread has computed, and those that it has waited for a core."""
        computed_s = time.thread_time()
        return computed_s, read_core_wait_s()

    def _end_window(self, num_steps: int, computed_before: float, waited_before: float) -> tuple[float, float, float]:
        """Wait until all signals say that the steps are complete, and end the window.

        Returns the loss, the seconds of the window, and those in which this thread computed or waited for a core since
        the seconds before. The thread may also spin while it waits for the device, so its processor time counts only up
        to a limit.
        """
        self.backend.wait_until_idle()
        loss = self._read_loss(num_steps)
        self._completions.wait_for(self.steps_done)
        own_s = self.laps.end("window")
        computed_s = min(time.thread_time() - computed_before, END_S + READ_S * num_steps)
        waited_s = read_core_wait_s() - waited_before + HANDOVERS * time_handover()
        return loss, own_s, computed_s + waited_s

    def _read_loss(self, num_steps: int) -> float:
        """Return the mean loss of the window's steps in this process, which may have been read already."""
        if not self.spec.reads_every_loss:
            return self.backend.read_window_loss(num_steps)
        losses, self._losses_read = self._losses_read, []
        return float(np.mean(losses))

    def _time_steps(self, elapsed_s: float, host_s: float) -> tuple[list[float], float]:
        """Return the seconds of each step of the window, and those in which the devices waited for a batch.

        The devices wait from the completion of one step until the batch of the next has arrived; never for a resident
        batch. elapsed_s, host_s: see _end_window.
        """
        steps = range(self._window_start + 1, self.steps_done + 1)
        finished = [self._window_opened, *self._completions.take(steps)]
        ready = [self._ready_at.pop(step) for step in steps] if self.resident_batch is None else []
        waited_s = sum(max(0.0, arrived - free) for arrived, free in zip(ready, finished, strict=False))
        steps_s = [after - before for before, after in itertools.pairwise(finished)]
        latencies_s = [end - self._began_at.pop(step) for step, end in zip(steps, finished[1:], strict=True)]
        self.checks.add(elapsed_s, waited_s, steps_s, latencies_s, host_s)
        return steps_s, waited_s

    def _count_window(self, num_steps: int, elapsed_s: float, data_wait_s: float) -> str:
        if self._window_start == 0:
            self.clocks.compile_s += elapsed_s
            return "compile"
        if self.steps_done <= self._warmup_steps:
            self.clocks.warmup_s += elapsed_s
            return "warmup"
        self.clocks.measured_s += elapsed_s
        self.clocks.data_wait_s += data_wait_s
        self.clocks.measured_steps += num_steps
        return "train"

    @property
    def _epoch_of_last_step(self) -> int:
        return (self.steps_done - 1) // self.steps_per_epoch + 1

    @property
    def _steps_to_evaluation(self) -> float:
        """Steps until the next evaluation, after eval_every_epochs epochs or the run; infinite if there is none.

        Random labels are not evaluated.
        """
        if self.spec.input in RANDOM_INPUTS or not self.spec.evaluate:
            return math.inf
        interval = self.steps_per_epoch * self.spec.eval_every_epochs
        return min(-self.steps_done % interval, self.num_steps - self.steps_done)

    def evaluate(self, epoch: int) -> None:
        self.evaluation.evaluate(epoch)
        elapsed_s = self.backend.max_over_ranks(self.laps.end("evaluation"))
        self.clocks.eval_s += elapsed_s
        self._record(
            "evaluation",
            epoch=epoch,
            step=self.steps_done,
            images=len(self.data.test_labels),
            elapsed_s=elapsed_s,
            train_s=self.clocks.train_s,
        )
        self.laps.end("log")

    def _record(self, event: str, **values) -> None:
        if self.events is not None:
            self.events.write(event, **values)

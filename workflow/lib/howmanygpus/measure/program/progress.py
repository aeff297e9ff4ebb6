"""
Turns a program's reports into windows, evaluations and clocks, with the definitions of measure.loop.loop where
possible.

Each report of a step ends a window that began with the report before. The first report with a step above 0 ends the
window `compile`, and those up to warmup_steps are `warmup`. A report of a metric ends an evaluation, which began with
the last report of a step. The window after it is measured only if the metric's report repeats that step. Otherwise it
is unknown how much of the time was training; the window is then `unclear` and counts in no rate. So is a window during
which a clock was set. Step 0 of a later epoch ends the time between two epochs, which counts as evaluation. A report
that repeats the last step is no report, because progress bars draw a step again. A report with an epoch alone names the
epoch of the reports of steps after it. The time between the two reports of a checkpoint is in no window and no
evaluation. One that has not ended when the next step is reported never ends: its window is `unclear`. The first epoch
is 1, also of a program that counts its epochs from 0.

In a control run, a program says which part of its work it leaves out. One that does not is stopped, and one that does
after CONTROL_WINDOWS measured windows of CONTROL_S seconds, because only rates are compared. What it leaves out may
make its loss infinite, so that this says nothing.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from howmanygpus.measure.loop.clocks import Clocks
from howmanygpus.measure.program.reports import BEGIN, END, FACTS, Report, ReportError
from howmanygpus.measure.records import finite_or_none

HEARD_S = 2.0
"""Seconds after its first window in which a program of a control run must have said what it leaves out."""
CONTROL_WINDOWS, CONTROL_S = 5, 20.0
"""Measured windows, and seconds of these, after which a control run is stopped."""
LINES = {
    "resident_input": 'give it resident(loader), or one batch for all steps if control("resident_input") is true',
    "no_exchange": 'call stop_exchange(model), or have each process train alone if control("no_exchange") is true',
}
"""What a program does in a control run, with the functions of report_progress.py."""
UNMEASURED = {"data_wait_s": None, "peak_memory_bytes": None, "host_to_device_gib_per_s": None}
MANY_LOSSES = 10
"""Reports of a loss from which on an equal one in all of them is named."""


class Progress:
    """What a program has reported so far.

    write: takes events; the moment of each is its report's time. control: what the program is to leave out; empty
    unless this is a control run.
    """

    def __init__(
        self,
        warmup_steps: int,
        global_batch_size: int,
        started_at: float,
        write: Callable[[dict], None],
        control: str = "",
    ):
        self._control, self._is_control_heard = control, False
        self._warmup_steps, self._global_batch_size = warmup_steps, global_batch_size
        self._started_at, self._write = started_at, write
        self.clocks = Clocks()
        self.init_s: float | None = None
        self.steps, self.samples, self.status, self.reason = 0, 0, "", ""
        self.versions: dict[str, str] = {}
        self.facts: dict[str, float | bool] = {}
        """The last values of reports.FACTS, and whether parameters are sharded."""
        self.checkpoint_s = 0.0
        self.unended_checkpoint: int | None = None
        """Steps after which the first checkpoint began that has no end."""
        self._checkpoint_began: float | None = None
        self._last_time = started_at
        self._has_first, self._first_at, self._num_measured = False, math.inf, 0
        self._epoch: int | None = None
        self._named_epoch: int | None = None
        self._is_epoch_0_trained = False
        self._announced_steps: int | None = None
        self._last_num_steps = 0
        """Last step that the output announces, and the number of steps between the last two reports."""
        self._steps_before, self._samples_before = 0, 0
        """Steps and samples of the epochs before, if the program counts them anew in each epoch."""
        self._is_clean = True
        """Whether it is known how long the steps of the open window take."""
        self._num_losses, self._least_loss, self._largest_loss = 0, math.inf, -math.inf

    def add(self, report: Report) -> None:
        """Take one report. Raises ReportError if it contradicts an earlier one."""
        if report.time < self._last_time:
            problem = f"a report has the time {report.time}, which is before the start or an earlier report"
            raise ReportError(f"{problem}; give seconds since 1970, or leave the time out")
        self.versions |= report.versions
        self._is_clean = self._is_clean and report.is_clear
        if report.epoch is None:
            report = replace(report, epoch=self._named_epoch)
        elif report.step is None and not report.metric:
            self._named_epoch = report.epoch
        if report.epoch is not None:
            # Before any step, epoch 0 is that of an evaluation of the untrained model.
            self._is_epoch_0_trained |= report.epoch == 0 and bool(report.step or self.steps)
            report = replace(report, epoch=report.epoch + self._is_epoch_0_trained)
        self.note(report)
        if report.checkpoint == END:
            self._end_checkpoint(report)
        report = self._count_on(report)
        is_step = report.step is not None and not report.metric
        if is_step:
            self._end_window(report)
        if report.metric:
            self._end_evaluation(report)
        if report.checkpoint == BEGIN:
            self._lose_checkpoint()
            self._checkpoint_began = report.time
        if report.loss is not None and not self._control:
            self._take_loss(report.loss)
        if report.status:
            self.status, self.reason = report.status, report.reason or "reported by the program"

    def note(self, report: Report) -> None:
        """Take what a report says of the whole program."""
        self.facts |= {name: value for name in FACTS if (value := getattr(report, name)) is not None}
        self.facts |= {"sharded": report.is_sharded} if report.is_sharded is not None else {}
        self._is_control_heard |= bool(self._control) and report.control == self._control

    def explain_ignored_control(self) -> str:
        """Say how the program would leave out what it does not; empty if it does, or if this is no control run."""
        if not self._control or self._is_control_heard:
            return ""
        return f"the program does not ask control() of report_progress.py: {LINES[self._control]} (docs/program.md)"

    @property
    def is_enough(self) -> bool:
        """Whether this is a control run that has measured its rate."""
        is_long = self.clocks.measured_s >= CONTROL_S and self._num_measured >= CONTROL_WINDOWS
        return bool(self._control) and is_long

    def _take_loss(self, loss: float) -> None:
        if not math.isfinite(loss):
            self.status, self.reason = "diverged", f"training loss is {loss} at step {self.steps}"
        self._num_losses += 1
        self._least_loss, self._largest_loss = min(self._least_loss, loss), max(self._largest_loss, loss)

    def describe_constant_loss(self) -> str:
        """Say that all of many reports have one training loss; empty if there are few, or one differs."""
        if self._num_losses < MANY_LOSSES or self._least_loss < self._largest_loss:
            return ""
        problem = f"the training loss is {self._least_loss} in all {self._num_losses} reports"
        return f"{problem}: nothing was learned, or too few digits of it are reported"

    @property
    def is_past_warmup(self) -> bool:
        """Whether the next window is a measured one."""
        return self._has_first and self.steps >= self._warmup_steps

    def _count_on(self, report: Report) -> Report:
        """Return a report with steps and samples since the start, also if the program counts anew in each epoch."""
        if report.step is None:
            return report
        is_later = report.epoch is not None and self._epoch is not None and report.epoch > self._epoch
        if is_later and not report.metric and report.step <= self.steps - self._steps_before:
            self._steps_before = self.steps
            is_anew = report.samples is not None and report.samples <= self.samples - self._samples_before
            self._samples_before = self.samples if is_anew else self._samples_before
            if report.step == 0:
                self.clocks.eval_s += report.time - self._last_time
                self._last_time, self._is_clean = report.time, True
        if not report.metric:
            self._epoch = report.epoch
        if report.announced is not None:
            self._announced_steps = report.announced + self._steps_before
        samples = None if report.samples is None else report.samples + self._samples_before
        return replace(report, step=report.step + self._steps_before, samples=samples)

    def _end_window(self, report: Report) -> None:
        step = report.step or 0
        if step == 0 and not self._has_first:
            self.init_s, self._last_time = report.time - self._started_at - self.checkpoint_s, report.time
            return
        if step == self.steps:
            return
        if step < self.steps:
            raise ReportError(f"step {step} was reported after step {self.steps}; {self._explain_lower(step)}")
        samples = step * self._global_batch_size if report.samples is None else report.samples
        if samples < self.samples:
            raise ReportError(f"{samples} samples were reported after {self.samples}; report those since the start")
        if self._has_first and report.time - self._first_at > HEARD_S and (reason := self.explain_ignored_control()):
            self.status, self.reason = "unsupported", reason
            return
        self._lose_checkpoint()
        num_steps, elapsed_s = step - self.steps, report.time - self._last_time
        phase = self._count(step, num_steps, elapsed_s)
        event = {"event": "window", "wall_s": report.time - self._started_at, "epoch": report.epoch, "phase": phase}
        event |= {"first_step": self.steps + 1, "num_steps": num_steps, "samples": samples - self.samples}
        event |= {"elapsed_s": elapsed_s, "data_wait_s": None, "loss": finite_or_none(report.loss)}
        # The time of a step is known only if each one is reported.
        self._write(event | {"steps_s": [round(elapsed_s, 6)] if num_steps == 1 else []})
        self.steps, self.samples, self._last_time = step, samples, report.time
        self._first_at = min(self._first_at, report.time)
        self._has_first, self._is_clean, self._last_num_steps = True, True, num_steps

    def _end_checkpoint(self, report: Report) -> None:
        """Take the time of a checkpoint out of what is open. An end without a beginning says nothing."""
        if self._checkpoint_began is None:
            return
        elapsed_s = report.time - max(self._checkpoint_began, self._last_time)
        self._checkpoint_began = None
        self.checkpoint_s += elapsed_s
        self._last_time += elapsed_s
        event = {"event": "checkpoint", "wall_s": report.time - self._started_at, "step": self.steps}
        self._write(event | {"elapsed_s": elapsed_s})

    def _lose_checkpoint(self) -> None:
        """Note that an open checkpoint never ends; how much of the time was training is not known."""
        if self._checkpoint_began is None:
            return
        self._checkpoint_began, self._is_clean = None, False
        if self.unended_checkpoint is None:
            self.unended_checkpoint = self.steps

    def _explain_lower(self, step: int) -> str:
        """Say what to do about a step that is lower than the last one."""
        if step - self._steps_before <= 1:
            return (
                "report steps done since the start, or the epoch with each step that is counted anew in it, and keep "
                "an expression for steps from matching the bar of an evaluation"
            )
        return (
            "if several processes print their steps, let the first alone do so (torchrun --local-ranks-filter 0), or "
            "put its prefix into the expression; otherwise report steps done since the start"
        )

    def _count(self, step: int, num_steps: int, elapsed_s: float) -> str:
        """Add a window to the clocks and return its phase. A window that begins in the warm-up is no measured one."""
        if not self._has_first:
            self.clocks.compile_s += elapsed_s
            return "compile"
        if step - num_steps < self._warmup_steps or not self._is_clean:
            self.clocks.warmup_s += elapsed_s
            return "warmup" if self._is_clean else "unclear"
        self.clocks.measured_s += elapsed_s
        self.clocks.measured_steps += num_steps
        self._num_measured += 1
        return "train"

    def _end_evaluation(self, report: Report) -> None:
        elapsed_s = report.time - self._last_time
        self.clocks.eval_s += elapsed_s
        event = {"event": "evaluation", "wall_s": report.time - self._started_at, "epoch": report.epoch}
        event |= {"step": self.steps, "elapsed_s": elapsed_s, "train_s": self.clocks.train_s, "metric": report.metric}
        self._write(event)
        self._is_clean = report.step is not None and report.step == self.steps
        self._last_time = report.time

    @property
    def missing_steps(self) -> int | None:
        """Announced steps after the last report; 0 if no further report was due, None if none is announced."""
        if self._announced_steps is None or self._control:
            return None
        missing = self._announced_steps - self.steps
        return missing if missing >= max(self._last_num_steps, 1) else 0

    def describe(self, ended_at: float) -> dict[str, Any]:
        """Return the entries of run.json that are measured, and null for what is not."""
        self._lose_checkpoint()
        clocks = self.clocks
        return {
            "init_s": self.init_s,
            # Without a report of step 0, nobody knows when the start ended.
            "compile_s": clocks.compile_s if self.init_s is not None else None,
            "warmup_s": clocks.warmup_s,
            "measured_s": clocks.measured_s,
            "measured_steps": clocks.measured_steps,
            "train_s": clocks.train_s,
            "eval_s": clocks.eval_s,
            "checkpoint_s": self.checkpoint_s,
            "unended_checkpoint": self.unended_checkpoint,
            "reported": self.facts,
            "wall_time_s": ended_at - self._started_at,
            "steps": self.steps,
            "missing_steps": self.missing_steps,
            "images_seen": self.samples,
            "versions": self.versions,
            **UNMEASURED,
        }

"""What is done, what goes on and what is left of a call, by stage, and how long the rest of its runs takes."""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from howmanygpus.invocation.dry_run.summary import RUNS, STAGES, resolve_stage
from howmanygpus.invocation.failing import name_run
from howmanygpus.study.durations import UNKNOWN, Duration, ExpectedDuration
from howmanygpus.study.runs import Run, name_configuration

WAITING, RUNNING, DONE, FAILED, BLOCKED = "waiting", "running", "done", "failed", "blocked"
NAMED_BY = ("study", "variant", "input", "precision", "num_nodes", "repeat")
"""Properties of a run that its short name has if the runs of the call differ in them."""
HASH = re.compile(r"-[0-9a-f]{8}\b")
"""Part of the names of records that says nothing to a reader."""


@dataclass
class Step:
    """A job of this call.

    run: the run that it does; None for another step. is_completed: of a run that is done. begun_at, started_at: when
    Snakemake started or submitted it, and when a run was first seen to have its devices. usual_s: how long another step
    took when it was last done, or such steps did; None if none was.
    """

    job: Any
    stage: str
    run: Run | None
    state: str = WAITING
    is_completed: bool = True
    begun_at: float = 0.0
    started_at: float | None = None
    usual_s: float | None = None

    @property
    def name(self) -> str:
        """Rule and object of a step that is no run."""
        objects = (HASH.sub("", str(value).rpartition("/")[2]) for value in self.job.wildcards_dict.values())
        return " ".join([self.job.rule.name, *objects])


def list_steps(jobs: Iterable[Any]) -> dict[int, Step]:
    """Return the jobs of Snakemake by their ids, without targets, whose jobs do nothing."""
    steps = {}
    for job in jobs:
        if stage := resolve_stage(job.rule):
            run = name_run(job)
            steps[job.jobid] = Step(job, stage, Run.from_path(run) if run else None)
    return steps


@dataclass
class Tracker:
    """The steps of a call and their states.

    steps: by the ids of their jobs. expected: durations of the runs by the records of this folder, by their paths.
    is_serial: whether runs go one at a time, so that the duration of a job is what it adds to the call. expect: returns
    the duration of a job that is no run, by the records of this folder.
    """

    steps: Mapping[int, Step]
    is_serial: bool
    expected: Mapping[str, ExpectedDuration] = field(default_factory=dict)
    expect: Callable[[Any], ExpectedDuration] = lambda job: ExpectedDuration(None, UNKNOWN)
    _measured: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    _overheads: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        runs = [step.run for step in self.steps.values() if step.run]
        self._differ = [name for name in NAMED_BY if len({getattr(run, name) for run in runs}) > 1]
        self._started_at = time.monotonic()

    @property
    def stages(self) -> list[str]:
        """The stages of this call, in the order of the work."""
        present = {step.stage for step in self.steps.values()}
        return [stage for stage in dict.fromkeys(STAGES.values()) if stage in present]

    def select(self, stage: str, *states: str) -> list[Step]:
        return [step for step in self.steps.values() if step.stage == stage and (not states or step.state in states)]

    def begin(self, job_id: int) -> None:
        if step := self.steps.get(job_id):
            step.state, step.begun_at, step.started_at = RUNNING, time.monotonic(), None
            if step.run is None:
                expected = self.expect(step.job)
                step.usual_s = None if expected.is_limit else expected.seconds

    def fail(self, job_id: int, is_final: bool) -> None:
        if step := self.steps.get(job_id):
            step.state = FAILED if is_final else WAITING

    def block(self, runs: Collection[str]) -> None:
        """Note which runs cannot begin, because a step that they need has failed."""
        for step in self.steps.values():
            if step.run and step.run.path in runs:
                step.state = BLOCKED

    def finish(self, job_id: int, is_completed: bool = True, wall_time_s: float | None = None) -> None:
        """Note that a step is done. is_completed, wall_time_s: of a run; see _expect for what it tells about others."""
        step = self.steps[job_id]
        step.state, step.is_completed = DONE, is_completed
        if step.run is None or wall_time_s is None or not is_completed:
            return
        taken_s = time.monotonic() - step.begun_at if self.is_serial else wall_time_s
        self._measured[name_configuration(step.run.path)].append(taken_s)
        self._overheads.append(taken_s - wall_time_s)

    def name(self, run: Run) -> str:
        """Return a short name that tells a run from the others of this call."""
        about = {
            "study": run.study,
            "framework": run.framework,
            "variant": run.variant,
            "input": run.input,
            "precision": run.precision,
            "devices": f"{run.num_gpus} x {run.device}",
            "num_nodes": f"on {run.num_nodes} nodes" if run.num_nodes else "",
            "batch": f"batch {run.per_device_batch_size}",
            "repeat": f"repeat {run.repeat}",
        }
        return " ".join(word for key, word in about.items() if word and (key not in NAMED_BY or key in self._differ))

    def count(self, stage: str) -> str:
        """Return in words how many steps of a stage are done, such as `3 of 8 done, 1 failed`."""
        of_stage, done = self.select(stage), self.select(stage, DONE)
        words = [f"{len(done)} of {len(of_stage)} done"]
        others = [
            (len([step for step in done if not step.is_completed]), "without a result"),
            (len(self.select(stage, FAILED)), "failed"),
            (len(self.select(stage, BLOCKED)), "cannot begin"),
        ]
        return ", ".join(words + [f"{number} {what}" for number, what in others if number])

    def estimate_left(self, num_started: int = 1) -> Duration:
        """Return the expected time until the last run ends, from medians of this call and from the records.

        num_started: how many runs have their devices now; the others are expected to go on as many at a time.
        """
        seconds, limit_s, is_complete = 0.0, 0.0, True
        for step in self.select(RUNS, WAITING, RUNNING):
            expected = self._expect(step.run) if step.run else ExpectedDuration(None, UNKNOWN)
            if expected.seconds is None:
                is_complete = False
                continue
            since = step.started_at or (step.begun_at if self.is_serial else None)
            elapsed_s = time.monotonic() - since if since is not None and step.state == RUNNING else 0.0
            left_s = max(0.0, expected.seconds - elapsed_s)
            seconds, limit_s = (seconds, limit_s + left_s) if expected.is_limit else (seconds + left_s, limit_s)
        at_a_time = max(1, num_started)
        return Duration(seconds / at_a_time, limit_s / at_a_time, is_complete)

    def is_first(self, run: Run) -> bool:
        """Whether no run of the same configuration has ended in this call."""
        return name_configuration(run.path) not in self._measured

    def _expect(self, run: Run) -> ExpectedDuration:
        """Return the median of this call's runs of the same configuration, and else what the records say.

        A job takes longer than its run, and how much longer is known from the jobs that have ended.
        """
        if measured := self._measured.get(name_configuration(run.path)):
            return ExpectedDuration(median(measured), "this call")
        expected = self.expected.get(run.path, ExpectedDuration(None, UNKNOWN))
        if expected.seconds is None or expected.is_limit or not self._overheads:
            return expected
        return expected._replace(seconds=expected.seconds + median(self._overheads))

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started_at

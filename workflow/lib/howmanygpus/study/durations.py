"""Estimates how long jobs take: runs from the records of similar runs, other jobs from Snakemake's records."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import groupby
from math import ceil, inf
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from snakemake.io import IOFile

from howmanygpus.paths import RUNS
from howmanygpus.study.plan import Plan
from howmanygpus.study.runs import Run, name_configuration

UNKNOWN = "none like it was done here"
BY_LIMIT = "time limit, as none like it was done here"
HASH_IN_NAME = re.compile(r"-[0-9a-f]{8}(?=\.)")
"""Part of the names of records that changes with the code or the pins that they depend on."""
HASHES = re.compile(r"'[0-9a-f]{8,}( [0-9a-f]{8,})*'")
"""A parameter with the hash of a job's code, as Snakemake records it."""
REFERENCE = "/reference.json"
"""Suffix of the files that name a task of the parity gate."""
BY_TASK = ("compute_reference", "compute_noise", "observe_parity")
"""Rules whose jobs have a duration that depends on the network of their task."""
BY_OTHERS = "runs of other frameworks"
REPEATS_READ = 3
"""Repeats of a configuration that are read, because thousands of records would take longer than the plan."""


class ExpectedDuration(NamedTuple):
    """seconds: expected duration, or the longest possible one if `is_limit`; None if unknown. basis: its source."""

    seconds: float | None
    basis: str
    is_limit: bool = False


class Duration(NamedTuple):
    """seconds: the expected ones. limit_s: sum of the time limits of jobs about which nothing else is known.

    is_complete: whether there is an expectation or a limit for every job.
    """

    seconds: float = 0.0
    limit_s: float = 0.0
    is_complete: bool = True

    def plus(self, other: "Duration") -> "Duration":
        is_complete = self.is_complete and other.is_complete
        return Duration(self.seconds + other.seconds, self.limit_s + other.limit_s, is_complete)


@dataclass
class StageEstimate:
    """The expected durations of a stage's jobs. is_measured: each job has the machine, or its nodes, to itself."""

    is_measured: bool
    seconds: list[float] = field(default_factory=list)
    limit_s: float = 0.0
    device_time: Duration = field(default_factory=Duration)
    bases: Counter = field(default_factory=Counter)

    def add(self, expectation: ExpectedDuration, num_devices: int) -> None:
        seconds, basis, is_limit = expectation
        self.bases[basis] += 1
        if seconds is None:
            return
        if is_limit:
            self.limit_s += seconds
        else:
            self.seconds.append(seconds)
        if self.is_measured:
            used = Duration(limit_s=seconds * num_devices) if is_limit else Duration(seconds * num_devices)
            self.device_time = self.device_time.plus(used)

    def elapsed(self, cores: int) -> Duration:
        """Return how long the stage takes: measured jobs go one after the other, others beside each other."""
        seconds = sum(self.seconds) if self.is_measured else max([sum(self.seconds) / cores, *self.seconds])
        return Duration(seconds, self.limit_s, is_complete=not self.bases[UNKNOWN])


def add_up(durations: Iterable[Duration]) -> Duration:
    return reduce(Duration.plus, durations, Duration())


class RecordedJobs:
    """Durations of the jobs that Snakemake remembers.

    jobs: all of the call. persistence: Snakemake's records. measure: returns the seconds of the job of an output, from
    Snakemake's record of it, or None if they are not known.
    """

    def __init__(self, jobs: Iterable[Any], persistence: Any, measure: Callable[[str, Any], float | None]):
        self._persistence, self._measure = persistence, measure
        self._outputs: dict[str, list[str]] = defaultdict(list)
        for job in jobs:
            if job.rule.name != "train":
                self._outputs[job.rule.name] += map(str, job.output)
        self._found: dict[str, dict[str, list[tuple[Any, float]]]] = {}
        self._similar: dict[tuple, list[float]] = {}

    def expect(self, job: Any) -> ExpectedDuration:
        """Return the duration of the same step, by any version of the code, or else that of other jobs of the rule."""
        limit_s = 60.0 * job.resources.limit_min if "limit_min" in job.rule.resources else inf
        if same := list(self._select_same(job)):
            return ExpectedDuration(min(mean(same), limit_s), "the same steps")
        if similar := self._select_similar(job):
            return ExpectedDuration(min(mean(similar), limit_s), "similar steps")
        return ExpectedDuration(None, UNKNOWN) if limit_s == inf else ExpectedDuration(limit_s, BY_LIMIT, is_limit=True)

    def _select_same(self, job: Any) -> Iterator[float]:
        """Yield the durations of the job and of its earlier versions, if they had the same parameters."""
        records = self._read_records(job)
        for output in job.output:
            for record, seconds in records.get(_remove_hash(output), []):
                given = {value for value in record.params or [] if not HASHES.fullmatch(value)}
                if given <= {repr(value) for value in job.params}:
                    yield seconds

    def _select_similar(self, job: Any) -> list[float]:
        """Return the durations of all jobs of a rule, for the rules of BY_TASK only of those with the same tasks."""
        rule = job.rule.name
        tasks = _list_tasks([*job.input, *job.output]) if rule in BY_TASK else []
        if (key := (rule, *tasks)) not in self._similar:
            self._similar[key] = [
                seconds
                for name, records in self._read_records(job).items()
                for record, seconds in records
                if rule not in BY_TASK or _list_tasks([*(record.input or []), name]) == tasks
            ]
        return self._similar[key]

    def _read_records(self, job: Any) -> dict[str, list[tuple[Any, float]]]:
        """Return the records of a rule with their durations, by output: of the jobs of this call, and of files near."""
        rule = job.rule.name
        if rule not in self._found:
            folders = {Path(output).parent for output in map(str, job.output)}
            beside = (str(path) for folder in sorted(folders) for path in sorted(folder.parent.glob("*/*.json")))
            found: dict[str, list[tuple[Any, float]]] = defaultdict(list)
            for output in dict.fromkeys([*self._outputs[rule], *beside]):
                record = self._persistence.metadata(IOFile(output))
                if not (record and record.rule == rule and record.starttime and record.endtime):
                    continue
                if (seconds := self._measure(output, record)) is not None:
                    found[_remove_hash(output)].append((record, seconds))
            self._found[rule] = found
        return self._found[rule]


def _remove_hash(output: str) -> str:
    return HASH_IN_NAME.sub("", str(output))


def _list_tasks(inputs: Iterable[str]) -> list[str]:
    return sorted(path for path in map(str, inputs) if path.endswith(REFERENCE))


@dataclass(frozen=True)
class Record:
    """The duration of a run that exists. work: model, image shape and classes. start_s: independent of the images.

    eval_s: of all its evaluations. every: epochs between two of them; None if it had only one.
    """

    run: Run
    work: str
    seconds: float
    start_s: float
    images: int
    eval_s: float = 0.0
    every: int | None = None

    def scale(self, images: int, num_gpus: int, evaluations: int = 1, images_per_epoch: int = 0) -> float:
        """Return the seconds of a run with as many images on as many devices, if devices share the work evenly.

        evaluations: how many the other run has. images_per_epoch: of the other run.
        """
        fewer = self.run.num_gpus / num_gpus
        own = count_evaluations(self.images, images_per_epoch, self.every) if self.every else 1
        training_s = (self.seconds - self.start_s - self.eval_s) * images / self.images
        return self.start_s + (training_s + self.eval_s * evaluations / own) * fewer


def count_evaluations(images: int, images_per_epoch: int, every: int) -> int:
    """Return how often a run is evaluated: each `every` epochs and at its end."""
    return max(1, ceil(images / max(1, images_per_epoch) / every))


LIKENESS: dict[str, Callable[[Run], tuple]] = {
    "runs of the same configuration": lambda run: (name_configuration(run.path),),
    "runs of the same framework, device count and batch size": lambda run: (
        run.framework,
        run.input,
        run.precision,
        run.device,
        run.num_gpus,
        run.per_device_batch_size,
    ),
    "runs of the same framework and device count": lambda run: (run.framework, run.device, run.num_gpus),
    "runs of the same framework": lambda run: (run.framework, run.device),
    BY_OTHERS: lambda run: (run.device,),
}
"""Properties that similar runs share, the closest first. All share device, model, image shape and classes."""


def name_work(weights_file: str) -> str:
    """Return the name of a run's file of initial weights without the seed: model, image shape and classes."""
    return Path(weights_file).name.rpartition("_seed")[0]


def read_durations(folder: Path) -> list[tuple[Run, float]]:
    """Return the runs of a study that exist, with their seconds. folder: of the study."""
    found = []
    for path in sorted(folder.glob("*/*/*/run.json")):
        with suppress(FileNotFoundError, ValueError):
            if seconds := json.loads(path.read_text()).get("wall_time_s"):
                found.append((Run.from_path(str(path.parent.relative_to(folder.parent))), seconds))
    return found


class RecordedRuns:
    """Durations of the runs that exist, and of those that retry_runs.py has set aside.

    folder: where the former are. The latter are in the folder `attempts` beside it.
    """

    def __init__(self, plan: Plan, folder: Path = RUNS):
        self._plan, self._folder, self._attempts = plan, folder, folder.with_name("attempts")

    def expect(self, run: Run) -> ExpectedDuration:
        study = self._plan.studies[run.study]
        limit_s = 60 * study.config["time_limit_min"]
        if self._like and not study.is_program:
            work, images = name_work(study.weights_file(run)), study.num_images(run)
            per_epoch = study.description.num_train
            settings = study.settings_of(run)
            is_evaluated = settings.get("evaluate", True)
            evaluations = count_evaluations(images, per_epoch, settings["eval_every_epochs"]) if is_evaluated else 0
            for basis, common in LIKENESS.items():
                if records := self._like.get((work, basis, common(run))):
                    expected_s = mean(record.scale(images, run.num_gpus, evaluations, per_epoch) for record in records)
                    return ExpectedDuration(min(expected_s, limit_s), basis)
        return ExpectedDuration(limit_s, BY_LIMIT, is_limit=True)

    @cached_property
    def _like(self) -> dict[tuple, list[Record]]:
        """The records by work, kind of similarity and shared properties."""
        like = defaultdict(list)
        for record in self._read():
            for basis, common in LIKENESS.items():
                like[record.work, basis, common(record.run)].append(record)
        return dict(like)

    def _find_folders(self) -> dict[str, Path]:
        """Return the folder of each run by its path below results/runs/."""
        aside = sorted(self._attempts.glob("*/*/*/*/set-aside-*/run.json"))
        folders = {str(path.parents[1].relative_to(self._attempts)): path.parent for path in aside}
        found = [path.parent for path in self._folder.glob("*/*/*/*/run.json")]
        return folders | {str(path.relative_to(self._folder)): path for path in found}

    def _read(self) -> Iterator[Record]:
        folders = self._find_folders()
        for _, repeats in groupby(sorted(folders), key=name_configuration):
            for name in list(repeats)[:REPEATS_READ]:
                try:
                    run = Run.from_path(name)
                    values = json.loads((folders[name] / "run.json").read_text())
                # Another call may replace the run at this moment, and folders of other names are no runs.
                except (FileNotFoundError, ValueError):
                    continue
                # The duration of a program depends on its command alone.
                if values.get("wall_time_s") and values.get("images_seen") and "program" not in values["spec"]:
                    start_s = values.get("init_s", 0.0) + values.get("compile_s", 0.0)
                    work = name_work(values["spec"]["weights_file"])
                    eval_s, every = values.get("eval_s", 0.0), values["spec"].get("eval_every_epochs")
                    yield Record(run, work, values["wall_time_s"], start_s, values["images_seen"], eval_s, every)

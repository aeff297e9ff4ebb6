"""Estimates how long a run takes, from the records of similar runs."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import ceil
from pathlib import Path
from statistics import mean

from howmanygpus.plan.dry_run.estimate import BY_LIMIT, Expectation
from howmanygpus.plan.plan import Plan
from howmanygpus.plan.runs import Run

RUNS = Path("results/runs")
BY_OTHERS = "runs of other frameworks"
REPEATS_READ = 3
"""Repeats of a configuration that are read, because thousands of records would take longer than the plan."""


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
    "runs of the same configuration": lambda run: (
        *(run.study, run.framework, run.variant, run.input, run.precision),
        *(run.device, run.num_gpus, run.num_nodes, run.per_device_batch_size),
    ),
    "runs of the same framework, device count and batch size": lambda run: (
        *(run.framework, run.input, run.precision, run.device, run.num_gpus, run.per_device_batch_size),
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

    def expect(self, run: Run) -> Expectation:
        study = self._plan.studies[run.study]
        limit_s = 60 * study.config["time_limit_min"]
        if self._like and not study.is_program:
            work, images = name_work(study.weights_file(run)), study.num_images(run)
            per_epoch = study.description.num_train
            evaluations = count_evaluations(images, per_epoch, study.settings_of(run)["eval_every_epochs"])
            for basis, common in LIKENESS.items():
                if records := self._like.get((work, basis, common(run))):
                    expected_s = mean(record.scale(images, run.num_gpus, evaluations, per_epoch) for record in records)
                    return Expectation(min(expected_s, limit_s), basis)
        return Expectation(limit_s, BY_LIMIT, is_limit=True)

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
        for _, repeats in groupby(sorted(folders), key=lambda name: name.rpartition("_repeat")[0]):
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

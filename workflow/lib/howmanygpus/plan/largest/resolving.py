"""Puts a number in place of `max` in the runs of a study, and lists the searches that the numbers come from."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from howmanygpus.plan.config.errors import refuse
from howmanygpus.plan.largest.known import FAILED, Find
from howmanygpus.plan.largest.search import Search, select_settings
from howmanygpus.plan.largest.sizes import (
    MAX,
    OPEN,
    UNRESOLVED,
    Size,
    bound_by_data,
    choose_size,
    list_numbers,
    stand_in,
)
from howmanygpus.plan.runs import Run
from howmanygpus.plan.study.batches import accumulate_batches

if TYPE_CHECKING:
    from howmanygpus.plan.study.study import Study

Series = tuple[str, str, str, str]
"""Framework, variant, precision and device. The largest batch depends on them, and not on input or device count."""


def find_series(run: Run) -> Series:
    return run.framework, run.variant, run.precision, run.device


def take_max(place: str, config: dict) -> None:
    """Make a list of a lone `max`. config: a complete study. Raises ConfigError for keys that `max` excludes."""
    if config["per_device_batch_size"] == MAX:
        config["per_device_batch_size"] = [MAX]
    if MAX in config["per_device_batch_size"] and config["scaling"] == "both":
        problem = "needs curves that share no runs"
        remedy = "make one study of weak scaling and one of strong scaling"
        raise refuse(f"{place}.per_device_batch_size", MAX, problem, remedy)


def refuse_max(place: str, config: dict) -> None:
    """Raise ConfigError for `max` in a study with a program."""
    if MAX in config["per_device_batch_size"]:
        problem = "needs a search, and only a program itself knows whether it ran out of memory or failed"
        raise refuse(f"{place}.per_device_batch_size", MAX, problem, "list numbers, or train one of our networks")


class Largest:
    """The batch sizes in place of `max` in one study.

    samples: for each series that needs a number, its first run. searches, sizes: of each such series. found: results,
    by the searches' records.
    """

    def __init__(self, study: "Study", runs: list[Run], find: Find):
        """runs: of the study. Those with `max` are UNRESOLVED, and the study has left out those that it excludes."""
        self._study, config = study, study.config
        asked = [run for run in runs if run.per_device_batch_size == UNRESOLVED]
        self._asked = set(map(find_series, asked))
        self.bound = bound_by_data(study.description.num_train, config, list(study.variants.values()))
        self.samples: dict[Series, Run] = {}
        for run in sorted(asked, key=lambda run: run.num_gpus):
            if not run.unsupported:
                self.samples.setdefault(find_series(run), run)
        self.searches: dict[Series, Search] = {}
        self.sizes: dict[Series, Size] = {}
        self.found: dict[str, dict | None] = {}
        self._find = find

    def list_sizes(self, series: Series) -> list[int]:
        """Return the distinct batch sizes of a series: those of the study, and its own number or a placeholder."""
        numbers = list_numbers(self._study.config)
        own = [self._get_number(series)] if series in self._asked else []
        return [*numbers, *(size for size in own if size not in numbers)]

    def _get_number(self, series: Series) -> int:
        size = self.sizes.get(series)
        return size.number if size and size.number else stand_in(self.bound, self._study.config)

    def resolve(self, runs: list[Run]) -> list[Run]:
        """Return all runs with their numbers. A number that the study also lists makes no second run.

        Runs without a number are unsupported, with the reason.
        """
        for series, run in self.samples.items():
            self.searches[series] = search = self._make_search(run)
            self.found[search.record] = found = self._find(search.record)
            self.sizes[series] = choose_size(found, self.bound, self._study.config)
        listed = {run.path for run in runs}
        resolved = [run if run.per_device_batch_size != UNRESOLVED else self._give_number(run) for run in runs]
        return [
            run
            for run, given in zip(resolved, runs, strict=True)
            if given.per_device_batch_size != UNRESOLVED or run.path not in listed
        ]

    def _give_number(self, run: Run) -> Run:
        series = find_series(run)
        number, size = self._get_number(series), self.sizes.get(series)
        batches = accumulate_batches(self._study.place, self._study.config, [number])[run.num_gpus]
        reason = run.unsupported
        if size and not size.number:
            reason = reason or f"per_device_batch_size: max has no number ({size.limit}): {size.reason}"
        return replace(run, per_device_batch_size=next(iter(batches)), unsupported=reason)

    def _make_search(self, run: Run) -> Search:
        study = self._study
        settings = study.settings(replace(run, num_gpus=1, num_nodes=None, per_device_batch_size=UNRESOLVED))
        return Search(
            **{key: getattr(run, key) for key in ("framework", "precision", "device")},
            network_name=study.network_name,
            settings=select_settings(settings),
            image_shape=study.image_shape(run),
            num_classes=study.description.num_classes,
            multi_label=study.description.multi_label,
            bound=self.bound,
        )

    def list_records(self) -> list[str]:
        """Return the records of the searches, apart from those that failed in this call."""
        return list(
            dict.fromkeys(self.searches[name].record for name, size in self.sizes.items() if not size.has_failed)
        )

    def list_failures(self) -> list[str]:
        """Return the files that say why searches failed in this call."""
        failed = [self.searches[name].record for name, size in self.sizes.items() if size.has_failed]
        return [str(Path(record).with_suffix(FAILED)) for record in dict.fromkeys(failed)]

    @property
    def is_open(self) -> bool:
        """Whether a number is not known yet."""
        return any(size.limit == OPEN for size in self.sizes.values())

    def describe(self) -> list[dict]:
        """Return each series with its number in place of `max`, and with its search."""
        names = ("framework", "variant", "precision", "device")
        return [
            {**dict(zip(names, series, strict=True)), "search": self.searches[series].name, **vars(size)}
            for series, size in self.sizes.items()
        ]

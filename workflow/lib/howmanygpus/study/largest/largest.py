"""The largest batches that fit, for each series of a study, and the searches that found them."""

from dataclasses import dataclass, field
from pathlib import Path

from howmanygpus.study.largest.search import FAILED, ProgramSearch, Search
from howmanygpus.study.largest.sizes import OPEN, Size, choose_placeholder, list_numbers
from howmanygpus.study.runs import Run

Series = tuple[str, str, str, str]
"""Framework, variant, precision and device. The largest batch depends on them, and not on input or device count."""


def get_series(run: Run) -> Series:
    return run.framework, run.variant, run.precision, run.device


@dataclass(frozen=True)
class Largest:
    """The resolved values of `per_device_batch_size: max` in one study.

    config: of the study. bound: the largest batch that the data set allows. asked: the series that need a number.
    samples: the first run of each of them that is supported, on the fewest devices. searches, sizes: search and size
    of each such series. step: of which all sizes are multiples.
    """

    config: dict
    bound: int
    asked: frozenset[Series]
    samples: dict[Series, Run]
    searches: dict[Series, Search | ProgramSearch] = field(default_factory=dict)
    sizes: dict[Series, Size] = field(default_factory=dict)
    step: int = 1

    def list_sizes(self, series: Series) -> list[int]:
        """Return the distinct batch sizes of a series: the study's sizes, and its resolved size or a placeholder."""
        numbers = list_numbers(self.config)
        own = [self.get_number(series)] if series in self.asked else []
        return [*numbers, *(size for size in own if size not in numbers)]

    def get_number(self, series: Series) -> int:
        size = self.sizes.get(series)
        return size.number if size and size.number else choose_placeholder(self.bound, self.config, self.step)

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

"""The batch size in place of `max` in the runs of a study."""

import math
from dataclasses import dataclass

from howmanygpus.measure.largest.bisecting import DATA_SET, GRAIN, HOST_MEMORY, MEMORY, START, round_down
from howmanygpus.study.largest.search import GAVE_UP

MAX, UNRESOLVED = "max", 0
"""Batch size as a study gives it, and batch size of its runs until a search resolves it."""
OPEN = "open"
"""The limit of a batch size whose search is still to be done."""
FIT_ON_SEVERAL = (15, 16)
"""Runs on several devices take this fraction of one device's largest batch (numerator, denominator).

They exchange gradients, for which libraries such as NCCL and the frameworks take memory that a run on one device does
not need.
"""


@dataclass(frozen=True)
class Size:
    """The batch size in place of `max`.

    number: the per-device batch size, on the smallest device count under strong scaling; 0 if no run can have one.
    largest: the search's result; 0 if there is none. limit: why it is no larger: `memory`, `host_memory` or
    `data_set`, or why there is none: `open`, `failed` or `refused`. reason: the same in words.
    """

    number: int
    largest: int
    limit: str
    reason: str

    @property
    def has_failed(self) -> bool:
        return self.limit == GAVE_UP


def list_numbers(config: dict) -> list[int]:
    """Return the batch sizes that a study gives as numbers."""
    return [size for size in config["per_device_batch_size"] if size != MAX]


def compute_data_bound(num_train: int, config: dict, settings: list[dict]) -> int:
    """Return the largest per-device batch with which every run of a study has a step to measure; at least 1.

    settings: the settings of each variant.
    """
    num_gpus = min(config["num_gpus"]) if config["scaling"] == "strong" else max(config["num_gpus"])
    steps = [1 if each["steps"] else math.ceil((each["warmup_steps"] + 1) / each["epochs"]) for each in settings]
    return max(1, round_down(num_train // (num_gpus * config["accumulate"] * max(steps))))


def choose_step(config: dict) -> int:
    """Return the step of which a program's batches are multiples: the smallest number that its study lists, or 1.

    A batch may be a number of tokens, of which a program takes whole sequences.
    """
    return min(list_numbers(config), default=1)


def choose_placeholder(bound: int, config: dict, own_step: int = 1) -> int:
    """Return a batch size that the study does not list, for runs that wait for a search or never get a number."""
    step = count_step(config)
    start, grain = (START, GRAIN) if own_step == 1 else (own_step, own_step)
    first = fit_to_counts(min(start, bound), config) or step
    listed, sizes = list_numbers(config), range(first, bound + 1, math.lcm(grain, step))
    return next((size for size in sizes if size not in listed), first)


def choose_size(found: dict | None, bound: int, config: dict, step: int = 1, what: str = "images") -> Size:
    """Return the size in place of `max`.

    found: result of the search. bound: limit by the data set. step: of sizes. what: a batch counts.
    """
    if found is None:
        return Size(choose_placeholder(bound, config, step), 0, OPEN, "the largest batch that fits is not known yet")
    largest, limit, reason = found["largest"], found["limit"], found["reason"]
    size = largest
    if limit in (MEMORY, HOST_MEMORY) and max(config["num_gpus"]) > 1:
        part, whole = FIT_ON_SEVERAL
        size = max(min(1, largest), min(largest, round_down(largest * part // whole, step)))
    number = fit_to_counts(size, config)
    if not largest and limit in (MEMORY, HOST_MEMORY, DATA_SET):
        reason = f"not even {'one image fits' if what == 'images' else f'{step} {what} fit'}: {reason}"
    elif largest and not number:
        reason = f"the {size} {what} that fit make no global batch that every device count divides"
    return Size(number, largest, limit, reason)


def fit_to_counts(size: int, config: dict) -> int:
    """Return the largest batch up to a size whose global batch all device counts divide, under strong scaling."""
    return size - size % count_step(config)


def count_step(config: dict) -> int:
    """Return the smallest per-device batch whose global batch all device counts divide; 1 under weak scaling."""
    if config["scaling"] != "strong":
        return 1
    together = min(config["num_gpus"]) * config["accumulate"]
    return math.lcm(*(count // math.gcd(count, together) for count in config["num_gpus"]))

"""
Decides which batch size a search tries next, and what it has found. A pure function of the tries so far.

The size is doubled until it does not fit or is the bound. Then the range between the largest size that fits and the
smallest one that does not is halved, in multiples of GRAIN. The result is confirmed by a longer try. If that one
fails, its size counts as one that does not fit, and the search continues below it. A size that fits above one that does
not is never the answer.
"""

from collections.abc import Iterable
from dataclasses import dataclass

START = 32
"""The first batch size that is tried."""
GRAIN = 8
"""Sizes above this are searched in multiples of it."""
MAX_FAILURES = 2
"""Number of failures for reasons other than memory, at one size, that end the search. A try is repeated until then."""
FITS, OUT_OF_MEMORY, OUT_OF_HOST_MEMORY, FAILED = "fits", "out_of_memory", "host_out_of_memory", "failed"
"""Outcomes of a try."""
MEMORY, HOST_MEMORY, DATA_SET = "memory", "host_memory", "data_set"
"""What limits the largest batch: the memory of the device, that of the host, or the number of images."""


@dataclass(frozen=True)
class SizeTry:
    """One batch size that was tried. reason: the message if it did not fit. is_confirmation: whether it was long."""

    batch: int
    outcome: str
    reason: str = ""
    is_confirmation: bool = False


@dataclass(frozen=True)
class NextTry:
    """The batch size to try next."""

    batch: int
    is_confirmation: bool


@dataclass(frozen=True)
class SearchResult:
    """The end of a search. largest: 0 if nothing fits. limit: what prevents a larger one. reason: the same in words."""

    largest: int
    limit: str
    reason: str


class SearchError(Exception):
    """Tries fail for a reason other than memory."""


def round_down(size: int) -> int:
    """Return the largest batch size up to this one that a search can find."""
    return size - size % GRAIN if size > GRAIN else size


def choose_next(tries: Iterable[SizeTry], bound: int) -> NextTry | SearchResult:
    """Return the batch size to try next, or what the search has found.

    bound: largest size that the data set allows, at least 1. Raises SearchError if tries fail for other reasons than
    memory.
    """
    tries = list(tries)
    _check_failures(tries)
    # Searches with a larger bound may have tried sizes beyond this one.
    within = [each for each in tries if each.batch <= bound]
    too_large = {each.batch: each for each in within if each.outcome in (OUT_OF_MEMORY, OUT_OF_HOST_MEMORY)}
    smallest = min(too_large, default=bound + 1)
    fitting = [each for each in tries if each.outcome == FITS and each.batch < smallest]
    largest = max((each.batch for each in fitting), default=0)
    candidates = _list_between(largest, smallest)
    if not too_large and largest < bound:
        return NextTry(min(2 * largest or START, bound), is_confirmation=False)
    if not largest and candidates:
        return NextTry(max(1, round_down(smallest // 2)), is_confirmation=False)
    if too_large and candidates:
        return NextTry(candidates[len(candidates) // 2], is_confirmation=False)
    if largest and not any(each.batch == largest and each.is_confirmation for each in fitting):
        return NextTry(largest, is_confirmation=True)
    if not too_large:
        return SearchResult(largest, DATA_SET, f"{largest} images fit, and more would leave a run no step to measure")
    failure = too_large[smallest]
    limit = MEMORY if failure.outcome == OUT_OF_MEMORY else HOST_MEMORY
    return SearchResult(largest, limit, f"{smallest} images at a time do not fit: {failure.reason}")


def _check_failures(tries: list[SizeTry]) -> None:
    """Raise SearchError if the size that was tried last has failed too often."""
    last = tries[-1] if tries else None
    same = [each for each in tries if last and each.batch == last.batch and each.outcome == FAILED]
    if last and last.outcome == FAILED and len(same) >= MAX_FAILURES:
        raise SearchError(f"{last.batch} images at a time: {last.reason}")


def _list_between(fits: int, does_not: int) -> list[int]:
    """Return the sizes that a search can find between one that fits and one that does not, in rising order."""
    small = range(fits + 1, min(does_not, GRAIN))
    return [*small, *range(GRAIN * (fits // GRAIN + 1), does_not, GRAIN)]

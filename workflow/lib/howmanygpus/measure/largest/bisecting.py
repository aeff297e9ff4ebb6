"""
Decides which batch size a search tries next, and what it has found. A pure function of the tries so far.

The size is doubled until it does not fit or is the bound. Then the range between the largest size that fits and the
smallest one that does not is halved, in multiples of GRAIN. A program of the user may take only multiples of a step,
from which its search begins. The result is confirmed by a longer try. If that one
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
NO_STEP = "no_step"
"""Outcomes of a try. With more samples than a program has, it ends well and without a step."""
MEMORY, HOST_MEMORY, DATA_SET, NOT_TRIED = "memory", "host_memory", "data_set", "not_tried"
"""What limits the largest batch: the memory of the device, that of the host, the number of images, or the search."""
LIMITS = {OUT_OF_MEMORY: MEMORY, OUT_OF_HOST_MEMORY: HOST_MEMORY, NO_STEP: DATA_SET}
"""Outcomes of a size that is too large, with what limits the batch."""


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


def round_down(size: int, step: int = 1) -> int:
    """Return the largest batch size up to this one that a search can find; step if there is none."""
    if step > 1:
        return max(step, size - size % step)
    return size - size % GRAIN if size > GRAIN else size


def choose_next(
    tries: Iterable[SizeTry], bound: int, step: int = 1, of_program: bool = False
) -> NextTry | SearchResult:
    """Return the batch size to try next, or what the search has found.

    bound: largest size that the data set allows, at least 1; of a program, the largest that is tried. step: of which
    all sizes are multiples. Raises SearchError if tries fail for other reasons than memory.
    """
    tries = list(tries)
    what = "samples" if of_program else "images"
    _check_failures(tries, what)
    # Searches with a larger bound may have tried sizes beyond this one.
    within = [each for each in tries if each.batch <= bound]
    too_large = {each.batch: each for each in within if each.outcome in LIMITS}
    smallest = min(too_large, default=bound + 1)
    fitting = [each for each in tries if each.outcome == FITS and each.batch < smallest]
    largest = max((each.batch for each in fitting), default=0)
    candidates = _list_between(largest, smallest, step)
    if not too_large and largest < bound:
        return NextTry(min(2 * largest or (START if step == 1 else step), bound), is_confirmation=False)
    if not largest and candidates:
        return NextTry(max(1, round_down(smallest // 2, step)), is_confirmation=False)
    if too_large and candidates:
        return NextTry(candidates[len(candidates) // 2], is_confirmation=False)
    if largest and not any(each.batch == largest and each.is_confirmation for each in fitting):
        return NextTry(largest, is_confirmation=True)
    if not too_large and of_program:
        return SearchResult(largest, NOT_TRIED, f"{largest} samples fit, and more were not tried")
    if not too_large:
        return SearchResult(largest, DATA_SET, f"{largest} images fit, and more would leave a run no step to measure")
    failure = too_large[smallest]
    problem = "leave the program no step" if failure.outcome == NO_STEP else "do not fit"
    reason = f"{smallest} {what} at a time {problem}: {failure.reason}"
    return SearchResult(largest, LIMITS[failure.outcome], reason)


def _check_failures(tries: list[SizeTry], what: str) -> None:
    """Raise SearchError if the size that was tried last has failed too often."""
    last = tries[-1] if tries else None
    same = [each for each in tries if last and each.batch == last.batch and each.outcome == FAILED]
    if last and last.outcome == FAILED and len(same) >= MAX_FAILURES:
        raise SearchError(f"{last.batch} {what} at a time: {last.reason}")


def _list_between(fits: int, does_not: int, step: int) -> list[int]:
    """Return the sizes that a search can find between one that fits and one that does not, in rising order."""
    if step > 1:
        return list(range(step * (fits // step + 1), does_not, step))
    small = range(fits + 1, min(does_not, GRAIN))
    return [*small, *range(GRAIN * (fits // GRAIN + 1), does_not, GRAIN)]

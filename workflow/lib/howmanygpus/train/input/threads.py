"""Work on the parts of a batch in several threads at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache


@cache
def _pool(num_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(num_threads, thread_name_prefix="loader")


def fill_in_threads(fill: Callable[[int, int], None], count: int, num_threads: int) -> None:
    """Call fill(start, stop) for num_threads even parts of range(count), each in a thread; one alone in the caller's.

    Raises what any of them raised.
    """
    if num_threads == 1:
        fill(0, count)
        return
    edges = [count * part // num_threads for part in range(num_threads + 1)]
    list(_pool(num_threads).map(fill, edges[:-1], edges[1:]))

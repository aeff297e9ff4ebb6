"""Feeds the devices: prepares batches, copies them there before they are used, and measures the copies' speed."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import Any

import numpy as np

from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.loop.backend import Backend
from howmanygpus.measure.loop.targets import target_shape
from howmanygpus.measure.spec import RunSpec

COPIES = 5
GIB = 2**30


def feed(items: Iterable, prepare: Callable, depth: int) -> "Prefetcher | Generator":
    """Return an iterator over prepare(item) of every item, up to `depth` items ahead; 0 prepares each on request.

    Its close() stops the preparation in progress.
    """
    return Prefetcher(items, prepare, depth) if depth else in_line(items, prepare)


def feed_device(host_batches: Iterable, put: Callable, spec: RunSpec) -> "Prefetcher | Generator":
    """Return an iterator over put(batch) of every batch of the host, up to `prefetch` ahead.

    On a GPU another thread loads a batch while the one before is copied. On a CPU `put` copies nothing.
    """
    if spec.prefetch and spec.device_kind != "cpu":
        host_batches = Prefetcher(host_batches, lambda batch: batch, depth=1)
    return feed(host_batches, put, spec.prefetch)


def in_line(items: Iterable, prepare: Callable) -> Generator:
    for item in items:
        yield prepare(item)


class Prefetcher:
    """Prepares items in a background thread, which holds at most `depth` prepared items and one in preparation.

    An exception of `items` or `prepare` is raised in place of the item.
    """

    _END = object()

    def __init__(self, items: Iterable, prepare: Callable, depth: int):
        self._items, self._prepare, self._depth = items, prepare, depth
        self._changed, self._stopped = threading.Condition(), False
        self._ready: deque[Any] = deque()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._prepare_all()
        except BaseException as error:  # raised in the thread that waits for the next item
            self._error = error
        self._add(self._END)

    def _prepare_all(self) -> None:
        try:
            for item in self._items:
                if not self._wait_for_room():
                    return
                self._add(self._prepare(item))
        finally:
            # A loader's workers must be ended by the thread that started them.
            if hasattr(self._items, "close"):
                self._items.close()

    def _wait_for_room(self) -> bool:
        """Wait until an item may be prepared. Return False if close() was called."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or len(self._ready) < self._depth)
            return not self._stopped

    def _add(self, item) -> None:
        with self._changed:
            self._ready.append(item)
            self._changed.notify_all()

    def __iter__(self) -> "Prefetcher":
        return self

    def __next__(self) -> Any:
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._stopped)
            if self._stopped or self._ready[0] is self._END:
                error, self._error = self._error, None
                raise error or StopIteration
            self._changed.notify_all()
            return self._ready.popleft()

    def close(self) -> None:
        """Stop the thread once its current item is prepared."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._thread.join()
        self._ready.clear()


def measure_host_to_device(
    backend: Backend, spec: RunSpec, data: PreparedData, clock=time.perf_counter
) -> tuple[float | None, str]:
    """Return the GiB/s at which each device gets its part of a batch, all devices at the same time; None on a CPU.

    It is measured from the array that a loader yields to the device's memory, including a copy into pinned memory if
    there is one. If a GPU has no rate, the second value is the reason. After the training there may be no room for
    another batch, which only the process that ran out of memory knows.
    """
    if spec.device_kind == "cpu":
        return None, ""
    if backend.takes_batches_itself:
        return None, f"{spec.framework} takes batches to the devices itself"
    local_batch_size = spec.global_batch_size // backend.num_processes
    # Pages of zeros that were never written are mapped to one page, which stays in the processor's cache.
    images = np.ones((local_batch_size, *data.image_shape), np.uint8)
    labels = np.zeros(*target_shape(local_batch_size, data.num_classes, data.multi_label))
    problem = ""

    def copy(times: int) -> float:
        """Return the seconds of the slowest process; infinite if any has no memory, since all must take part."""
        nonlocal problem
        started = clock()
        try:
            for _ in range(times):
                backend.wait_for_batch(backend.put_on_device(images, labels))
        except Exception as error:
            if not (problem := backend.explain_out_of_memory(error)):
                raise
        return backend.max_over_ranks(math.inf if problem else clock() - started)

    # All processes begin the second time together.
    if math.isinf(copy(1)) or math.isinf(elapsed_s := copy(COPIES)):
        return None, problem or "another process had no memory for a further batch"
    return COPIES * (spec.global_batch_size // spec.num_gpus) * math.prod(data.image_shape) / elapsed_s / GIB, ""

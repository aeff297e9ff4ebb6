"""
Completion times of steps, found by a thread that waits for one step after the other.

The host enqueues steps faster than the devices execute them. The thread limits how far the host runs ahead, and sees
completions while the host is busy or waits for a batch.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

PATIENCE_S = 10.0
"""Seconds that close() waits for the step in progress."""


class Completions:
    """Completion times of steps, by number from 1.

    wait: blocks until the step of a marker is complete. clock: seconds. An exception of `wait` is raised in the thread
    that asks for the step.
    """

    def __init__(self, wait: Callable[[Any], None], clock: Callable[[], float]):
        self._wait, self._clock = wait, clock
        self._changed, self._stopped = threading.Condition(), False
        self._markers: deque[tuple[int, Any]] = deque()
        self._finished: dict[int, float] = {}
        self._last_finished = 0
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def add(self, step: int, marker: Any) -> None:
        """Take the marker of a step that was enqueued; None if the step is complete."""
        if marker is None:
            self._finish(step)
            return
        with self._changed:
            self._markers.append((step, marker))
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="completions", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._markers or self._stopped)
                if self._stopped:
                    return
                step, marker = self._markers.popleft()
            try:
                self._wait(marker)
            except BaseException as error:  # whoever asks for the step must hear of it
                self._stop(error)
                return
            self._finish(step)

    def _finish(self, step: int) -> None:
        finished = self._clock()
        with self._changed:
            self._finished[step] = finished
            self._last_finished = step
            self._changed.notify_all()

    def _stop(self, error: BaseException | None) -> None:
        with self._changed:
            self._error, self._stopped = error, True
            self._changed.notify_all()

    def wait_for(self, step: int) -> float:
        """Block until an added step is complete. Return its completion time, or nan if `take` has returned it."""
        with self._changed:
            self._changed.wait_for(lambda: self._last_finished >= step or self._stopped)
            if self._error is not None:
                raise self._error
            return self._finished.get(step, math.nan)

    def take(self, steps: Iterable[int]) -> list[float]:
        """Return and forget the completion times of steps that are complete."""
        with self._changed:
            return [self._finished.pop(step) for step in steps]

    def close(self) -> None:
        """Stop the thread once the step that it waits for is complete. It cannot stop before that."""
        self._stop(self._error)
        if self._thread is not None:
            self._thread.join(PATIENCE_S)

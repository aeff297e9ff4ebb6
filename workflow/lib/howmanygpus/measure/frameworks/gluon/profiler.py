"""MXNet's profiler, whose trace is in Chrome's format: the operators that its engine executes, by device."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mxnet import profiler

from howmanygpus.measure.loop.tracing import Profiler

KINDS = ("symbolic", "imperative", "memory", "api")


class MxnetProfiler(Profiler):
    def start(self) -> None:
        file = str(self.folder / "trace.json")
        kinds = {f"profile_{kind}": kind in ("symbolic", "imperative") for kind in KINDS}
        profiler.set_config(filename=file, **kinds)
        self._domain = profiler.Domain("howmanygpus")
        profiler.set_state("run")

    @contextmanager
    def mark(self, name: str) -> Iterator[None]:
        task = self._domain.new_task(name)
        task.start()
        yield
        task.stop()

    def stop(self) -> Path:
        profiler.set_state("stop")
        profiler.dump()
        return self.folder / "trace.json"


PROFILER = MxnetProfiler

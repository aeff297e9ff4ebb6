"""jax.profiler, whose trace is an XSpace: operators of all threads of the host, and kernels and copies on GPUs."""

from contextlib import AbstractContextManager
from pathlib import Path

import jax

from howmanygpus.measure.loop.tracing import Profiler


class JaxProfiler(Profiler):
    form = ".xplane.pb"

    def start(self) -> None:
        options = jax.profiler.ProfileOptions()
        # Calls of Python functions would make the trace ten times as large.
        options.python_tracer_level = 0
        jax.profiler.start_trace(str(self.folder), profiler_options=options)

    def mark(self, name: str) -> AbstractContextManager:
        return jax.profiler.TraceAnnotation(name)

    def stop(self) -> Path:
        jax.profiler.stop_trace()
        return next(self.folder.rglob("*.xplane.pb"))


PROFILER = JaxProfiler

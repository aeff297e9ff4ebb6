"""tf.profiler, whose trace is an XSpace: operators of all threads of the host, and kernels and copies on GPUs."""

from contextlib import AbstractContextManager
from pathlib import Path

import tensorflow as tf

from howmanygpus.measure.loop.tracing import Profiler


class TensorflowProfiler(Profiler):
    form = ".xplane.pb"

    def start(self) -> None:
        # Level 2 has every operator. Calls of Python functions would make the trace ten times as large.
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
        tf.profiler.experimental.start(str(self.folder), options)

    def mark(self, name: str) -> AbstractContextManager:
        return tf.profiler.experimental.Trace(name)

    def stop(self) -> Path:
        tf.profiler.experimental.stop()
        return next(self.folder.rglob("*.xplane.pb"))


PROFILER = TensorflowProfiler

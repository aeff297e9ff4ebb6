"""tf.profiler, whose trace is an XSpace: operators of all threads of the host, and kernels and copies on GPUs."""

from contextlib import AbstractContextManager
from pathlib import Path

import tensorflow as tf

from howmanygpus.measure.loop.tracing import Profiler


class TensorflowProfiler(Profiler):
    form = ".xplane.pb"

    def start(self) -> None:
        # By default it records every operator, and no calls of Python functions, which would be ten times as many.
        tf.profiler.experimental.start(str(self.folder))

    def mark(self, name: str) -> AbstractContextManager:
        return tf.profiler.experimental.Trace(name)

    def stop(self) -> Path:
        tf.profiler.experimental.stop()
        return next(self.folder.rglob("*.xplane.pb"))


PROFILER = TensorflowProfiler

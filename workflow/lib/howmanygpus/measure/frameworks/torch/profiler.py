"""torch.profiler, whose trace is in Chrome's format: operators on the host, and kernels and copies on GPUs (CUPTI)."""

from contextlib import AbstractContextManager
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from howmanygpus.measure.loop.tracing import Profiler
from howmanygpus.measure.spec import RunSpec


class TorchProfiler(Profiler):
    def __init__(self, spec: RunSpec, folder: Path):
        super().__init__(spec, folder)
        gpu = [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
        self._profile = profile(activities=[ProfilerActivity.CPU, *gpu])

    def start(self) -> None:
        self._profile.start()

    def mark(self, name: str) -> AbstractContextManager:
        return record_function(name)

    def stop(self) -> Path:
        self._profile.stop()
        file = self.folder / "trace.json"
        self._profile.export_chrome_trace(str(file))
        return file


PROFILER = TorchProfiler

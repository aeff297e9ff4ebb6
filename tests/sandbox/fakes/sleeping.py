"""
Provide a backend without a framework, for tests and benchmarks of everything around the training.

The file fake_behaviour.json in the working directory maps a part of a run's path to the run's behaviour: `crash`,
`abort`, `out_of_memory`, `host_out_of_memory`, `diverge`, `unsupported`, `hang`, `hang_at_end` (when the outcome is
written), `kill_launcher`, `wait_for_file`, {"sleep_s": seconds}, {"step_s": seconds of every step},
{"owed_s": seconds of every step, for which only wait_until_idle waits} or {"allocate_mb": host memory}. The path of an
independent run is that of a run on one device with the suffix `_device0`, `_device1` and so on.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from howmanygpus.measure.loop.backend import StepwiseBackend, UnsupportedError


class FakeOutOfMemoryError(Exception):
    pass


class Sleeping(StepwiseBackend):
    out_of_memory_errors = (FakeOutOfMemoryError,)

    def __init__(self, spec, data, weights, learning_rates):
        self.spec, self.data, self._weights = spec, data, weights
        self.rank, self.num_processes = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        self.behaviour = find_behaviour(spec)
        self.steps, self.owed_s = 0, 0.0
        if self.behaviour == "unsupported":
            raise UnsupportedError("this device cannot sleep")

    def put_on_device(self, images, labels):
        return images

    def put_for_prediction(self, images):
        return images

    def train_step(self, images, learning_rate):
        self.steps += 1
        if isinstance(self.behaviour, dict) and "step_s" in self.behaviour:
            time.sleep(self.behaviour["step_s"])
        if isinstance(self.behaviour, dict):
            self.owed_s += self.behaviour.get("owed_s", 0.0)
        assert len(images) == self.spec.global_batch_size // self.num_processes
        if self.steps != 2:
            return
        match self.behaviour:
            case "crash":
                raise RuntimeError("the fake backend was told to crash")
            case "abort":
                os.write(2, b"terminate called after throwing an instance of 'Fake'\n")
                os.write(2, b"  what():  the fake library was told to abort\n")
                os.abort()
            case "out_of_memory":
                raise FakeOutOfMemoryError("tried to allocate 7 GiB")
            case "host_out_of_memory":
                raise MemoryError("the fake backend pretends that this host has no memory left")
            case "hang":
                time.sleep(3600)
            case "kill_launcher":
                os.kill(os.getppid(), signal.SIGKILL)
                time.sleep(3600)
            case "wait_for_file":
                while not Path("go_on").exists():
                    time.sleep(0.05)
            case {"sleep_s": seconds}:
                time.sleep(seconds)
            case {"allocate_mb": size_mb}:
                filled = np.ones(size_mb * 2**17)
                time.sleep(15)
                del filled

    def predict(self, images):
        logits = np.random.default_rng(self.steps).normal(size=(len(images), self.data.num_classes))
        return logits.astype(np.float32)

    def mark_step(self):
        return None

    def wait_until_idle(self):
        time.sleep(self.owed_s)
        self.owed_s = 0.0

    def read_window_loss(self, num_steps):
        return float("nan") if self.behaviour == "diverge" and self.steps > 2 else 1.0 / (1 + self.steps)

    def weights(self):
        return self._weights

    def close(self):
        if self.behaviour == "hang_at_end":
            time.sleep(3600)

    def peak_memory_bytes(self):
        return 2**30

    def versions(self):
        return {"sleeping": "1.0"}

    def settings(self):
        return {"execution": "none", "layout": "none", "optimizer": "none"}

    def device_model(self):
        return None


def find_behaviour(spec):
    path = Path("fake_behaviour.json")
    cell = f"gpus{spec.num_gpus}_batch{spec.per_device_batch_size}_repeat{spec.repeat}"
    folder = Path(sys.argv[sys.argv.index("--attempt") + 1]).name if "--attempt" in sys.argv else ""
    cell += f"_{folder}" if folder.startswith("device") else ""
    name = f"{spec.study}/{spec.framework}/{spec.variant}/{cell}"
    behaviours = json.loads(path.read_text()) if path.exists() else {}
    return next((value for part, value in behaviours.items() if part in name), None)


BACKEND = Sleeping

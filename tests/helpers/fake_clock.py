"""A backend whose steps take one second of a fake clock, for tests of the loop."""

import json
import threading

import numpy as np

from helpers.specs import make_data, make_spec
from howmanygpus.measure.loop.backend import StepwiseBackend
from howmanygpus.measure.loop.loop import TrainingLoop
from howmanygpus.measure.records import EventLog


class Ticking(StepwiseBackend):
    """Advance a fake clock: one second per step, queued until a caller waits, and half a second per prediction."""

    def __init__(self, num_classes=10, losses=None):
        self.now, self.queued, self.num_classes = 0.0, 0.0, num_classes
        self.losses, self.synchronised_at, self.steps, self.rates = losses or {}, [], 0, []
        self.put, self.trained = [], []

    def clock(self):
        return self.now

    def put_on_device(self, images, labels):
        self.put.append(images)
        return images

    def put_for_prediction(self, images):
        return images

    def train_step(self, images, learning_rate):
        self.trained.append(images)
        self.steps += 1
        self.rates.append(learning_rate)
        self.queued += 1.0

    def predict(self, images):
        self.now += 0.5
        return np.zeros((len(images), self.num_classes), np.float32)

    def mark_step(self):
        return None

    def wait_until_idle(self):
        self.now, self.queued = self.now + self.queued, 0.0
        self.synchronised_at.append(self.steps)

    def read_window_loss(self, num_steps):
        return self.losses.get(self.steps, 0.5)

    def max_over_ranks(self, value):
        return value

    def weights(self):
        return {}

    versions = settings = weights

    def peak_memory_bytes(self):
        return None

    device_model = peak_memory_bytes


def run_loop(tmp_path, backend=None, num_test=13, **changes):
    backend, spec = backend or Ticking(), make_spec(**changes)
    data = make_data(num_train=80, num_test=num_test, num_classes=backend.num_classes)
    num_steps = spec.steps or spec.epochs * 10
    events = EventLog(tmp_path / "events.jsonl", started_at=0.0)
    loop = TrainingLoop(spec, data, backend, np.arange(num_steps, dtype=np.float32), events, clock=backend.clock)
    with loop:
        backend.train(loop)
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    return loop, [line for line in lines if line["event"] == "window"], [x for x in lines if x["event"] == "evaluation"]


def feeding_threads():
    return [thread for thread in threading.enumerate() if thread.name == "feed"]

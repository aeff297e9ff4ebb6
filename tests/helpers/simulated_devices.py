"""
A simulated device and a simulated loader, whose times are computed beforehand.

Every thread has a clock of its own, which shows the time of what the thread has seen last: a batch that arrived, or a
step that ended. What the loop measures depends on no real time.
"""

import threading

import numpy as np

from helpers.fake_clock import Ticking
from helpers.specs import make_data, make_spec
from howmanygpus.measure.host.processes import Suspensions
from howmanygpus.measure.loop.loop import TrainingLoop
from howmanygpus.measure.loop.train import find_doubts

STEPS = 30


class Schedule:
    """When batches arrive and steps end, by step from 1, if the host takes no time.

    step_s: seconds of a step; delays_s: seconds that the loader takes for each batch, in turn. The first step is a
    window of its own, at the end of which the host waits for the device.
    """

    def __init__(self, step_s, delays_s, prefetch):
        self.ready, self.ended, self.enqueued = [0.0], [0.0], [0.0]
        taken = [0.0]
        for step in range(1, STEPS + 1):
            host = max(self.enqueued[-1], self.ended[1] if step > 1 else 0.0)
            if prefetch:
                loaded = self.ready[-1] + delays_s[(step - 1) % len(delays_s)]
                ready = max(loaded, taken[step - prefetch] if step > prefetch else 0.0)
            else:
                ready = host + delays_s[(step - 1) % len(delays_s)]
            taken.append(max(host, ready))
            earlier = self.ended[max(0, step - max(1, prefetch))]
            self.ready.append(ready)
            self.enqueued.append(max(taken[-1], earlier))
            self.ended.append(max(self.ended[-1], self.enqueued[-1]) + step_s)

    @property
    def starved_s(self):
        """Seconds after the first step in which the device had nothing to do because a batch was not there."""
        return sum(max(0.0, self.ready[step] - self.ended[step - 1]) for step in range(2, STEPS + 1))


class Simulated(Ticking):
    """Play a schedule."""

    def __init__(self, schedule):
        super().__init__()
        self.schedule, self.local = schedule, threading.local()

    def clock(self):
        return getattr(self.local, "now", 0.0)

    def see(self, moment):
        self.local.now = max(self.clock(), moment)

    def put_on_device(self, images, labels):
        self.put.append(images)
        self.see(self.schedule.ready[len(self.put)])

    def train_step(self, batch, learning_rate):
        self.steps += 1
        self.see(self.schedule.enqueued[self.steps])

    def mark_step(self):
        return self.schedule.ended[self.steps]

    def wait_for_step(self, marker):
        self.see(marker)

    def wait_until_idle(self):
        self.see(self.schedule.ended[self.steps])

    def read_window_loss(self, num_steps):
        self.see(self.schedule.ended[self.steps])
        return 0.5


class Kept:
    """Keeps events."""

    def __init__(self):
        self.kept = []

    def write(self, event, **values):
        self.kept.append({"event": event} | values)


def train(backend, events=None, **changes):
    settings = {"epochs": None, "steps": STEPS, "window_steps": 100, "warmup_steps": 1, "prefetch": 2}
    spec, data = make_spec(**settings | changes), make_data(num_train=8 * STEPS + 8, num_test=4)
    clocks = {"clock": backend.clock, "second_clock": backend.clock}
    with TrainingLoop(spec, data, backend, np.zeros(STEPS), events, **clocks) as loop:
        backend.train(loop)
    return loop


def explain(loop):
    return find_doubts(loop, Suspensions()).judge().get("reason", "")

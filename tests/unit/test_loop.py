"""Windows, phases, clocks and evaluations of the training loop, on a backend whose steps take one second."""

import json

import numpy as np
import pytest

from specs import make_data, make_spec
from trainbench.backend import StepwiseBackend
from trainbench.loop import DivergedError, TrainingLoop
from trainbench.records import EventLog


class Ticking(StepwiseBackend):
    """Advances a false clock: one second a step, queued until somebody waits; half a second a prediction."""

    def __init__(self, num_classes=10, losses=None):
        self.now, self.queued, self.num_classes = 0.0, 0.0, num_classes
        self.losses, self.synchronised_at, self.steps, self.rates = losses or {}, [], 0, []

    def clock(self):
        return self.now

    def train_step(self, images, labels, learning_rate):
        self.steps += 1
        self.rates.append(learning_rate)
        self.queued += 1.0

    def predict(self, images):
        self.now += 0.5
        return np.zeros((len(images), self.num_classes), np.float32)

    def wait_until_idle(self):
        self.now, self.queued = self.now + self.queued, 0.0
        self.synchronised_at.append(self.steps)

    def take_window_loss(self, num_steps):
        return self.losses.get(self.steps, 0.5)

    def max_over_ranks(self, value):
        return value

    def weights(self):
        return {}

    def peak_memory_bytes(self):
        return None

    def versions(self):
        return {}

    def device_model(self):
        return None


def run_loop(tmp_path, backend=None, num_test=13, **changes):
    backend, spec, data = backend or Ticking(), make_spec(**changes), make_data(num_train=80, num_test=num_test)
    num_steps = spec.steps or spec.epochs * 10
    events = EventLog(tmp_path / "events.jsonl", started_at=0.0)
    loop = TrainingLoop(spec, data, backend, np.arange(num_steps, dtype=np.float32), events, clock=backend.clock)
    try:
        backend.train(loop)
    finally:
        events.close()
        lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    return loop, [line for line in lines if line["event"] == "window"], [x for x in lines if x["event"] == "evaluation"]


def test_windows_end_with_first_step_warmup_epochs_and_every_window_steps(tmp_path):
    _, windows, _ = run_loop(tmp_path, epochs=2, warmup_steps=4, window_steps=3)
    assert [(w["phase"], w["epoch"], w["first_step"], w["num_steps"]) for w in windows] == [
        ("compile", 1, 1, 1),
        ("warmup", 1, 2, 3),
        ("train", 1, 5, 3),
        ("train", 1, 8, 3),
        ("train", 2, 11, 3),
        ("train", 2, 14, 3),
        ("train", 2, 17, 3),
        ("train", 2, 20, 1),
    ]


def test_clocks_are_apart_and_a_window_counts_the_work_queued_in_it(tmp_path):
    loop, windows, evaluations = run_loop(tmp_path, epochs=2, warmup_steps=4, window_steps=3)
    assert all(window["elapsed_s"] == window["num_steps"] for window in windows)
    assert (loop.clocks.compile_s, loop.clocks.warmup_s, loop.clocks.measured_s) == (1, 3, 16)
    assert loop.clocks.measured_steps == 16
    assert [evaluation["elapsed_s"] for evaluation in evaluations] == [1.0, 1.0], "13 images in 2 batches of 8"
    assert [evaluation["train_s"] for evaluation in evaluations] == [9, 19]


def test_devices_are_synchronised_at_window_edges_only(tmp_path):
    backend = Ticking()
    run_loop(tmp_path, backend, epochs=1, warmup_steps=4, window_steps=3)
    assert sorted(set(backend.synchronised_at)) == [0, 1, 4, 7, 10]


def test_every_step_gets_its_own_learning_rate(tmp_path):
    backend = Ticking()
    run_loop(tmp_path, backend, epochs=None, steps=7)
    assert backend.rates == list(range(7))


@pytest.mark.parametrize(
    ("changes", "epochs"),
    [
        ({"epochs": 4}, [1, 2, 3, 4]),
        ({"epochs": 5, "eval_every_epochs": 2}, [2, 4, 5]),
        ({"epochs": None, "steps": 25}, [1, 2, 3]),
        ({"epochs": 2, "input": "synthetic"}, []),
    ],
)
def test_evaluations_follow_their_interval_and_the_last_step(tmp_path, changes, epochs):
    loop, _, evaluations = run_loop(tmp_path, **changes)
    assert [evaluation["epoch"] for evaluation in evaluations] == epochs
    assert loop.predictions.epochs == epochs


def test_a_loss_that_is_not_finite_stops_the_run_at_the_window_edge(tmp_path):
    with pytest.raises(DivergedError, match="training loss is nan in steps 5 to 7"):
        run_loop(tmp_path, Ticking(losses={7: float("nan")}), epochs=1, warmup_steps=4, window_steps=3)


def test_waiting_for_input_is_counted(tmp_path):
    backend = Ticking()
    spec, data = make_spec(epochs=1, warmup_steps=1), make_data(num_train=80)
    loop = TrainingLoop(spec, data, backend, np.zeros(10, np.float32), None, clock=backend.clock)

    def slow_feed():
        for batch in loop.training_batches:
            backend.now += 0.25
            yield batch

    loop.feed = lambda: iter(slow_feed())
    backend.train(loop)
    assert loop.clocks.data_wait_s == pytest.approx(9 * 0.25)
    assert loop.clocks.measured_s == pytest.approx(9 * 1.25)

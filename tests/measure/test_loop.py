"""Test the training loop's windows, phases, clocks and evaluations on a backend whose steps take one second."""

import itertools
import threading
import time

import numpy as np
import pytest

from hanging import HANG_S
from helpers.fake_clock import Ticking, feeding_threads, run_loop
from helpers.specs import make_data, make_spec
from howmanygpus.measure.loop.loop import DivergedError, TrainingLoop
from howmanygpus.measure.loop.prefetch import measure_host_to_device


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
        ({"epochs": 2, "input": "resident"}, []),
    ],
)
def test_evaluations_follow_their_interval_and_the_last_step(tmp_path, changes, epochs):
    loop, _, evaluations = run_loop(tmp_path, **changes)
    assert [evaluation["epoch"] for evaluation in evaluations] == epochs
    assert loop.evaluation.predictions.epochs == epochs


def test_a_loss_that_is_not_finite_stops_the_run_at_the_window_edge(tmp_path):
    with pytest.raises(DivergedError, match="training loss is nan in steps 5 to 7"):
        run_loop(tmp_path, Ticking(losses={7: float("nan")}), epochs=1, warmup_steps=4, window_steps=3)


class Reading(Ticking):
    """Lose one more in each step, and note after which steps losses are read and images put for prediction."""

    def __init__(self):
        super().__init__(losses={step: float(step) for step in range(1, 21)})
        self.read_at, self.fed_at = [], []

    def read_window_loss(self, num_steps):
        self.read_at.append((self.steps, num_steps))
        return super().read_window_loss(num_steps)

    def put_for_prediction(self, images):
        self.fed_at.append(self.steps)
        return images


class Patient(Reading):
    """Reading whose ninth step lasts until images were put for prediction: the thread that puts them has no clock."""

    def train_step(self, images, learning_rate):
        super().train_step(images, learning_rate)
        deadline = time.monotonic() + 10
        while self.steps == 9 and not self.fed_at and time.monotonic() < deadline:
            time.sleep(0.001)


def test_losses_are_read_once_a_window_or_after_every_step(tmp_path):
    usual, eager = Reading(), Reading()
    length = {"epochs": 1, "warmup_steps": 4, "window_steps": 3}
    run_loop(tmp_path, usual, **length)
    assert usual.read_at == [(1, 1), (4, 3), (7, 3), (10, 3)]
    (tmp_path / "eager").mkdir()
    _, windows, _ = run_loop(tmp_path / "eager", eager, reads_every_loss=True, **length)
    assert eager.read_at == [(step, 1) for step in range(1, 11)]
    assert [window["loss"] for window in windows] == [1.0, 3.0, 6.0, 9.0], "the mean over the window's steps"


def test_batches_of_an_evaluation_are_read_before_it_only_if_they_may_be(tmp_path):
    ahead, late = Patient(), Reading()
    run_loop(tmp_path, ahead, epochs=2, prefetch=2)
    run_loop(tmp_path, late, epochs=2, prefetch=2, eval_prefetch=False)
    assert min(ahead.fed_at) < 10, "reading began in the last steps of the epoch"
    assert sorted(late.fed_at) == [10, 10, 20, 20]


def test_waiting_for_input_is_counted(tmp_path):
    backend = Ticking()
    spec, data = make_spec(epochs=1, warmup_steps=1), make_data(num_train=80)
    loop = TrainingLoop(spec, data, backend, np.zeros(10, np.float32), None, clock=backend.clock)

    def slow_feed():
        for batch in loop.training_batches:
            backend.now += 0.25
            yield batch

    loop.host_batches = slow_feed
    backend.train(loop)
    assert loop.clocks.data_wait_s == pytest.approx(9 * 0.25)
    assert loop.clocks.measured_s == pytest.approx(9 * 1.25)


class Fitting(Ticking):
    """Fetch batches `depth` ahead of the steps, as Keras's fit does. Each batch takes 0.25 s to arrive."""

    def __init__(self, depth):
        super().__init__()
        self.depth = depth

    def train(self, loop):
        next(loop.iterate_handed_batches())  # fit looks at one batch to build the model, and starts again
        arriving = loop.iterate_handed_batches()
        self.take(arriving, self.depth)
        for _ in range(loop.num_steps):
            loop.begin_step()
            self.take(arriving, 1)
            self.train_step(None, loop.learning_rate)
            loop.after_step()

    def take(self, arriving, count):
        for _ in itertools.islice(arriving, count):
            pass


@pytest.mark.parametrize(("depth", "waited_s"), [(0, 0.25), (1, 0.0), (3, 0.0)])
def test_a_framework_with_its_own_feeding_waits_for_late_batches(depth, waited_s):
    backend = Fitting(depth)
    spec, data = make_spec(epochs=1, warmup_steps=1), make_data(num_train=80)
    loop = TrainingLoop(spec, data, backend, np.zeros(10, np.float32), None, clock=backend.clock)

    def slow_input():
        for batch in loop.training_batches:
            backend.now += 0.25
            yield batch

    loop.host_batches = slow_input
    backend.train(loop)
    assert loop.steps_done == 10
    assert loop.clocks.data_wait_s == pytest.approx(9 * waited_s)


@pytest.mark.parametrize("device_kind", ["cpu", "cuda"])
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_batches_are_on_the_device_that_many_steps_ahead(tmp_path, depth, device_kind):
    """Each step waits until the thread has put on the device as many batches as it may, and no more.

    For a GPU, another thread loads the batch that is put there next.
    """

    class Waiting(Ticking):
        def train_step(self, images, learning_rate):
            super().train_step(images, learning_rate)
            allowed = min(self.steps + depth, 20)
            deadline = time.monotonic() + HANG_S
            while len(self.put) < allowed and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(0.005)
            self.ahead.append(len(self.put) - self.steps)

    backend = Waiting()
    backend.ahead = []
    run_loop(tmp_path, backend, epochs=2, prefetch=depth, device_kind=device_kind)
    assert backend.ahead == [min(depth, 20 - step) for step in range(1, 21)]
    assert all(one is other for one, other in zip(backend.put, backend.trained, strict=True))
    assert not feeding_threads()


@pytest.mark.parametrize("depth", [0, 2])
def test_the_first_images_of_an_evaluation_are_read_before_training_ends(tmp_path, depth):
    class Noting(Ticking):
        def put_for_prediction(self, images):
            self.steps_at_reading.append(self.steps)
            self.was_read.set()
            return images

        def train_step(self, images, learning_rate):
            super().train_step(images, learning_rate)
            if depth and self.steps == 10:
                assert self.was_read.wait(timeout=HANG_S)

    backend = Noting()
    backend.steps_at_reading, backend.was_read = [], threading.Event()
    loop, _, _ = run_loop(tmp_path, backend, num_test=33, prefetch=depth)
    assert backend.steps_at_reading[0] == 10 if depth == 0 else backend.steps_at_reading[0] in (8, 9, 10)
    assert sorted(loop.evaluation.predictions.samples) == list(range(33))


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("where", ["loader", "put_on_device", "put_for_prediction", "train_step"])
def test_an_error_wherever_it_happens_ends_the_training_and_the_threads(tmp_path, where, depth):
    def fail(*_):
        raise OSError(f"{where} is broken")

    backend, spec, data = Ticking(), make_spec(epochs=1, prefetch=depth), make_data(num_train=80)
    loop = TrainingLoop(spec, data, backend, np.zeros(10, np.float32), None, clock=backend.clock)
    if where == "loader":
        loop.training_batches = map(fail, range(10))
    else:
        setattr(backend, where, fail)
    with pytest.raises(OSError, match=f"{where} is broken"), loop:
        backend.train(loop)
    assert not feeding_threads()


def test_a_diverged_run_leaves_no_thread_and_closes_its_loader_in_it(tmp_path):
    closed_in = []

    def load():
        try:
            yield from iter(lambda: (np.zeros((8, 6, 6, 1), np.uint8), np.zeros(8, np.int32)), None)
        finally:
            closed_in.append(threading.current_thread().name)

    backend = Ticking(losses={7: float("nan")})
    spec, data = make_spec(epochs=1, warmup_steps=4, window_steps=3, prefetch=2), make_data(num_train=80)
    loop = TrainingLoop(spec, data, backend, np.zeros(10, np.float32), None, clock=backend.clock)
    loop.training_batches = load()
    with pytest.raises(DivergedError), loop:
        backend.train(loop)
    assert not feeding_threads()
    assert closed_in == ["feed"]


@pytest.mark.parametrize("eval_devices", ["all", "first"])
@pytest.mark.parametrize("eval_batch_size", [None, 3, 50])
@pytest.mark.parametrize("num_processes", [1, 2])
def test_every_test_image_counts_once_whoever_predicts(tmp_path, eval_devices, eval_batch_size, num_processes):
    seen, sizes = [], []
    for rank in range(num_processes):
        backend = Ticking()
        backend.rank, backend.num_processes = rank, num_processes
        backend.put_for_prediction = lambda images: sizes.append(len(images)) or images
        changes = {"num_gpus": 2, "eval_devices": eval_devices, "eval_batch_size": eval_batch_size, "prefetch": 2}
        loop, _, _ = run_loop(tmp_path, backend, num_test=13, **changes)
        seen.extend(loop.evaluation.predictions.samples)
    assert sorted(seen) == list(range(13))
    per_device = eval_batch_size or 4
    assert set(sizes) == {per_device if eval_devices == "first" else per_device * 2 // num_processes}


def test_bandwidth_is_measured_per_device_while_all_are_fed(tmp_path):
    """2 x 512 images of 4 KiB, which is 2 MiB for each device, are copied in half a second."""
    backend = Ticking()
    backend.wait_for_batch = lambda batch: setattr(backend, "now", backend.now + 0.5)
    spec = make_spec(num_gpus=2, global_batch_size=1024, device_kind="cuda")
    data = make_data(image_shape=(64, 64, 1))
    assert measure_host_to_device(backend, spec, data, backend.clock) == (pytest.approx(2 * 2 / 1024), "")
    assert all(images.all() for images in backend.put), "pages that nobody has written are read from the cache"
    assert measure_host_to_device(backend, make_spec(), data, backend.clock) == (None, "")

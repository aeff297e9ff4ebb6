"""Threads of the shared loader load small batches side by side, and hold the GIL for few calls."""

import sys
import threading

import numpy as np
import pytest

import howmanygpus.measure.input.augmentation as changing_module
import howmanygpus.measure.input.batches as batches_module
from hanging import HANG_S
from helpers.fake_clock import Ticking
from helpers.specs import make_data, make_spec
from howmanygpus.measure.input.augmentation import PaddedImages, is_copied
from howmanygpus.measure.input.batches import BYTES_PER_WORKER, TrainingBatches
from howmanygpus.measure.input.draws import LocalBatches
from howmanygpus.measure.loop.loop import TrainingLoop


def count_calls(spec, data) -> int:
    """Count the calls of Python and C functions, for each of which Python holds the GIL, while one batch is loaded."""
    batches, calls = iter(TrainingBatches(spec, data, 0, 1)), []
    next(batches)
    sys.setprofile(lambda frame, event, function: calls.append(event) if event.endswith("call") else None)
    try:
        next(batches)
    finally:
        sys.setprofile(None)
    return len(calls)


@pytest.mark.parametrize("most_bytes", [0, 2**29])
def test_python_takes_no_more_calls_for_more_small_images(monkeypatch, most_bytes):
    """Python would hold the GIL during calls for each image, so that a second worker could not load any faster."""
    monkeypatch.setattr(changing_module, "MAX_COPY_BYTES", most_bytes)
    data = make_data(num_train=1000, image_shape=(32, 32, 3))
    changes = {"random_flip": True, "random_crop_padding": 4}
    few, many = (count_calls(make_spec(global_batch_size=size, **changes), data) for size in (16, 400))
    # A batch may contain the first and the last image of the array, which are changed on their own.
    assert many <= few + 50


def test_small_images_are_changed_by_a_dozen_calls_per_batch():
    """Python waits for the GIL after each call of numpy, as long as the work on 100 images takes."""
    data = make_data(num_train=1000, image_shape=(32, 32, 3))
    spec = make_spec(global_batch_size=400, random_flip=True, random_crop_padding=4)
    batches = TrainingBatches(spec, data, 0, 1)
    load, share, calls = batches.many.take, batches.shares[0], []
    sys.setprofile(lambda frame, event, function: calls.append(event) if event.endswith("call") else None)
    try:
        load(share)
    finally:
        sys.setprofile(None)
    assert len(calls) <= 12


def test_images_are_copied_only_if_the_copies_fit_into_half_a_gibibyte():
    def is_copied_from(count, flip, padding):
        return is_copied(np.broadcast_to(np.uint8(0), (count, 32, 32, 3)), flip, padding)

    assert is_copied_from(50_000, True, 4)
    assert is_copied_from(138_000, False, 4)
    assert not is_copied_from(138_000, True, 4)
    assert not is_copied_from(139_000, False, 4)


@pytest.fixture
def one_batch_per_task(monkeypatch):
    monkeypatch.setattr(batches_module, "BATCHES_PER_TASK", 1)


@pytest.fixture
def fills(monkeypatch):
    """Return a list that gets an entry when a part of a batch, or a task of several, is begun."""
    begun, take = [], PaddedImages.take

    def noting(self, share):
        begun.append(len(share.samples))
        return take(self, share)

    monkeypatch.setattr(PaddedImages, "take", noting)
    return begun


def test_workers_load_small_batches_at_the_same_time(monkeypatch, one_batch_per_task):
    """Neither of two batches is complete before the other has begun."""
    met, take, places = threading.Barrier(2, timeout=HANG_S), PaddedImages.take, []

    def meeting(self, share):
        places.append(met.wait())
        return take(self, share)

    monkeypatch.setattr(PaddedImages, "take", meeting)
    spec = make_spec(loader_workers=2, prefetch=2, random_flip=True, epochs=2)
    batches = list(TrainingBatches(spec, make_data(num_train=40), 0, 1))
    assert len(batches) == 10
    assert sorted(places) == [0] * 5 + [1] * 5


@pytest.mark.parametrize(("prefetch", "most"), [(0, 2), (2, 3)])
def test_batches_are_loaded_ahead_only_if_asked(fills, one_batch_per_task, prefetch, most):
    """Two workers load both parts of one batch, or one batch each, while a third batch waits for a worker."""
    spec = make_spec(loader_workers=2, prefetch=prefetch, random_flip=True, epochs=2)
    batches = iter(TrainingBatches(spec, make_data(num_train=40), 0, 1))
    images, _ = next(batches)
    assert len(images) == 8
    assert 0 < len(fills) <= most
    assert fills[0] == (4 if prefetch == 0 else 8)
    list(batches)  # No task is left that would begin during another test.


def test_a_worker_loads_several_small_batches_by_one_task(fills):
    """The calls of one batch take about as long as the work on 100 images, and another worker has to wait for them."""
    spec = make_spec(loader_workers=2, prefetch=2, random_flip=True, epochs=2)
    assert len(list(TrainingBatches(spec, make_data(num_train=40), 0, 1))) == 10
    assert fills == [10 * 8]


@pytest.mark.parametrize(("settings", "is_ahead"), [({"loader_workers": 2, "prefetch": 2}, True), ({}, False)])
def test_a_worker_draws_the_next_epoch_while_others_load_this_one(monkeypatch, one_batch_per_task, settings, is_ahead):
    """All workers would otherwise have to wait for the draws at the beginning of each epoch."""
    draw, drawn = LocalBatches._redraw, []

    def noting(self, epoch):
        drawn.append((epoch, threading.current_thread().name.startswith("loader")))
        return draw(self, epoch)

    monkeypatch.setattr(LocalBatches, "_redraw", noting)
    spec = make_spec(random_flip=True, epochs=3, **settings)
    assert len(list(TrainingBatches(spec, make_data(num_train=40), 0, 1))) == 15
    assert sorted(drawn) == [(1, False), (2, is_ahead), (3, is_ahead)]


def test_workers_share_a_batch_that_is_large(fills, one_batch_per_task):
    data = make_data(num_train=32, image_shape=(80, 80, 3))
    spec = make_spec(loader_workers=2, prefetch=2, random_flip=True, global_batch_size=16, epochs=1)
    assert data.train_images[0].nbytes * 16 < BYTES_PER_WORKER, "less than a worker loads at a time"
    assert len(list(TrainingBatches(spec, data, 0, 1))) == 2
    assert set(fills) == {16}
    fills.clear()
    data = make_data(num_train=2048, image_shape=(80, 80, 3))
    spec = make_spec(loader_workers=2, prefetch=2, random_flip=True, global_batch_size=2048, epochs=1)
    assert data.train_images[0].nbytes * 2048 > 2 * BYTES_PER_WORKER
    next(iter(TrainingBatches(spec, data, 0, 1)))
    assert fills == [1024, 1024]


def test_images_are_copied_before_the_clock_of_the_training_starts(monkeypatch):
    backend, copy = Ticking(), PaddedImages.__init__

    def copy_slowly(self, *arguments):
        backend.now += 0.25
        copy(self, *arguments)

    monkeypatch.setattr(PaddedImages, "__init__", copy_slowly)
    spec, data = make_spec(random_flip=True, epochs=1), make_data(num_train=40)
    loop = TrainingLoop(spec, data, backend, np.zeros(5, np.float32), None, clock=backend.clock)
    started = backend.now
    assert len(list(loop.training_batches)) == 5
    assert started == backend.now == 0.25

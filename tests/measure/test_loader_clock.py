"""The workers of the shared loader tell how long they take for an image, also if nobody waits for them."""

import pytest

from helpers.specs import make_data, make_spec
from howmanygpus.measure.input import batches
from howmanygpus.measure.input.batches import PaddedImages, TrainingBatches


class Clock:
    """A clock that stands still unless something advances it."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(batches, "time", Clock())
    return batches.time


def load(clock, **changes) -> float | None:
    """Load all images; the fetching thread takes 7 s for each batch, which are no worker's."""
    loader = TrainingBatches(make_spec(**changes), make_data(), rank=0, num_processes=1)
    assert loader.worker_clock.s_per_image is None
    for _ in loader:
        clock.now += 7.0
    return loader.worker_clock.s_per_image


def test_images_that_are_changed_one_at_a_time_are_timed(monkeypatch, clock):
    def place(image, target, change):
        clock.now += 0.25

    monkeypatch.setattr(batches, "place", place)
    monkeypatch.setattr(batches, "change_many", lambda source, spec: None)
    assert load(clock) == pytest.approx(0.25)


def test_images_that_are_changed_together_are_timed(monkeypatch, clock):
    take = PaddedImages.take

    def take_slowly(self, share):
        clock.now += 0.5 * len(share.samples)
        return take(self, share)

    monkeypatch.setattr(PaddedImages, "take", take_slowly)
    assert load(clock, random_flip=True) == pytest.approx(0.5)


def test_the_seconds_of_workers_are_added(clock):
    worker_clock = batches.WorkerClock()
    clock.now = 3.0
    for _ in range(2):
        worker_clock.add(started=0.0, num_images=4)
    assert worker_clock.s_per_image == pytest.approx(6 / 8)

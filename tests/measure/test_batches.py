"""Batches are the same for every framework and device count, and every image is evaluated once."""

import hashlib

import numpy as np
import pytest

import howmanygpus.measure.input.augmentation as changing_module
import howmanygpus.measure.input.frozen as frozen_module
from helpers.specs import make_data, make_spec
from howmanygpus.measure.input.augmentation import ManyImages, PaddedImages, place
from howmanygpus.measure.input.batches import TrainingBatches, evaluation_batches
from howmanygpus.measure.input.draws import LocalBatch, draw_changes, draw_epoch, epoch_order, shuffle_batches
from howmanygpus.measure.input.frozen import FrozenBatches
from howmanygpus.measure.input.prepared import PreparedData


def test_draws_of_a_sample_do_not_depend_on_the_number_of_samples():
    assert np.array_equal(draw_epoch(3, 7, 10), draw_epoch(3, 7, 1000)[:10])


def test_draws_are_one_counter_block_per_sample():
    counter_for_sample_5 = np.random.Philox(key=[3, 7], counter=[5, 0, 0, 0])
    assert np.array_equal(draw_epoch(3, 7, 6)[5], counter_for_sample_5.random_raw(4))


@pytest.mark.parametrize("other", [(4, 7), (3, 8)])
def test_another_seed_or_epoch_gives_another_order(other):
    order = epoch_order(draw_epoch(3, 7, 100))
    assert sorted(order) == list(range(100))
    assert not np.array_equal(order, epoch_order(draw_epoch(*other, 100)))


@pytest.mark.parametrize("num_processes", [2, 4])
def test_processes_share_the_global_batches_of_one_process(num_processes):
    data, spec = (
        make_data(num_train=50),
        make_spec(num_gpus=4, epochs=2, random_flip=True, random_crop_padding=2),
    )
    whole = list(TrainingBatches(spec, data, 0, 1))
    shares = [list(TrainingBatches(spec, data, rank, num_processes)) for rank in range(num_processes)]
    assert len(whole) == 2 * (50 // 8)
    for step, (images, labels) in enumerate(whole):
        assert np.array_equal(images, np.concatenate([share[step][0] for share in shares]))
        assert np.array_equal(labels, np.concatenate([share[step][1] for share in shares]))


def test_an_epoch_uses_no_image_twice_and_drops_the_incomplete_batch():
    data, spec = make_data(num_train=50), make_spec(global_batch_size=8, epochs=1)
    labels = np.concatenate([labels for _, labels in TrainingBatches(spec, data, 0, 1)])
    assert len(labels) == 48
    data.train_labels[:] = np.arange(50)
    samples = np.concatenate([labels for _, labels in TrainingBatches(spec, data, 0, 1)])
    assert len(set(samples)) == 48


class Counting(FrozenBatches):
    num_loaded = 0

    def load_steps(self, chosen):
        for batch in super().load_steps(chosen):
            self.num_loaded += 1
            yield batch


FROZEN = {"epochs": 3, "random_flip": True, "random_crop_padding": 2, "frozen_batches": True}


@pytest.mark.parametrize(("num_gpus", "num_processes"), [(1, 1), (4, 2)])
def test_frozen_batches_are_loaded_once_and_come_in_another_order_in_each_epoch(num_gpus, num_processes):
    data, spec = make_data(num_train=100), make_spec(num_gpus=num_gpus, **FROZEN)
    orders = []
    for rank in range(num_processes):
        frozen = Counting(spec, data, rank, num_processes)
        found = [images.tobytes() + labels.tobytes() for images, labels in frozen]
        anew = TrainingBatches(spec, data, rank, num_processes)
        assert found == [images.tobytes() + labels.tobytes() for images, labels in anew]
        epochs = [found[start : start + 12] for start in (0, 12, 24)]
        assert set(epochs[0]) == set(epochs[1]) == set(epochs[2]) and len(set(epochs[0])) == 12
        orders.append([epochs[0].index(batch) for epoch in epochs for batch in epoch])
        assert frozen.num_loaded == 12
    assert orders[0][:12] != orders[0][12:24] != orders[0][24:]
    assert all(order == orders[0] for order in orders), "global batches stay whole"


def test_the_first_frozen_batch_waits_for_those_among_which_it_is_chosen(monkeypatch):
    monkeypatch.setattr(frozen_module, "SHUFFLE_BUFFER", 5)
    loader = Counting(make_spec(**FROZEN), make_data(num_train=100), 0, 1)
    assert [loader.num_loaded for _ in loader] == [5, 6, 7, 8, 9, 10, 11] + 29 * [12]


def test_a_run_that_is_shorter_than_an_epoch_freezes_nothing_more():
    short = {"epochs": None, "steps": 4}
    loader = Counting(make_spec(**FROZEN | short), make_data(num_train=100), 0, 1)
    assert len(list(loader)) == loader.num_loaded == 4


@pytest.mark.parametrize("buffer_size", [1, 4, 50])
def test_a_buffer_gives_each_batch_once_and_none_before_it_is_in(buffer_size):
    order = shuffle_batches(draw_epoch(3, 7, 20), buffer_size)
    assert sorted(order) == list(range(20))
    assert all(number < place + buffer_size for place, number in enumerate(order))
    assert (order == list(range(20))) == (buffer_size == 1)


def test_equal_words_leave_samples_in_their_order():
    draws = np.array([[7, 0, 0, 0], [3, 0, 0, 0], [7, 0, 0, 0], [3, 0, 0, 0]] * 100, np.uint64)
    order = epoch_order(draws)
    assert order[:200].tolist() == sorted(order[:200])
    assert order[200:].tolist() == sorted(order[200:])
    assert set(draws[order[:200], 0]) == {3}


def changed(image, words, random_flip, crop_padding):
    """Change one image as the shared loader does, and write it to memory that is not zero before."""
    (change,) = draw_changes(np.array([words], np.uint64), random_flip, crop_padding)
    target = np.full_like(image, 77)
    place(image, target, change)
    return target


def flip_pad_and_crop(image, words, random_flip, crop_padding):
    """Change one image by the plain definition of flip, padding and crop."""
    height, width, _ = image.shape
    top, left = (int(word) % (2 * crop_padding + 1) for word in words[2:])
    image = image[:, ::-1] if random_flip and words[1] & 1 else image
    padded = np.pad(image, ((crop_padding, crop_padding), (crop_padding, crop_padding), (0, 0)))
    return padded[top : top + height, left : left + width]


def test_augmentation_flips_by_the_low_bit_of_word_1():
    image = np.arange(12, dtype=np.uint8).reshape(3, 4, 1)
    assert np.array_equal(changed(image, [0, 4, 0, 0], True, 0), image)
    assert np.array_equal(changed(image, [0, 5, 0, 0], True, 0), image[:, ::-1])
    assert np.array_equal(changed(image, [0, 5, 9, 9], False, 0), image)


def test_augmentation_crops_where_words_2_and_3_say():
    image = np.arange(1, 17, dtype=np.uint8).reshape(4, 4, 1)
    expected = np.zeros((4, 4), np.uint8)
    expected[1:, :3] = image[:3, 1:, 0]
    assert np.array_equal(changed(image, [0, 0, 0, 2], False, 1)[:, :, 0], expected)


@pytest.mark.parametrize("crop_padding", [0, 1, 3, 9])
@pytest.mark.parametrize("channels", [1, 3])
def test_flip_and_crop_match_a_padded_image(channels, crop_padding):
    random = np.random.default_rng(crop_padding)
    for words in draw_epoch(1, 1, 100).tolist():
        image = random.integers(1, 256, (5, 7, channels), dtype=np.uint8)
        expected = flip_pad_and_crop(image, words, True, crop_padding)
        assert np.array_equal(changed(image, words, True, crop_padding), expected), words


@pytest.mark.parametrize("crop_padding", [0, 1, 3, 9])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("num_images", [1, 2, 40])
@pytest.mark.parametrize("make", [ManyImages, lambda source, padding: PaddedImages(source, True, padding)])
def test_batched_crops_match_padded_images(make, num_images, channels, crop_padding):
    """The first and the last image of the array are among them; around these there is nothing to copy from."""
    random, words = np.random.default_rng(crop_padding), draw_epoch(1, 1, 100)
    source = random.integers(1, 256, (num_images, 5, 7, channels), dtype=np.uint8)
    share = LocalBatch(np.arange(100) % num_images, draw_changes(words, True, crop_padding))
    images = np.full((100, 5, 7, channels), 77, np.uint8)
    make(source, crop_padding).fill(share, images)
    for image, sample, own_words in zip(images, share.samples, words.tolist(), strict=True):
        assert np.array_equal(image, flip_pad_and_crop(source[sample], own_words, True, crop_padding)), own_words


HASHES = {
    ((32, 32, 3), 4): "776618d52ff0c903992bd8019b40eb920222328e2ebaf81a02fcc9e49f9ff328",
    ((32, 32, 3), 0): "26f052726542a2eb230127682fa9e128c6ba9fd92714522ede7a7f9522a66db3",
    ((8, 8, 1), 2): "d947597903debe28342f2a67a88d46464190b02647cb8e929170bdf27064775a",
    ((5, 7, 3), 9): "66c3e66d53d39815ef182402a112cbf9ce3cdde0a286ba45778d9d2ce5fd27d4",
    ((120, 100, 3), 7): "c24a6ad6481d177b2c8e3ef6eaaef1b8f378b01c609b76c8d037e1069ff9c694",
}
"""SHA-256 of three epochs of batches, by image shape and padding. Version 0.2.0 yielded the same bytes."""


@pytest.fixture(params=["copied", "not copied"])
def any_number_of_images(request, monkeypatch):
    """There are so many images that PaddedImages does not copy them, or fewer."""
    if request.param == "not copied":
        monkeypatch.setattr(changing_module, "MAX_COPY_BYTES", 0)


@pytest.mark.parametrize("loader_workers", [1, 3])
@pytest.mark.parametrize(("image_shape", "crop_padding"), HASHES)
def test_the_bytes_of_batches_stay_the_same_from_version_to_version(
    any_number_of_images, image_shape, crop_padding, loader_workers
):
    num_bytes = 50 * int(np.prod(image_shape))
    pixels = (np.arange(num_bytes, dtype=np.uint64) * np.uint64(2654435761) >> np.uint64(13)).astype(np.uint8)
    images, labels = pixels.reshape(50, *image_shape), (np.arange(50) % 10).astype(np.int32)
    statistics = {"channel_mean": (127.0,), "channel_std": (64.0,)}
    data = PreparedData(images, labels, images[:5], labels[:5], num_classes=10, **statistics)
    changes = {"random_flip": True, "random_crop_padding": crop_padding}
    spec = make_spec(num_gpus=2, global_batch_size=16, epochs=3, loader_workers=loader_workers, prefetch=2, **changes)
    seen = hashlib.sha256()
    for rank, num_processes in ((0, 1), (1, 2)):
        for batch in TrainingBatches(spec, data, rank, num_processes):
            for array in batch:
                seen.update(array.tobytes())
    assert seen.hexdigest() == HASHES[image_shape, crop_padding]


@pytest.mark.parametrize("loader_workers", [2, 3])
def test_workers_change_no_batch(loader_workers):
    data, changes = make_data(num_train=50), {"random_flip": True, "random_crop_padding": 2}
    alone, together = (
        list(TrainingBatches(make_spec(loader_workers=workers, **changes), data, 0, 1))
        for workers in (1, loader_workers)
    )
    assert len(alone) == len(together) == 6
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])


@pytest.mark.parametrize("loader_workers", [1, 3])
@pytest.mark.parametrize("changes", [{}, {"random_flip": True, "random_crop_padding": 2}])
def test_a_batch_is_of_the_images_that_its_share_names(loader_workers, changes):
    data = make_data(num_train=50)
    spec = make_spec(loader_workers=loader_workers, **changes)
    batches = TrainingBatches(spec, data, 0, 1)
    for (images, labels), share in zip(batches, batches.shares, strict=True):
        assert np.array_equal(labels, data.train_labels[share.samples])
        for image, sample, change in zip(images, share.samples, share.changes, strict=True):
            expected = np.empty_like(image)
            place(data.train_images[sample], expected, change)
            assert np.array_equal(image, expected)


def test_every_device_count_has_the_same_workers_per_device():
    data = make_data(num_train=50)
    spec = make_spec(num_gpus=4, loader_workers=3)
    assert [TrainingBatches(spec, data, 0, processes).num_workers for processes in (1, 2, 4)] == [12, 6, 3]


@pytest.mark.parametrize("num_images", [1, 7, 8, 13, 16, 17])
@pytest.mark.parametrize("num_processes", [1, 2, 4])
def test_evaluation_covers_every_image_once(num_images, num_processes):
    images = np.arange(num_images, dtype=np.uint8).reshape(-1, 1, 1, 1)
    seen, steps = [], set()
    for rank in range(num_processes):
        batches = list(evaluation_batches(images, 8, rank, num_processes))
        steps.add(len(batches))
        for batch, samples in batches:
            assert len(batch) == 8 // num_processes
            real = samples >= 0
            assert np.array_equal(batch[real, 0, 0, 0], samples[real])
            assert len(set(batch[:, 0, 0, 0])) == min(len(batch), num_images), "other images fill a short batch"
            seen.extend(samples[real])
    assert sorted(seen) == list(range(num_images))
    assert len(steps) == 1, "all processes must take equally many steps"

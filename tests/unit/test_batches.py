"""Batches are the same for every framework and device count, and every image is evaluated once."""

import numpy as np
import pytest

from specs import make_data, make_spec
from trainbench.batches import TrainingBatches, augment, draw_epoch, epoch_order, evaluation_batches


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
        make_spec(global_batch_size=8, epochs=2, random_flip=True, random_crop_padding=2),
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


def test_augmentation_flips_by_the_low_bit_of_word_1():
    images = np.arange(2 * 3 * 4 * 1, dtype=np.uint8).reshape(2, 3, 4, 1)
    draws = np.zeros((2, 4), np.uint64)
    draws[1, 1] = 5
    flipped = augment(images, draws, random_flip=True, crop_padding=0)
    assert np.array_equal(flipped[0], images[0])
    assert np.array_equal(flipped[1], images[1, :, ::-1])


def test_augmentation_crops_where_words_2_and_3_say():
    image = np.arange(1, 17, dtype=np.uint8).reshape(1, 4, 4, 1)
    draws = np.array([[0, 0, 0, 2]], np.uint64)
    cropped = augment(image, draws, random_flip=False, crop_padding=1)[0, :, :, 0]
    expected = np.zeros((4, 4), np.uint8)
    expected[1:, :3] = image[0, :3, 1:, 0]
    assert np.array_equal(cropped, expected)


def test_augmentation_switched_off_changes_nothing():
    images = np.random.default_rng(0).integers(0, 256, (5, 6, 6, 3), dtype=np.uint8)
    assert np.array_equal(augment(images, draw_epoch(1, 1, 5), random_flip=False, crop_padding=0), images)


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
            seen.extend(samples[real])
    assert sorted(seen) == list(range(num_images))
    assert len(steps) == 1, "all processes must take equally many steps"

"""Images are cropped, flipped and resized as a plain reference does it that draws each image's numbers by itself."""

import hashlib
import math
from pathlib import Path

import numpy as np
import pytest

from helpers.specs import make_data, make_spec
from howmanygpus.measure.input.augmentation import ManyCrops
from howmanygpus.measure.input.batches import TrainingBatches, evaluation_batches
from howmanygpus.measure.input.draws import LocalBatches, compute_centred_box, draw_boxes, draw_changes, draw_epoch
from howmanygpus.measure.input.pillow import load_image, resize
from howmanygpus.measure.input.prepared import crop_data, open_data
from howmanygpus.measure.input.reading import list_files
from howmanygpus.measure.input.training_items import TrainingItems
from howmanygpus.measure.input.writing import write_data
from howmanygpus.measure.spec import ResizedCropSpec
from howmanygpus.prepare.image_files import prepare_images

ASPECT = (3 / 4, 4 / 3)
CROP = {"crop": (9, 12), "random_flip": True}
PADDED = CROP | {"random_crop_padding": 3}
RESIZED = {"random_resized_crop": {"size": (9, 12), "area": (0.08, 1.0), "aspect": ASPECT}, "random_flip": True}
SMALL, LARGE = (20, 26), (80, 130)
"""Images that the shared loader crops many at once, and images that it crops one at a time."""


def draw_words(seed: int, epoch: int, sample: int, stream: int = 0) -> list[int]:
    return np.random.Philox(key=[seed, epoch], counter=[sample, stream, 0, 0]).random_raw(4).tolist()


def place_plainly(spec, height: int, width: int, epoch: int, sample: int) -> tuple[int, int, int, int]:
    """Top, left, height and width of the part of one flipped image, drawn as torchvision's documentation says."""
    if spec.random_resized_crop is None:
        _, _, row, column = draw_words(spec.seed, epoch, sample)
        crop_height, crop_width, padding = *spec.crop, spec.random_crop_padding
        top = row % (height - crop_height + 2 * padding + 1) - padding
        return top, column % (width - crop_width + 2 * padding + 1) - padding, crop_height, crop_width
    (low, high), aspect = spec.random_resized_crop.area, spec.random_resized_crop.aspect
    for stream in range(1, 11):
        first, second, third, fourth = draw_words(spec.seed, epoch, sample, stream)
        area = height * width * (low + (high - low) * (first >> 11) / 2**53)
        logarithms = math.log(aspect[0]), math.log(aspect[1])
        ratio = math.exp(logarithms[0] + (logarithms[1] - logarithms[0]) * (second >> 11) / 2**53)
        own_height, own_width = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
        if 0 < own_width <= width and 0 < own_height <= height:
            return third % (height - own_height + 1), fourth % (width - own_width + 1), own_height, own_width
    ratio = width / height
    own_height = round(width / aspect[0]) if ratio < aspect[0] else height
    own_width = round(height * aspect[1]) if ratio > aspect[1] else width
    return (height - own_height) // 2, (width - own_width) // 2, own_height, own_width


def weigh_plainly(old: int, new: int) -> np.ndarray:
    """Weights of the old pixels in each new one, (new, old), in parts of 2**22: a triangle, widened if new < old."""
    weights, scale = np.zeros((new, old), np.int64), old / new
    support = max(scale, 1.0)
    for i in range(new):
        centre = (i + 0.5) * scale
        first, last = max(int(centre - support + 0.5), 0), min(int(centre + support + 0.5), old)
        own = [max(1 - abs((j - centre + 0.5) * (1.0 / support)), 0.0) for j in range(first, last)]
        weights[i, first:last] = [int(0.5 + weight / sum(own) * 2**22) for weight in own]
    return weights


def resize_plainly(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """First every row, then every column; each time rounded to uint8."""
    for axis, size in ((1, width), (0, height)):
        weights = weigh_plainly(image.shape[axis], size)
        sums = np.moveaxis(np.tensordot(weights, image.astype(np.int64), (1, axis)), 0, axis)
        image = np.clip((sums + 2**21) >> 22, 0, 255).astype(np.uint8)
    return image


def change_plainly(spec, image: np.ndarray, epoch: int, sample: int) -> np.ndarray:
    """Flip, pad, crop and resize one image."""
    top, left, height, width = place_plainly(spec, *image.shape[:2], epoch, sample)
    if spec.random_flip and draw_words(spec.seed, epoch, sample)[1] & 1:
        image = image[:, ::-1]
    padding = spec.random_crop_padding
    padded = np.pad(image, ((padding, padding), (padding, padding), (0, 0)))
    part = padded[top + padding : top + padding + height, left + padding : left + padding + width]
    return resize_plainly(part, *spec.random_resized_crop.size) if spec.random_resized_crop else part


def load_plainly(spec, data) -> list[tuple[np.ndarray, np.ndarray]]:
    """The global batches of a run."""
    batches, size, count = [], spec.global_batch_size, len(data.train_labels)
    for epoch in range(1, spec.epochs + 1):
        order = sorted(range(count), key=lambda sample: draw_words(spec.seed, epoch, sample)[0])
        for start in range(0, count - size + 1, size):
            samples = order[start : start + size]
            images = [change_plainly(spec, data.train_images[sample], epoch, sample) for sample in samples]
            batches.append((np.stack(images), data.train_labels[samples]))
    return batches


def are_equal(batches, others) -> bool:
    pairs = zip(batches, others, strict=True)
    return all(np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1]) for one, other in pairs)


CASES = [
    (size, channels, how) for size in (SMALL, LARGE) for channels in (1, 3) for how in ("crop", "padded", "resized")
]
SETTINGS = {"crop": CROP, "padded": PADDED, "resized": RESIZED}


@pytest.mark.parametrize(("size", "channels", "how"), CASES)
def test_batches_match_a_plain_reference(size, channels, how):
    """The number of workers and processes changes no batch."""
    stored = make_data(num_train=37, image_shape=(*size, channels))
    spec = make_spec(num_gpus=4, epochs=2, seed=5, **SETTINGS[how])
    expected, data = load_plainly(spec, stored), crop_data(stored, spec.crop_size)
    assert data.image_shape == (9, 12, channels) == expected[0][0].shape[1:]
    for workers, prefetch in ((1, 0), (3, 0), (2, 2)):
        settings = {"loader_workers": workers, "prefetch": prefetch}
        spec = make_spec(num_gpus=4, epochs=2, seed=5, **settings, **SETTINGS[how])
        for num_processes in (1, 2, 4):
            shares = [TrainingBatches(spec, data, rank, num_processes) for rank in range(num_processes)]
            joined = [tuple(map(np.concatenate, zip(*parts, strict=True))) for parts in zip(*shares, strict=True)]
            assert are_equal(joined, expected), (workers, num_processes)


@pytest.mark.parametrize("how", SETTINGS)
def test_batches_of_image_files_match_batches_of_arrays(tmp_path, how):
    write_data(tmp_path / "arrays", make_data(num_train=20, image_shape=(*SMALL, 3)))
    prepare_images(tmp_path / "arrays", "png", tmp_path / "png", num_threads=2)
    spec = make_spec(epochs=2, loader_workers=2, **SETTINGS[how])
    arrays, files = (open_data(tmp_path / form, 2, spec.crop_size) for form in ("arrays", "png"))
    assert arrays.image_shape == files.image_shape == (9, 12, 3)
    assert are_equal(TrainingBatches(spec, files, 0, 1), TrainingBatches(spec, arrays, 0, 1))
    assert are_equal(*(list(evaluation_batches(data.test_images, 8, 0, 1)) for data in (files, arrays)))


@pytest.mark.parametrize("how", SETTINGS)
def test_an_image_requested_by_position_is_augmented_alike(tmp_path, how):
    """As worker processes of native loaders do it, by Pillow."""
    write_data(tmp_path / "arrays", make_data(num_train=20, image_shape=(*SMALL, 3)))
    spec = make_spec(epochs=2, **SETTINGS[how])
    batches = TrainingBatches(spec, open_data(tmp_path / "arrays", 1, spec.crop_size), 0, 1)
    items, expected = TrainingItems(batches), np.concatenate([images for images, _ in batches])
    for position in reversed(range(len(items))):
        source, change, _ = items[position]
        assert np.array_equal(load_image(source, change, items.image_shape), expected[position])


HASHES = {
    ("crop", SMALL): "4da4dc4ec068fdb52cb1f5107b481b81c86e9b241e85c6851c090a97178d06c1",
    ("padded", LARGE): "3b1ad1d16c78bc9f772b986b3205d53dd8ce944a96822726486e6c3d7e7e7202",
    ("resized", SMALL): "d8d3afb6a8bd5fc592bf65841a08211a4c955f098840dcedf31e28a15157934b",
    ("resized", LARGE): "93e575cbfdfc7ac3a40b2a0575d10cca7e9be7bdf88b7ac8fa327cc344ff7b9d",
}
"""SHA-256 of three epochs of batches. Another version that yields other bytes makes other results."""


@pytest.mark.parametrize(("how", "size"), HASHES)
def test_the_bytes_of_batches_stay_the_same_from_version_to_version(how, size):
    spec, data = make_spec(epochs=3, **SETTINGS[how]), make_data(num_train=40, image_shape=(*size, 3))
    num_bytes = data.train_images.size
    pixels = (np.arange(num_bytes, dtype=np.uint64) * np.uint64(2654435761) >> np.uint64(13)).astype(np.uint8)
    data.train_images[:] = pixels.reshape(data.train_images.shape)
    seen = hashlib.sha256()
    for images, _ in TrainingBatches(spec, crop_data(data, spec.crop_size), 0, 1):
        seen.update(images.tobytes())
    assert seen.hexdigest() == HASHES[how, size]


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("to", [(1, 1), (7, 5), (11, 30), (40, 12), (24, 31)])
def test_resizing_matches_a_plain_reference(to, channels):
    image = np.random.default_rng(1).integers(0, 256, (24, 31, channels), dtype=np.uint8)
    assert np.array_equal(resize(image, *to), resize_plainly(image, *to))


def chi_squared(values: np.ndarray, num_values: int) -> float:
    """Deviation of counts from a uniform distribution, divided by its mean over many such samples."""
    expected = len(values) / num_values
    return float(((np.bincount(values, minlength=num_values) - expected) ** 2 / expected).sum() / (num_values - 1))


def test_places_are_uniform_and_half_of_the_images_are_flipped():
    changes = draw_changes(draw_epoch(1, 1, 40_000), True, 0, surplus=(7, 11))
    assert (changes.top.min(), changes.top.max(), changes.left.min(), changes.left.max()) == (0, 7, 0, 11)
    places = changes.top * 12 + changes.left
    both = places * 2 + changes.flipped
    # The relative standard deviation is sqrt(2 / (values - 1)): 0.15 and 0.10.
    assert chi_squared(places, 96) < 1.5 and chi_squared(both, 192) < 1.4
    assert abs(changes.flipped.mean() - 0.5) < 4 * 0.5 / 200


def test_each_epoch_and_seed_crops_and_flips_anew():
    def draw(seed, epoch):
        changes = draw_changes(draw_epoch(seed, epoch, 1000), True, 0, surplus=(3, 3))
        return np.stack([changes.flipped, changes.top, changes.left])

    first = draw(1, 1)
    for other in (draw(1, 2), draw(2, 1)):
        same = (first == other).mean(axis=1)
        assert same == pytest.approx([1 / 2, 1 / 4, 1 / 4], abs=0.07)


def test_areas_and_logarithms_of_aspects_are_uniform():
    """In an image that is so much larger than its parts that all of them fit and rounding is small."""
    crop = ResizedCropSpec(size=(8, 8), area=(0.01, 0.05), aspect=(0.25, 2.0))
    tops, lefts, heights, widths = draw_boxes(1, 1, 20_000, (4000, 5000), crop).T
    areas = heights * widths / (4000 * 5000)
    logarithms = np.log(widths / heights)
    for values, low, high in ((areas, 0.01, 0.05), (logarithms, np.log(0.25), np.log(2.0))):
        assert values.min() >= low - 2e-3 and values.max() <= high + 2e-3
        parts = np.clip((values - low) / (high - low) * 20, 0, 19.99).astype(int)
        assert chi_squared(parts, 20) < 2.0
    assert abs(np.corrcoef(areas, logarithms)[0, 1]) < 0.03
    for starts, room in ((tops, 4000 - heights), (lefts, 5000 - widths)):
        assert chi_squared((starts / (room + 1) * 20).astype(int), 20) < 2.0


def test_a_part_that_never_fits_is_the_largest_in_the_centre():
    wide = ResizedCropSpec(size=(4, 4), area=(1.0, 1.0), aspect=(3.0, 4.0))
    assert draw_boxes(1, 1, 5, (20, 30), wide).tolist() == [[5, 0, 10, 30]] * 5
    assert compute_centred_box((20, 200), ASPECT) == [0, 86, 20, 27]
    assert compute_centred_box((20, 20), ASPECT) == [0, 0, 20, 20]


def test_boxes_of_a_sample_do_not_depend_on_the_number_of_samples():
    crop = ResizedCropSpec(size=(8, 8), area=(0.08, 1.0), aspect=ASPECT)
    assert np.array_equal(draw_boxes(3, 7, 10, SMALL, crop), draw_boxes(3, 7, 1000, SMALL, crop)[:10])


@pytest.mark.parametrize(
    ("size", "top", "left"), [((9, 12), 5, 7), ((8, 11), 6, 7), ((20, 26), 0, 0), ((20, 25), 0, 0)]
)
def test_evaluation_takes_the_centre_without_a_copy(size, top, left):
    stored = make_data(image_shape=(*SMALL, 3))
    data = crop_data(stored, size)
    assert np.shares_memory(data.test_images, stored.test_images)
    expected = stored.test_images[:, top : top + size[0], left : left + size[1]]
    seen = np.concatenate([images[samples >= 0] for images, samples in evaluation_batches(data.test_images, 4, 0, 1)])
    assert np.array_equal(seen, expected)


def test_files_of_cropped_images_are_read_before_the_clock_starts(tmp_path):
    write_data(tmp_path / "arrays", make_data(image_shape=(*SMALL, 3)))
    spec = make_spec(**CROP)
    files = list_files(spec, open_data(tmp_path / "arrays", 1, spec.crop_size))
    assert [Path(file).name for file in files] == ["train_images.npy", "test_images.npy"]


def test_small_images_are_cropped_many_at_once(monkeypatch):
    sizes, fill = [], ManyCrops.fill
    monkeypatch.setattr(
        ManyCrops, "fill", lambda self, share, images: sizes.append(len(images)) or fill(self, share, images)
    )
    spec, data = make_spec(global_batch_size=16, **CROP), make_data(num_train=64, image_shape=(*SMALL, 3))
    assert len(list(TrainingBatches(spec, crop_data(data, spec.crop_size), 0, 1))) == 4
    assert sizes == [16] * 4


def test_a_share_is_the_same_whatever_was_asked_before():
    spec, images = make_spec(epochs=3, **RESIZED), make_data(num_train=50, image_shape=(*SMALL, 3)).train_images
    forwards, backwards = LocalBatches(spec, images, 0, 1), LocalBatches(spec, images, 0, 1)
    seen = [list(forwards[step].changes) for step in range(len(forwards))]
    assert [list(backwards[step].changes) for step in reversed(range(len(backwards)))][::-1] == seen

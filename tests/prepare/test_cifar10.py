"""CIFAR-10 is read from its binary version, and files that differ from the published ones are refused."""

import tarfile

import numpy as np
import pytest

from helpers.cifar import NAMES, PYTHON_VERSION, write_real, write_small
from helpers.sample_data import needs
from howmanygpus.prepare.acquire.acquisition import Acquisition
from howmanygpus.prepare.listing import describe_dataset
from howmanygpus.prepare.sources import OptionError, cifar10

REMEDY = "fetch the binary version, cifar-10-binary.tar.gz, from https://www.cs.toronto.edu/~kriz/cifar.html"


@pytest.mark.parametrize("place", [".", "cifar-10-batches-bin"])
def test_the_binary_version_is_read(tmp_path, place):
    images = write_small(tmp_path / place)
    described = cifar10.describe(str(tmp_path))
    assert (described.num_train, described.num_test, described.image_shape) == (15, 3, (32, 32, 3))
    arrays = cifar10.load(str(tmp_path))
    assert np.array_equal(np.concatenate([arrays.train_images, arrays.test_images]), images)
    assert arrays.train_labels.tolist() == [0, 1, 2] * 5 and arrays.train_labels.dtype == np.int32


def test_real_images_of_cifar_have_their_labels_in_the_published_order(tmp_path):
    order = needs(PYTHON_VERSION.parent / "original_labels_order.npz")
    write_real(tmp_path)
    arrays = cifar10.load(str(tmp_path))
    assert arrays.train_images.shape == (820, 32, 32, 3) and 100 < arrays.train_images.mean() < 140
    with np.load(order) as original:
        train = np.concatenate([original[f"data_batch_{number}"][:164] for number in range(1, 6)])
        assert np.array_equal(arrays.train_labels, train)
        assert np.array_equal(arrays.test_labels, original["test_batch"][:164])


def test_cifar_is_fetched_if_no_folder_is_given(tmp_path):
    assert isinstance(cifar10.acquire(), Acquisition) and cifar10.acquire(str(tmp_path)) is None
    described = describe_dataset("cifar10", {})
    assert (described.num_train, described.num_test, described.image_shape) == (50_000, 10_000, (32, 32, 3))


def test_an_archive_in_the_folder_is_to_be_extracted(tmp_path):
    write_small(tmp_path / "other" / "cifar-10-batches-bin")
    archive = tmp_path / "data" / "cifar-10-binary.tar.gz"
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "other" / "cifar-10-batches-bin", "cifar-10-batches-bin")
    assert cifar10.acquire(str(archive.parent)).archives == (archive,)
    assert cifar10.describe(str(archive.parent)).num_train == 50_000
    with tarfile.open(archive) as tar:
        tar.extractall(archive.parent, filter="data")
    assert cifar10.acquire(str(archive.parent)) is None, "extracted files are taken"
    assert cifar10.describe(str(archive.parent)).num_train == 15


@pytest.mark.parametrize("name", ["data_batch_1", "cifar-10-batches-py/data_batch_1", "cifar-10-python.tar.gz"])
def test_the_python_version_is_refused_and_the_binary_one_named(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    message = rf"folder: '.*' has the Python version of CIFAR-10 \({name.split('/')[0]}\), .*; {REMEDY} into a folder"
    for read in (cifar10.describe, cifar10.load):
        with pytest.raises(OptionError, match=message):
            read(str(tmp_path))
    write_small(tmp_path)
    assert cifar10.describe(str(tmp_path)).num_train == 15, "the binary version beside it is read"


def test_real_files_of_the_python_version_are_refused():
    with pytest.raises(OptionError, match=r"has the Python version of CIFAR-10 \(cifar-10-batches-py\)"):
        describe_dataset("cifar10", {"folder": str(needs(PYTHON_VERSION).parent)})


def test_a_folder_without_a_file_is_refused(tmp_path):
    with pytest.raises(OptionError, match=rf"lacks data_batch_1.bin, .*, test_batch.bin; {REMEDY}"):
        cifar10.describe(str(tmp_path))
    write_small(tmp_path)
    (tmp_path / NAMES[-1]).unlink()
    with pytest.raises(OptionError, match=rf"lacks test_batch.bin; {REMEDY}"):
        cifar10.load(str(tmp_path))
    (tmp_path / "cifar-10-batches-bin").mkdir()
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").touch()
    with pytest.raises(OptionError, match=rf"lacks test_batch.bin; {REMEDY}"):
        cifar10.load(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (bytes(3073 * 3 - 100), "has 9119 bytes, not a multiple of 3073"),
        (b"", "has 0 bytes"),
        (bytes([10]) + bytes(3072), "has the label 10, not below 10"),
    ],
)
def test_a_damaged_batch_is_refused(tmp_path, content, problem):
    write_small(tmp_path)
    (tmp_path / "test_batch.bin").write_bytes(content)
    with pytest.raises(ValueError, match=rf"test_batch.bin {problem}.*; fetch it again"):
        cifar10.load(str(tmp_path))

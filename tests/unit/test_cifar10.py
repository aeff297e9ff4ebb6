"""CIFAR-10 is read from both of its published versions, and from nothing that is not as published."""

import pickle
import tarfile

import numpy as np
import pytest

from howmanygpus.prepare.acquire.acquisition import Acquisition
from howmanygpus.prepare.listing import describe_dataset
from howmanygpus.prepare.pickles import read_pickle
from howmanygpus.prepare.sources import OptionError, cifar10
from pictures import SHARED_DATA, needs


def write_cifar(folder, binary: bool, count: int = 3) -> np.ndarray:
    """Six small batches as published, in either version; their pixels (18, 32, 32, 3)."""
    random, images = np.random.default_rng(0), []
    folder.mkdir(parents=True)
    for name in cifar10.BATCHES["train"] + cifar10.BATCHES["test"]:
        rows = random.integers(0, 256, (count, 3072), dtype=np.uint8)
        labels = list(range(count))
        images.append(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        if binary:
            content = b"".join(bytes([label]) + row.tobytes() for label, row in zip(labels, rows, strict=True))
            (folder / f"{name}.bin").write_bytes(content)
        else:
            (folder / name).write_bytes(pickle.dumps({b"data": rows, b"labels": labels}, protocol=2))
    return np.concatenate(images)


@pytest.mark.parametrize("binary", [False, True])
def test_cifar_is_read_from_both_of_its_versions(tmp_path, binary):
    images = write_cifar(tmp_path / "data" / f"cifar-10-batches-{'bin' if binary else 'py'}", binary)
    described = cifar10.describe(str(tmp_path / "data"))
    assert (described.num_train, described.num_test) == (15, 3)
    arrays = cifar10.load(str(tmp_path / "data"))
    assert np.array_equal(np.concatenate([arrays.train_images, arrays.test_images]), images)
    assert arrays.train_labels.tolist() == [0, 1, 2] * 5 and arrays.train_labels.dtype == np.int32


def test_the_original_pickles_of_cifar_are_read(tmp_path):
    folder = needs(SHARED_DATA / "cifar10")
    arrays = cifar10.load(str(folder))
    assert arrays.train_images.shape == (820, 32, 32, 3)
    with np.load(folder / "original_labels_order.npz") as original:
        train = np.concatenate([original[name][:164] for name in cifar10.BATCHES["train"]])
        assert np.array_equal(arrays.train_labels, train)
        assert np.array_equal(arrays.test_labels, original["test_batch"][:164])


def test_cifar_is_fetched_where_no_folder_is_named(tmp_path):
    assert isinstance(cifar10.acquire(), Acquisition) and cifar10.acquire(str(tmp_path)) is None
    described = describe_dataset("cifar10", {})
    assert (described.num_train, described.num_test, described.image_shape) == (50_000, 10_000, (32, 32, 3))


@pytest.mark.parametrize("kind", ["python", "binary"])
def test_an_archive_of_cifar_in_the_folder_is_to_be_extracted(tmp_path, kind):
    write_cifar(tmp_path / "other" / "cifar-10-batches-py", binary=False)
    archive = tmp_path / "data" / f"cifar-10-{kind}.tar.gz"
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "other" / "cifar-10-batches-py", "cifar-10-batches-py")
    assert cifar10.acquire(str(archive.parent)).archives == (archive,)
    assert cifar10.describe(str(archive.parent)).num_train == 50_000
    with tarfile.open(archive) as tar:
        tar.extractall(archive.parent, filter="data")
    assert cifar10.acquire(str(archive.parent)) is None, "what is extracted is taken"


class Evil:
    def __reduce__(self):
        return (print, ("executed",))


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({b"data": Evil(), b"labels": [1]}),
        pickle.dumps({b"data": np.array([Evil()], object)}),
        pickle.dumps({b"data": np.zeros(3, np.float64)}),
        pickle.dumps([1, 2]),
        b"cos\nsystem\n(S'touch /tmp/evil'\ntR.",
        b"<html>",
        b"",
    ],
)
def test_a_pickle_runs_no_code(tmp_path, capsys, content):
    (tmp_path / "batch").write_bytes(content)
    with pytest.raises(ValueError, match="is no pickle of plain arrays"):
        read_pickle(tmp_path / "batch")
    assert "executed" not in capsys.readouterr().out


@pytest.mark.parametrize("binary", [False, True])
def test_a_damaged_batch_is_refused(tmp_path, binary):
    write_cifar(tmp_path / "data", binary)
    path = tmp_path / "data" / ("test_batch.bin" if binary else "test_batch")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="test_batch"):
        cifar10.load(str(tmp_path / "data"))
    path.unlink()
    with pytest.raises(OptionError, match=r"lacks test_batch, with or without .bin; fetch cifar-10-python.tar.gz"):
        cifar10.describe(str(tmp_path / "data"))

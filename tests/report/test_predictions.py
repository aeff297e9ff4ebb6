"""Test stored predictions: their ranks, their losses, and how the files of several processes are joined."""

import numpy as np
import pytest

from howmanygpus.measure.input.prepared import MISSING
from howmanygpus.measure.loop.predictions import PredictionStore, merge_predictions, score, score_single_label
from howmanygpus.report.metrics import accuracy, test_loss
from howmanygpus.report.predictions import Predictions, read_predictions


def test_rank_counts_the_classes_above_the_true_one():
    logits = np.array([[3.0, 1.0, 2.0]] * 3)
    rank, _ = score_single_label(logits, np.array([0, 1, 2]))
    assert rank.tolist() == [0, 2, 1]


def test_ties_of_logits_rank_by_class():
    rank, _ = score_single_label(np.zeros((3, 3)), np.array([0, 1, 2]))
    assert rank.tolist() == [0, 1, 2]


def test_loss_is_the_cross_entropy():
    _, loss = score_single_label(np.array([[0.0, np.log(3.0)]]), np.array([1]))
    assert loss[0] == pytest.approx(-np.log(0.75))


def test_large_logits_do_not_overflow():
    _, loss = score_single_label(np.array([[1e4, 0.0]]), np.array([1]))
    assert loss[0] == pytest.approx(1e4)


def test_a_nonfinite_row_ranks_last_and_has_no_loss():
    rank, loss = score_single_label(np.array([[np.nan, 0.0, 0.0], [0.0, np.inf, 0.0]]), np.array([1, 1]))
    assert rank.tolist() == [2, 2]
    assert np.isnan(loss).all()
    assert test_loss.compute(Predictions(rank, loss)) is None


def test_metrics_of_nothing_are_undefined_not_zero():
    nothing = Predictions(np.zeros(0), np.zeros(0))
    assert accuracy.compute(nothing) is None
    assert test_loss.compute(nothing) is None


def store(path, samples):
    part = PredictionStore()
    for epoch in (1, 2):
        samples = np.asarray(samples)
        scores = {"rank": samples.astype(np.uint16), "loss": samples.astype(np.float32) * epoch}
        part.add(epoch, samples, scores)
    part.write(path)
    return path


def test_parts_are_joined_by_sample(tmp_path):
    parts = [store(tmp_path / "0.npz", [0, 1, 4]), store(tmp_path / "1.npz", [2, 3])]
    merge_predictions(parts, 5, tmp_path / "joined.npz")
    joined = np.load(tmp_path / "joined.npz")
    assert joined["rank"].tolist() == [[0, 1, 2, 3, 4]] * 2
    assert joined["loss"][1].tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("second", [[2, 4], [2, 3, 4]])
def test_a_missing_or_doubled_image_is_refused(tmp_path, second):
    parts = [store(tmp_path / "0.npz", [0, 1, 4]), store(tmp_path / "1.npz", second)]
    with pytest.raises(ValueError, match="evaluation covered"):
        merge_predictions(parts, 5, tmp_path / "joined.npz")


def test_several_labels_are_stored_as_scores_beside_the_labels(tmp_path):
    """Two processes have predicted the images in another order than that of the test split."""
    labels = np.array([[1, 0], [0, MISSING], [1, 1]], np.uint8)
    logits = np.array([[0.5, -2.0], [3.0, 0.0], [-1.0, 1.5]], np.float32)
    for name, samples in (("0", [2]), ("1", [1, 0])):
        part = PredictionStore(labels)
        for epoch in (1, 2):
            part.add(epoch, np.array(samples), score(logits[samples] * epoch, labels[samples]))
        part.write(tmp_path / f"{name}.npz")
    merge_predictions([tmp_path / "0.npz", tmp_path / "1.npz"], 3, tmp_path / "joined.npz")
    first, second = read_predictions(tmp_path / "joined.npz")
    assert first.rank is None and first.score.dtype == np.float32
    assert np.array_equal(first.score, logits) and np.array_equal(second.score, 2 * logits)
    assert np.array_equal(first.label, labels) and np.array_equal(second.label, labels)

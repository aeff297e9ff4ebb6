"""Runs on images of two classes have the area under the ROC curve beside their accuracy."""

import json

import numpy as np
import pytest
from sklearn import metrics

from helpers.fake_clock import Ticking, run_loop
from helpers.figure_tables import make_tables
from helpers.specs import make_spec
from helpers.stored_runs import collect, plan_of, store_run
from howmanygpus.config.errors import ConfigError
from howmanygpus.gate.cross_entropy import softmax_cross_entropy
from howmanygpus.measure.loop.predictions import PredictionStore, merge_predictions, score
from howmanygpus.report.answer.facts import Question, decide
from howmanygpus.report.metrics import accuracy, roc_auc, test_loss
from howmanygpus.report.predictions import Predictions, guess, read_predictions
from howmanygpus.report.tables import class_auc, datasets
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from project import study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
NUM_TEST = 40


@pytest.fixture
def drawn():
    """Logits and labels of images of two classes, of which the second is seldom. Some logits are large."""
    random = np.random.default_rng(0)
    labels = (random.random(NUM_TEST) < 0.3).astype(np.int32)
    logits = random.normal(size=(NUM_TEST, 2)) * random.choice([1.0, 60.0], (NUM_TEST, 1))
    return logits.astype(np.float32), labels


def store(path, logits, labels):
    """Store two evaluations by two processes, of which one has the even images. In the second, all logits are less."""
    for rank in (0, 1):
        part, samples = PredictionStore(labels), np.arange(rank, len(labels), 2)
        for epoch, scale in ((1, 1.0), (2, -0.5)):
            part.add(epoch, samples, score(scale * logits[samples], labels[samples]))
        part.write(path.with_name(f"{rank}.npz"))
    merge_predictions([path.with_name(f"{rank}.npz") for rank in (0, 1)], len(labels), path)


def compute_expected(logits, labels) -> float:
    return metrics.roc_auc_score(labels, logits[:, 1].astype(float) - logits[:, 0])


def test_the_area_matches_scikit_learn(drawn, tmp_path):
    logits, labels = drawn
    store(tmp_path / "predictions.npz", logits, labels)
    first, second = read_predictions(tmp_path / "predictions.npz")
    expected = compute_expected(logits, labels)
    assert 0.2 < expected < 0.8 and roc_auc.compute(first) == pytest.approx(expected, abs=1e-12)
    assert roc_auc.compute(second) == pytest.approx(1 - expected, abs=1e-12)
    assert accuracy.compute(first) == pytest.approx(metrics.accuracy_score(labels, logits.argmax(axis=1)))
    losses, _ = softmax_cross_entropy(logits.astype(float), labels, smoothing=0.0)
    assert test_loss.compute(first) == pytest.approx(np.mean(losses), rel=1e-6)


def test_the_area_of_one_class_or_of_scores_that_are_not_finite_is_undefined(drawn):
    logits, labels = drawn
    assert roc_auc.compute(Predictions(**score(logits, labels), label=np.zeros_like(labels))) is None
    logits[3, 0] = np.inf
    assert roc_auc.compute(Predictions(**score(logits, labels), label=labels)) is None


def test_a_guess_by_frequency_has_an_area_of_one_half(drawn):
    guessed = guess(np.array([0, 0, 0, 1], np.int32), drawn[1], 2)
    assert roc_auc.compute(guessed) == 0.5
    assert accuracy.compute(guessed) == np.mean(drawn[1] == 0)
    assert guessed.score == pytest.approx(np.log(2 / 4)), "one of each class more than there are"


def test_a_run_on_two_classes_stores_scores_and_labels_and_one_on_ten_does_not(tmp_path):
    for num_classes, stored in ((2, {"rank", "loss", "score", "label"}), (10, {"rank", "loss"})):
        loop, _, _ = run_loop(tmp_path, Ticking(num_classes=num_classes), epochs=1)
        arrays = loop.evaluation.predictions.collect()
        assert arrays.keys() - {"epoch", "sample"} == stored
        if num_classes == 2:
            assert np.array_equal(arrays["label"], loop.data.test_labels[arrays["sample"]])
            assert arrays["score"].shape == arrays["loss"].shape == (1, 13)


def test_tables_have_the_area_beside_the_accuracy(drawn, tmp_path):
    logits, labels = drawn
    spec = make_spec()
    store_run(tmp_path, "run0", spec)
    store(tmp_path / "results/runs/run0/predictions.npz", logits, labels)
    runs, evaluations = collect(plan_of(spec), tmp_path)
    expected = compute_expected(logits, labels)
    assert evaluations["roc_auc"].tolist() == pytest.approx([expected, 1 - expected])
    assert runs["roc_auc_last"].tolist() == pytest.approx([1 - expected])
    assert runs["quality_metric"].tolist() == ["accuracy"]
    assert class_auc.tabulate(plan_of(spec), tmp_path).empty, "both classes have the same area"


def test_records_without_scores_have_an_accuracy_and_no_area(tmp_path):
    """Runs that an older version did, and runs on more classes."""
    spec = make_spec()
    store_run(tmp_path, "run0", spec)
    plan = plan_of(spec)
    runs, evaluations = collect(plan, tmp_path)
    assert evaluations["roc_auc"].isna().all() and runs["roc_auc_last"].isna().all()
    assert runs["quality_last"].tolist() == [0.8]
    plan["config"] |= {"quality": plan["config"]["quality"] | {"metric": "roc_auc"}}
    _, evaluations = collect(plan, tmp_path)
    assert evaluations["quality"].isna().all()


def test_the_table_of_images_has_the_area_of_a_guess(drawn, tmp_path):
    description = {"image_shape": [4, 4, 1], "num_classes": 2, "num_train": NUM_TEST, "num_test": NUM_TEST}
    (tmp_path / datasets.DESCRIPTION).write_text(json.dumps(description))
    for split in ("train", "test"):
        np.save(tmp_path / f"{split}_labels.npy", drawn[1])
    assert datasets.describe_input(make_spec().to_dict(), tmp_path, "roc_auc")["quality_of_guess"] == 0.5


def test_the_answer_names_the_area_beside_another_metric():
    tables = make_tables(lambda num_gpus: "completed", lambda num_gpus: 0.96)
    runs, times = tables["runs"].assign(roc_auc_last=0.9876), tables["time_to_accuracy"]
    (decision,) = decide(runs, times, Question())["decisions"]
    best = decision["recommended"]
    assert (best["quality"]["median"], best["roc_auc"]["median"]) == (0.96, 0.9876)
    own = decide(runs.assign(quality_metric="roc_auc"), times.assign(metric="roc_auc"), Question())["decisions"][0]
    assert own["recommended"]["roc_auc"] is None


def plan_patterns(num_classes: int, metric: str) -> Plan:
    patterns = {"image_shape": [8, 8, 1], "num_classes": num_classes, "num_train": 640, "num_test": 8}
    given = study(dataset="own", frameworks=["pytorch_ddp"], num_gpus=[1], devices=["cpu"])
    given |= {"quality": {"metric": metric, "thresholds": [0.9]}}
    return Plan({"studies": {"s": given}, "datasets": {"own": {"source": "patterns", "options": patterns}}}, CPU)


def test_the_area_is_a_metric_for_two_classes():
    assert plan_patterns(2, "roc_auc").studies["s"].config["quality"]["thresholds"] == [0.9]


@pytest.mark.parametrize(
    ("num_classes", "metric", "message"),
    [
        (3, "roc_auc", "is for at most 2 classes, and own has 3; choose accuracy or test_loss"),
        (7, "macro_auc", "has one label; choose accuracy or test_loss or top5_accuracy"),
        (2, "macro_auc", "has one label; choose accuracy or roc_auc or test_loss"),
    ],
)
def test_the_area_is_refused_for_more_classes_and_offered_for_two(num_classes, metric, message):
    with pytest.raises(ConfigError) as error:
        plan_patterns(num_classes, metric)
    assert str(error.value).endswith(message)

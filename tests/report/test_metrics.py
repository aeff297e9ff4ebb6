"""Each quality metric is what scikit-learn computes, and says what it leaves out."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

from helpers.figure_tables import make_tables
from helpers.specs import make_spec
from helpers.stored_runs import plan_of, store_run
from howmanygpus.measure.input.prepared import MISSING
from howmanygpus.measure.loop.predictions import score_single_label
from howmanygpus.report.answer.details import describe_data
from howmanygpus.report.answer.facts import Question, decide
from howmanygpus.report.figures import quality_by_epoch, time_to_accuracy
from howmanygpus.report.metrics import load_metric, macro_auc, name_metric, test_loss, top5_accuracy
from howmanygpus.report.predictions import Predictions, guess
from howmanygpus.report.tables import class_auc, datasets
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy
from howmanygpus.study.config.metrics import list_metrics


@pytest.fixture
def several():
    """Scores with ties and labels of which some are missing; all images have label 2, and none has label 4."""
    random = np.random.default_rng(0)
    label = (random.random((60, 5)) < 0.3).astype(np.uint8)
    label[:, 2], label[:, 4] = 1, 0
    label[random.random(label.shape) < 0.2] = MISSING
    return Predictions(score=np.round(random.normal(size=label.shape), 1).astype(np.float32), label=label)


def area(predictions: Predictions, number: int) -> float:
    known = predictions.label[:, number] != MISSING
    return metrics.roc_auc_score(predictions.label[known, number], predictions.score[known, number])


def test_macro_auc_is_the_mean_over_the_labels_that_have_a_curve(several):
    expected = [area(several, number) for number in (0, 1, 3)]
    assert macro_auc.compute(several) == pytest.approx(np.mean(expected), abs=1e-12)
    by_label = macro_auc.compute_by_label(several)
    assert by_label[[0, 1, 3]] == pytest.approx(expected, abs=1e-12) and np.isnan(by_label[[2, 4]]).all()
    assert macro_auc.list_undefined_labels(several.label) == [2, 4]


def test_macro_auc_of_no_curve_or_of_scores_that_are_not_finite_is_undefined(several):
    assert macro_auc.compute(Predictions(score=several.score[:, [2]], label=several.label[:, [2]])) is None
    score = several.score.copy()
    score[0, 0] = np.nan
    assert macro_auc.compute(Predictions(score=score, label=several.label)) is None


def test_loss_of_several_labels_is_the_mean_over_the_known_ones(several):
    known = several.label != MISSING
    probability = 1 / (1 + np.exp(-several.score[known].astype(float)))
    expected = metrics.log_loss(several.label[known], probability)
    assert test_loss.compute(several) == pytest.approx(expected, rel=1e-9)


def test_top5_accuracy():
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=(80, 12)), random.integers(0, 12, 80)
    rank, loss = score_single_label(logits, labels)
    expected = metrics.top_k_accuracy_score(labels, logits, k=5, labels=range(12))
    assert top5_accuracy.compute(Predictions(rank, loss)) == pytest.approx(expected)
    assert 0.2 < expected < 0.7
    assert load_metric("accuracy").compute(Predictions(rank, loss)) == pytest.approx(
        metrics.accuracy_score(labels, logits.argmax(axis=1))
    )


def test_a_guess_by_frequency_has_an_auc_of_one_half(several):
    train = np.array([[1, 0, 1, 0, 0], [0, MISSING, 1, 1, 0]], np.uint8)
    guessed = guess(train, several.label, 5)
    assert macro_auc.compute(guessed) == 0.5
    assert np.isfinite(test_loss.compute(guessed))


def test_a_metric_names_the_predictions_that_it_lacks(several):
    with pytest.raises(ValueError, match="rank is not among the stored predictions"):
        load_metric("accuracy").compute(several)


def test_every_metric_describes_itself():
    for name in list_metrics():
        module = load_metric(name)
        assert name_metric(name) and module.UNIT and set(module.LABELS) <= {"one", "several"}
        assert module.BETTER in ("higher", "lower")


def test_each_label_has_a_row_with_its_area_and_labels_without_one_are_named(several, tmp_path):
    folder = tmp_path / "prepared" / "arrays"
    folder.mkdir(parents=True)
    (folder / "classes.tsv").write_text("label\tclass\n" + "".join(f"{i}\t{name}\n" for i, name in enumerate("abcde")))
    spec = make_spec(data_dir="prepared/jpeg")
    store_run(tmp_path, "run0", spec, accuracies=[0.5])
    path = tmp_path / "results/runs/run0/predictions.npz"
    np.savez(path, epoch=[1], score=several.score[None], label=several.label)
    table = class_auc.tabulate(plan_of(spec), tmp_path)
    assert table["class"].tolist() == list("abcde") and set(table["epoch"]) == {1}
    assert table["auc"].isna().tolist() == [False, False, True, False, True]
    assert table["auc"][1] == pytest.approx(area(several, 1))
    assert (table[list(class_auc.COUNTS)].sum(axis=1) == 60).all() and table["num_absent"][2] == 0
    jpeg = tmp_path / "prepared" / "jpeg"
    jpeg.mkdir()
    description = {"image_shape": [4, 4, 1], "num_classes": 5, "num_train": 60, "num_test": 60}
    (jpeg / datasets.DESCRIPTION).write_text(json.dumps(description))
    for split in ("train", "test"):
        np.save(jpeg / f"{split}_labels.npy", several.label)
    row = datasets.describe_input(spec.to_dict(), jpeg, "macro_auc")
    assert (row["left_out"], row["quality_of_guess"]) == ("c; e", 0.5)


@pytest.mark.parametrize("metric", list_metrics())
def test_time_to_accuracy_figures_and_answer_work_with_every_metric_and_name_it(metric):
    values = [0.4, 0.7, 0.8] if load_metric(metric).BETTER == "higher" else [0.9, 0.6, 0.5]
    tables = make_tables(lambda num_gpus: "completed", lambda num_gpus: values[-1])
    runs = tables["runs"].assign(quality_metric=metric)
    rows = [
        tables["evaluations"].assign(metric=metric, epoch=e, train_s=1.0 * e, quality=q)
        for e, q in enumerate(values, 1)
    ]
    evaluations = pd.concat(rows)
    quality = {"metric": metric, "thresholds": [0.65, 0.05 if values[0] > values[1] else 0.99], "margin": 0.01}
    times = compute_time_to_accuracy(runs, evaluations, quality)
    reached = times[times["reached"]]
    assert set(reached["threshold"]) == {0.65} and set(reached["epoch"]) == {2} and set(times["metric"]) == {metric}
    label = quality_by_epoch.draw(evaluations, runs).axes[0].get_ylabel()
    assert label == f"test {name_metric(metric)}"
    assert (
        time_to_accuracy.draw(time_to_accuracy=times, scaling=tables["scaling"], runs=runs)
        .axes[0]
        .get_title(loc="left")
        .startswith(f"test {name_metric(metric)} 0.")
    )
    (decision,) = decide(runs, times, Question())["decisions"]
    assert (decision["goal"]["metric"], decision["goal"]["threshold"]) == (name_metric(metric), 0.65)
    assert decision["recommended"]["quality"]["median"] == values[-1]


def test_the_answer_names_the_labels_that_the_metric_leaves_out():
    row = {"input": "arrays", "metric": "macro_auc", "left_out": "Hernia; Mass"}
    table = pd.DataFrame([row], columns=list(datasets.COLUMNS))
    found = describe_data(table)
    assert (found["metric"], found["left_out"]) == ("macro ROC AUC", ["Hernia", "Mass"])
    assert describe_data(table.assign(left_out=""))["left_out"] == []

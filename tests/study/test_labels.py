"""The loss, its metric and the gate's task follow from whether an image has one label or any number of them."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.messages import says
from helpers.specs import make_data, make_spec
from howmanygpus.config.errors import ConfigError
from howmanygpus.gate.cross_entropy import sigmoid_cross_entropy
from howmanygpus.gate.task import draw_data
from howmanygpus.gate.task_forms import Variation
from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.prepared import MISSING
from howmanygpus.measure.loop.targets import read_targets, weigh_labels
from howmanygpus.prepare.arrays import prepare_random
from howmanygpus.prepare.listing import read_task_once
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from project import study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
AUC = {"quality": {"metric": "macro_auc", "thresholds": [0.8]}}


@pytest.fixture(autouse=True)
def forget():
    read_task_once.cache_clear()


@pytest.fixture
def several(tmp_path):
    """Options of a data set whose images have any number of three labels."""
    labels = ["a|b", "", "c", "b|c"]
    rows = [f"{index}.png,{labels[index % 4]},{'test' if index < 20 else 'train'}" for index in range(100)]
    (tmp_path / "labels.csv").write_text("\n".join(["path,labels,split", *rows]))
    (tmp_path / "0.png").touch()
    table = {"folder": str(tmp_path), "table": str(tmp_path / "labels.csv"), "size": [8, 8], "channels": 1}
    return {"source": "image_csv", "options": table | {"label_column": "labels", "separator": "|"}}


def plan(several, **changes) -> Plan:
    given = study(dataset="findings", frameworks=["pytorch_ddp"], num_gpus=[1], devices=["cpu"]) | AUC | changes
    return Plan({"studies": {"s": given}, "datasets": {"findings": several}}, CPU)


def test_several_labels_have_a_task_of_their_own(several):
    (run,) = plan(several).runs.values()
    cell = plan(several).cells[run.path]
    assert cell.task.startswith("small_cnn_8x8x1_classes3_local_multilabel_sgd-")
    assert Variation.read(cell.describe()["variation"]).label_smoothing == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"quality": {"metric": "accuracy"}},
            'studies.s.quality.metric: "accuracy" is for one label an image, and an image of findings has any number '
            "of labels; choose macro_auc or test_loss",
        ),
        (
            {"label_smoothing": 0.1},
            "studies.s.label_smoothing: 0.1 is for one label an image, and an image of findings has any number of "
            "labels; remove it",
        ),
        ({"variants": {"v": {"label_smoothing": 0.1}}}, "studies.s.variants.v.label_smoothing: 0.1 is for one label"),
    ],
)
def test_a_single_label_option_is_refused_for_several_labels(several, changes, message):
    with pytest.raises(ConfigError) as error:
        plan(several, **changes)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("macro_auc", "is for any number of labels an image, and an image of digits has one label; choose accuracy"),
        ("top5_accuracy", "is the same for every network on the 4 classes of noise; choose accuracy"),
    ],
)
def test_a_multilabel_option_is_refused_for_one_label(metric, message):
    noise = {"image_shape": [8, 8, 1], "num_classes": 4, "num_train": 64, "num_test": 8}
    dataset = "noise" if "noise" in message else "digits"
    common = {"devices": ["cpu"], "frameworks": ["pytorch_ddp"], "num_gpus": [1], "per_device_batch_size": [8]}
    inputs = ["synthetic"] if dataset == "noise" else ["arrays"]
    given = study(dataset=dataset, inputs=inputs, quality={"metric": metric}, **common)
    with pytest.raises(ConfigError) as error:
        Plan({"studies": {"s": given}, "datasets": {"noise": {"source": "synthetic", "options": noise}}}, CPU)
    assert message in str(error.value)


def plan_patterns(num_classes: int, metric: str, **options) -> Plan:
    patterns = {"image_shape": [8, 8, 1], "num_classes": num_classes, "num_train": 640, "num_test": 8, **options}
    given = study(dataset="own", frameworks=["pytorch_ddp"], num_gpus=[1], devices=["cpu"], quality={"metric": metric})
    return Plan({"studies": {"s": given}, "datasets": {"own": {"source": "patterns", "options": patterns}}}, CPU)


@pytest.mark.parametrize("metric", ["accuracy", "test_loss"])
def test_one_class_is_refused_and_no_metric_is_offered_for_it(metric):
    with pytest.raises(ConfigError) as error:
        plan_patterns(1, metric)
    assert says(str(error.value), f'studies.s.quality.metric: "{metric}"', "own", "at least 2 classes")


@pytest.mark.parametrize("metric", ["macro_auc", "test_loss"])
def test_one_label_that_images_have_or_not_can_be_judged(metric):
    (cell,) = plan_patterns(1, metric, multi_label=True).cells.values()
    assert cell.task.startswith("small_cnn_8x8x1_classes1_local_multilabel_sgd-")


def test_each_label_smoothing_has_its_own_task():
    common = {"devices": ["cpu"], "frameworks": ["pytorch_ddp"], "num_gpus": [1]}
    variants = {"base": {}, "smooth": {"label_smoothing": 0.1}}
    planned = Plan({"studies": {"s": study(variants=variants, **common)}}, CPU)
    tasks = {run.variant: planned.cells[path] for path, run in planned.runs.items()}
    assert tasks["base"].task.startswith("small_cnn_8x8x1_classes10_local_sgd-")
    assert tasks["smooth"].task.startswith("small_cnn_8x8x1_classes10_local_smoothing0.1_sgd-")
    assert Variation.read(tasks["smooth"].describe()["variation"]).label_smoothing == 0.1
    settings = {run.variant: planned.settings[path] for path, run in planned.runs.items()}
    assert "label_smoothing" in settings["smooth"] and "label_smoothing" not in settings["base"]


def test_the_mean_over_shares_is_the_mean_over_all_known_labels():
    """Of 12 images on three processes, which have different numbers of known labels."""
    data = draw_data((6, 6, 1), 5, seed=3, multi_label=True)
    spec = make_spec(global_batch_size=12, num_gpus=3, epochs=2)
    _, labels = next(iter(TrainingBatches(spec, data, 0, 1)))
    losses, _ = sigmoid_cross_entropy(np.linspace(-2, 2, labels.size).reshape(labels.shape), labels)
    expected = losses.sum() / (labels != MISSING).sum()
    logits = np.split(np.linspace(-2, 2, labels.size).reshape(labels.shape), 3)
    means, counts = [], set()
    for rank in range(3):
        _, targets = next(read_targets(TrainingBatches(spec, data, rank, 3), spec, data))
        assert targets.dtype == np.float32
        own = np.log1p(np.exp(-np.sign(targets) * logits[rank])) * np.abs(targets)
        means.append(own.sum(axis=1).mean())
        counts.add(int((targets != 0).sum()))
    assert len(counts) > 1
    assert np.mean(means) == pytest.approx(expected, rel=1e-6)


def test_a_batch_without_known_labels_has_no_loss():
    targets = weigh_labels(np.full((2, 3), MISSING, np.uint8), num_images=2, num_known=0)
    assert np.array_equal(targets, np.zeros((2, 3)))


def test_a_single_label_is_passed_on_unchanged():
    data = make_data()
    batches = TrainingBatches(make_spec(), data, 0, 1)
    for (_, expected), (_, found) in zip(batches, read_targets(batches, make_spec(), data), strict=True):
        assert found.dtype == np.int32 and np.array_equal(found, expected)
    assert not data.multi_label
    assert replace(data, train_labels=np.zeros((40, 3), np.uint8)).multi_label


def test_random_images_have_as_many_labels(several, tmp_path):
    prepare_random("image_csv", several["options"], tmp_path / "random")
    labels = np.load(tmp_path / "random" / "train_labels.npy")
    assert labels.shape == (80, 3) and labels.dtype == np.uint8
    assert set(labels.ravel()) == {0, 1} and 0.3 < labels.mean() < 0.7

"""Unfair protocols are planned beside the study's own runs, measured against these, and compared with nothing else."""

import json
import os
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from howmanygpus.plan.config.errors import ConfigError
from howmanygpus.plan.config.machine import Device, Machine
from howmanygpus.plan.plan import Plan
from howmanygpus.plan.study.published import describe_protocols, list_published
from howmanygpus.report.answer import protocols as answer_of_protocols
from howmanygpus.report.figures import describe_figure, list_figures, load_figure
from howmanygpus.report.figures.protocols import DOUBT_NOTE, PLACES_NOTE
from howmanygpus.report.files import write_table
from howmanygpus.report.outcomes import IDENTITY, find_changes
from howmanygpus.report.published.protocols import WORDS, leave_out_unfair
from howmanygpus.report.tables import batch_sizes, protocols, scaling, time_to_accuracy, variants
from howmanygpus.report.tables.evaluations import COLUMNS as EVALUATIONS
from howmanygpus.report.tables.runs import COLUMNS as RUNS
from project import ROOT, study
from specs import make_spec
from stored import collect, plan_of, store_run

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
PATTERNS = {"image_shape": [40, 40, 3], "num_classes": 3, "num_train": 256, "num_test": 30}
DATASETS = {"patterns": {"source": "patterns", "options": PATTERNS}}
NONE = {"first_epoch_inside": False, "eval_other_images": {}, "eval_batch_statistics": [], "own_augmentation": {}}
QUALITY = {"metric": "accuracy", "thresholds": [0.5, 0.9], "margin": 0.01}
AUGMENTED = {"own_augmentation": {"pytorch_ddp": {"random_flip": True}}}


def make_plan(given: dict, **changes) -> Plan:
    common = {"dataset": "patterns", "model": "resnet44", "model_options": {"blocks": 1}, "devices": ["cpu"]}
    common |= {"frameworks": ["pytorch_ddp", "chainer_mn"], "per_device_batch_size": [8], "published": "chexnet"}
    return Plan({"studies": {"s": study(**common | {"protocols": given} | changes)}, "datasets": DATASETS}, CPU)


def list_unfair(plan: Plan) -> list:
    return [run for run in plan.studies["s"].runs if run.variant in WORDS]


def test_a_protocol_repeats_the_runs_of_the_first_variant_in_the_frameworks_that_it_names():
    given = AUGMENTED | {"eval_batch_statistics": ["chainer_mn"]}
    two = {"stock": {"prefetch": 1}, "other": {}}
    plan = make_plan(given, variants=two, inputs=["arrays", "synthetic"], num_gpus=[1, 2])
    planned = plan.studies["s"]
    assert {(run.framework, run.variant, run.input, run.num_gpus) for run in list_unfair(plan)} == {
        *(("pytorch_ddp", "own_augmentation", "arrays", 1), ("pytorch_ddp", "own_augmentation", "arrays", 2)),
        *(("chainer_mn", "eval_batch_statistics", "arrays", 1), ("chainer_mn", "eval_batch_statistics", "arrays", 2)),
    }, "random images are augmented and evaluated by nobody"
    for run in list_unfair(plan):
        twin = next(fair for fair in planned.runs if fair.path == run.path.replace(run.variant, "stock"))
        spec, fair = planned.spec(run), planned.spec(twin)
        differing = {key for key in spec if spec[key] != fair[key]}
        changed = {"own_augmentation": "random_flip", "eval_batch_statistics": "eval_batchnorm"}[run.variant]
        assert differing == {"variant", changed} and spec["prefetch"] == 1
        assert planned.describe()["protocols"][run.path] == {"protocol": run.variant}
        assert plan.verdicts[run.path] == plan.verdicts[twin.path], "the gate checks the same step"


def test_an_augmentation_that_changes_the_image_size_has_weights_and_a_verdict_of_its_own():
    plan = make_plan({"own_augmentation": {"pytorch_ddp": {"crop": None}}}, crop=[32, 32], num_gpus=[1])
    (run,) = list_unfair(plan)
    assert "_40x40x3_" in plan.studies["s"].weights_file(run) and "_40x40x3_" in plan.verdicts[run.path]


def test_without_protocols_everything_is_as_before_the_key():
    plain, with_key = make_plan({}), make_plan({"first_epoch_inside": True, "eval_other_images": {"pytorch_ddp": 10}})
    assert plain.settings == with_key.settings and plain.verdicts == with_key.verdicts
    assert "protocols" not in json.loads(plain.studies["s"].request())["studies"]["s"]
    assert not any("eval_batchnorm" in settings for settings in plain.settings.values())
    assert all(plain.studies["s"].spec(run)["eval_batchnorm"] == "running" for run in plain.studies["s"].runs)
    spec = plain.studies["s"].spec(plain.studies["s"].runs[0])
    old = {"spec": {key: value for key, value in spec.items() if key != "eval_batchnorm"}}
    assert find_changes(spec, old, {}) == [], "a run that is older than the key did the same"


def test_a_job_plans_the_same_runs_from_its_request():
    plan = make_plan(AUGMENTED | {"eval_batch_statistics": ["chainer_mn"], "eval_other_images": {"chainer_mn": 7}})
    again = Plan.from_request(json.loads(plan.studies["s"].request()))
    assert again.settings == plan.settings
    assert again.studies["s"].describe()["protocols"] == plan.studies["s"].describe()["protocols"]


def test_images_of_whole_batches_or_a_number_of_images_are_evaluated():
    given = {"eval_other_images": {"pytorch_ddp": "full_batches", "chainer_mn": 7}}
    found = make_plan(given, num_gpus=[1, 2]).studies["s"].describe()["protocols"]
    counts = {(path.split("/")[1], path.split("gpus")[1][0]): one["evaluates"] for path, one in found.items()}
    assert counts == {
        ("pytorch_ddp", "1"): 24,
        ("pytorch_ddp", "2"): 16,
        ("chainer_mn", "1"): 7,
        ("chainer_mn", "2"): 7,
    }
    first = make_plan(given, num_gpus=[2], eval_devices="first", eval_batch_size=7).studies["s"].describe()
    assert {one["evaluates"] for path, one in first["protocols"].items() if "pytorch" in path} == {28}


REFUSED = [
    (
        {"eval_batch_statistics": ["chainer"]},
        {},
        'eval_batch_statistics: "chainer" is not one of the study\'s framewor',
    ),
    ({"eval_other_images": {"jax_sharding": 5}}, {}, 'eval_other_images: "jax_sharding" is not one of the study\'s'),
    (
        {"eval_other_images": {"chainer_mn": 30}},
        {},
        "chainer_mn: 30 has no effect: there are 30 test images; give less",
    ),
    (
        {"eval_other_images": {"chainer_mn": "full_batches"}},
        {"eval_batch_size": 15, "num_gpus": [1, 2]},
        'chainer_mn: "full_batches" has no effect: the 30 test images fill all batches; give a number',
    ),
    (
        {"eval_other_images": {"chainer_mn": "full_batches"}},
        {"eval_batch_size": 31},
        'chainer_mn: "full_batches" leaves none of the 30 test images',
    ),
    (
        {"eval_other_images": {"chainer_mn": "whole"}},
        {},
        '"whole" does not match ^full_batches$; write full_batches, or',
    ),
    (
        {"eval_batch_statistics": ["chainer_mn"]},
        {"model": "small_cnn", "model_options": {}},
        "has no effect on small_cnn, which has no BatchNorm; choose a network that has, or remove it",
    ),
    (
        {"eval_batch_statistics": ["chainer_mn"]},
        {"inputs": ["synthetic"]},
        "has no effect, because the study has only random images",
    ),
    (
        {"eval_batch_statistics": ["chainer_mn"]},
        {"variants": {"eval_batch_statistics": {}}},
        'variants: "eval_batch_statistics" is the name of a protocol; rename the variant',
    ),
    (
        AUGMENTED,
        {"stop_below_efficiency": 0.5},
        "repeats runs of the study, and stop_below_efficiency may leave them out; make a study of its own for it",
    ),
    (AUGMENTED, {"random_flip": True}, '{"random_flip": true} has no effect: it is what the study does in every'),
    (AUGMENTED, {"published": "dogs"}, "repeats what no published study that this one is set beside has done; give"),
    (AUGMENTED, {"published": None}, "repeats a published study, and this one is set beside none; give `published`"),
    (
        {"own_augmentation": {"pytorch_ddp": {"crop": [50, 50]}}},
        {},
        "own_augmentation.pytorch_ddp.crop: [50, 50] is larger than the stored images",
    ),
    ({"first_epoch": True}, {}, 'protocols: unknown key "first_epoch"; did you mean first_epoch_inside?'),
]


@pytest.mark.parametrize(("given", "changes", "message"), REFUSED)
def test_a_protocol_without_effect_or_meaning_is_refused(given, changes, message):
    with pytest.raises(ConfigError) as raised:
        make_plan(given, **{"num_gpus": [1]} | changes)
    assert str(raised.value).startswith("studies.s.") and message in str(raised.value)


def test_a_program_of_the_user_has_no_protocols():
    with pytest.raises(ConfigError, match=r"protocols: .* has no effect on a program"):
        Plan({"studies": {"s": {"program": {"command": "true"}, "protocols": {"first_epoch_inside": True}}}}, CPU)


def test_a_hybridised_network_cannot_evaluate_by_the_batch():
    given = {"eval_batch_statistics": ["mxnet_gluon"]}
    plan = make_plan(given, frameworks=["mxnet_gluon"], variants={"best": {"tier": "best"}}, num_gpus=[1])
    (run,) = list_unfair(plan)
    assert run.unsupported.startswith("mxnet_gluon hybridizes its network in the best tier")


def test_every_unfair_protocol_of_a_source_is_one_that_a_study_can_switch_on():
    assert set(describe_protocols("chexnet")) == set(WORDS) == set(NONE)
    assert all(set(describe_protocols(name)) <= set(WORDS) for name in list_published())


def make_runs(*rows):
    """Make tables of runs and evaluations on one device. A row has framework, repeat and what differs from usual.

    A run sees 1000 images. Its first step takes 1 s, and all others 9 s, with a rate of 125 after the warm-up.
    """
    runs, evaluations = [], []
    for given in rows:
        names = {key: given[key] for key in ("framework", "variant", "repeat", "num_gpus", "input") if key in given}
        spec = make_spec(**names, global_batch_size=8 * given.get("num_gpus", 1))
        identity = {key: getattr(spec, key) for key in IDENTITY}
        protocol = WORDS.get(given.get("variant"))
        row = {"status": "completed", "images_per_s": 125.0, "compile_s": 1.0, "train_s": 9.0, "images_seen": 1000}
        row |= {"quality_last": 0.8, "quality_metric": "accuracy", "disturbed": False, "protocol": protocol}
        row |= {key: value for key, value in given.items() if key not in names and key != "reached_s"}
        moment = {"epoch": 1, "images_seen": 80, "train_s": given.get("reached_s", 9.0), "wall_s": 20.0}
        evaluations.append(identity | moment | {"quality": row["quality_last"], "protocol": protocol})
        runs.append(identity | row)
    return pd.DataFrame(runs, columns=list(RUNS)), pd.DataFrame(evaluations, columns=list(EVALUATIONS))


def compute(*rows, others=None, **given):
    config = {"protocols": NONE | given, "variants": {"base": {}, "other": {}}, "quality": QUALITY}
    return protocols.compute_protocols(*make_runs(*rows), config, others or {})


def find(table, protocol, measure, framework="a"):
    chosen = (table["protocol"] == protocol) & (table["measure"] == measure) & (table["framework"] == framework)
    return table[chosen].iloc[0]


def test_the_first_epoch_inside_counts_all_images_over_all_seconds():
    rows = [{"framework": "a", "repeat": 1}, {"framework": "a", "repeat": 2, "compile_s": 11.0, "reached_s": 4.0}]
    table = compute(*rows, {"framework": "a", "variant": "other", "images_per_s": 999.0}, first_epoch_inside=True)
    assert set(table["protocol"]) == {"first_epoch_inside"} and len(table) == 2
    assert table["comparable"].str.startswith("not comparable: the first epoch is inside").all()
    rate = find(table, "first_epoch_inside", "images_per_s")
    assert (rate["effect"], rate["num_repeats"], rate["fair_median"]) == ("ratio", 2, 125.0)
    assert rate["unfair_max"] == 100.0 and rate["unfair_min"] == 50.0
    assert rate["effect_median"] == pytest.approx((0.8 + 0.4) / 2)
    assert (rate["effect_min"], rate["effect_max"]) == (0.4, 0.8)
    time = find(table, "first_epoch_inside", "time_to_accuracy_s")
    assert time["target"] == 0.5 and time["metric"] == "accuracy"
    assert (time["effect_min"], time["effect_max"]) == (pytest.approx(10 / 9), pytest.approx(15 / 4))


def two_frameworks(*compile_s):
    """The rate of `a` is the highest, but its first step takes 5 s."""
    rows = [
        {"framework": "a", "repeat": i, "images_per_s": 200.0 + i, "compile_s": s} for i, s in enumerate(compile_s, 1)
    ]
    return rows + [{"framework": "b", "repeat": i, "images_per_s": 150.0 + i} for i in range(1, len(compile_s) + 1)]


@pytest.mark.parametrize(
    ("compile_s", "changes"),
    [
        ((5.0, 6.0), "yes"),
        ((5.0,), "yes, by one repeat"),
        ((0.5, 8.0), "within the spread of the repeats"),
        ((0.5, 0.5), "no"),
    ],
)
def test_the_order_of_frameworks_changes_surely_or_within_the_spread(compile_s, changes):
    row = find(compute(*two_frameworks(*compile_s), first_epoch_inside=True), "first_epoch_inside", "images_per_s")
    assert row["order_changes"] == changes and row["fair_order"] == "a > b" and row["fair_rank"] == 1
    assert (row["unfair_rank"], row["unfair_order"]) == ((1, "a > b") if changes == "no" else (2, "b > a"))


def test_runs_under_a_protocol_are_compared_with_the_same_repeat_and_keep_the_others_order():
    rows = [{"framework": "a", "repeat": i, "quality_last": q} for i, q in ((1, 0.80), (2, 0.90))]
    rows += [{"framework": "b", "repeat": i, "quality_last": 0.85 + i / 1000} for i in (1, 2)]
    unfair = {"framework": "a", "variant": "eval_batch_statistics"}
    rows += [unfair | {"repeat": i, "quality_last": q} for i, q in ((1, 0.70), (2, 0.84))]
    table = compute(*rows, eval_batch_statistics=["a"])
    assert set(table["framework"]) == {"a"}, "b is as it was"
    row = find(table, "eval_batch_statistics", "quality_last")
    assert (row["effect"], row["num_repeats"]) == ("difference", 2)
    assert row["effect_min"] == pytest.approx(-0.1) and row["effect_max"] == pytest.approx(-0.06)
    assert row["fair_order"] == "b > a" and row["unfair_order"] == "b > a" and row["order_changes"] == "no"
    assert "images_per_s" not in set(table["measure"]), "evaluation is in no rate"


def test_a_run_that_never_reached_the_target_has_no_time():
    rows = [{"framework": "a"}, {"framework": "a", "variant": "own_augmentation", "quality_last": 0.1}]
    table = compute(*rows, own_augmentation={"a": {}})
    assert set(table["measure"]) == {"images_per_s", "quality_last"}


def test_other_images_are_the_first_of_the_stored_predictions(tmp_path):
    """Of the ten test images of store_run, those predicted correctly are the first."""
    specs = [make_spec(framework=name) for name in ("a", "b")]
    plan = plan_of(*specs)
    for number, spec in enumerate(specs):
        store_run(tmp_path, f"run{number}", spec, accuracies=(0.4, 0.6 + number / 10))
    plan["config"] |= {"protocols": NONE | {"eval_other_images": {"a": 8}}, "variants": {"base": {}}}
    plan["protocols"] = {"run0": {"evaluates": 8}}
    runs, evaluations = collect(plan, tmp_path)
    table = protocols.tabulate(plan, runs, evaluations, tmp_path)
    row = find(table, "eval_other_images", "quality_last")
    assert len(table) == 1 and row["num_images"] == 8
    assert (row["fair_median"], row["unfair_median"]) == (0.6, 6 / 8)
    assert row["effect_median"] == pytest.approx(0.15) and row["order_changes"] == "yes, by one repeat"


def test_runs_under_a_protocol_are_marked_in_the_table_of_runs(tmp_path):
    """Their losses are compared with nothing, not even with each other's, if the images are augmented otherwise."""
    own = {"variant": "own_augmentation", "random_flip": True}
    specs = [make_spec(), make_spec(**own), make_spec(variant="x"), make_spec(framework="b", **own)]
    specs += [make_spec(variant="eval_batch_statistics", eval_batchnorm="batch")]
    names = {1: "own_augmentation", 3: "own_augmentation", 4: "eval_batch_statistics"}
    plan = plan_of(*specs) | {"protocols": {f"run{number}": {"protocol": name} for number, name in names.items()}}
    for number, spec in enumerate(specs):
        store_run(tmp_path, f"run{number}", spec)
    runs, evaluations = collect(plan, tmp_path)
    marks = [f"not comparable: {WORDS[names[number]]}" if number in names else "" for number in range(len(specs))]
    assert runs["protocol"].fillna("").tolist() == marks
    assert evaluations["protocol"].notna().sum() == 2 * len(names), "two evaluations of each"
    assert runs["trajectory"].notna().tolist() == [True, False, True, False, True]


def test_no_table_of_comparisons_has_a_run_under_a_protocol():
    fair = [{"framework": "a", "images_per_s": 100.0, "quality_last": 0.95}]
    unfair = [{"framework": "a", "variant": name, "images_per_s": 900.0, "reached_s": 1.0} for name in list(WORDS)[2:]]
    runs, evaluations = make_runs(*fair, *unfair)
    plan = {"config": {"quality": QUALITY, "variants": {"base": {}}}, "curves": {"weak": [8]}}
    curve = scaling.tabulate(plan, runs)
    assert curve["images_per_s_median"].tolist() == [100.0] and curve["num_planned"].tolist() == [1]
    times = time_to_accuracy.tabulate(plan, runs, evaluations)
    assert set(times["variant"]) == {"base"}
    assert variants.tabulate(plan, runs).empty
    noise = pd.DataFrame(columns=[*batch_sizes.CURVE, *batch_sizes.SIZES])
    assert set(batch_sizes.tabulate(plan, runs, times, noise)["variant"]) == {"base"}


def test_no_figure_but_those_that_mark_them_gets_runs_under_a_protocol():
    runs, evaluations = make_runs({"framework": "a"}, {"framework": "a", "variant": "own_augmentation"})
    kept = leave_out_unfair({"runs": runs, "evaluations": evaluations, "allreduce": pd.DataFrame({"device": ["d"]})})
    assert [len(table) for table in kept.values()] == [1, 1, 1]
    assert [name for name in list_figures() if describe_figure(name).shows_unfair] == ["protocols", "run_grid"]


@pytest.mark.parametrize(
    ("figure", "shown"), [("protocols", True), ("run_grid", True), ("real_against_synthetic", False)]
)
def test_the_script_that_draws_gives_them_to_the_figures_that_mark_them(tmp_path, figure, shown):
    """Its other figures show rates of the augmentation, if they get them."""
    rows = [{"framework": "a"}, {"framework": "a", "input": "synthetic"}]
    rows += [row | {"variant": "own_augmentation"} for row in rows]
    runs, _ = make_runs(*rows)
    for name, table in {"runs": runs, "protocols": compute(*rows, own_augmentation={"a": {}})}.items():
        write_table(tmp_path / f"{name}.tsv", table)
    script, files = (
        ROOT / "workflow" / "scripts" / "draw_figure.py",
        ("--svg", tmp_path / "a.svg", "--png", tmp_path / "a.png"),
    )
    command = [sys.executable, script, "--figure", figure, "--tables", tmp_path, *files]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    subprocess.run(list(map(str, command)), check=True, env=environment)
    drawn = (tmp_path / "a.svg").read_text()
    assert ("not comparable" in drawn) == shown and ("own_augmentation" in drawn) == (figure == "run_grid")
    assert "No run has completed" not in drawn


def test_the_figure_of_all_runs_marks_them():
    runs, _ = make_runs({"framework": "a"}, {"framework": "a", "variant": "own_augmentation"})
    runs["protocol"] = runs["protocol"].map(lambda text: f"not comparable: {text}", na_action="ignore")
    figure = load_figure("run_grid").draw(runs=runs)
    texts = [text.get_text() for text in figure.axes[0].texts]
    plt.close(figure)
    assert "1 of 1\nnot comparable" in texts and "1 of 1" in texts
    assert (
        "own_augmentation, 1 run: not comparable: images are augmented otherwise than in the other frameworks" in texts
    )


def test_the_figure_names_effects_and_places():
    rows = [*two_frameworks(5.0, 6.0), {"framework": "a", "variant": "eval_batch_statistics", "quality_last": 0.7}]
    rows += [{"framework": "b", "num_gpus": 2, "images_per_s": 200.0}]
    figure = load_figure("protocols").draw(compute(*rows, first_epoch_inside=True, eval_batch_statistics=["a"]))
    texts = [[text.get_text() for text in axes.texts] for axes in figure.axes]
    labels = [[label.get_text() for label in axes.get_yticklabels()] for axes in figure.axes]
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    plt.close(figure)
    assert [title.startswith("not comparable: ") for title in titles] == [True, False] * 2, "a row for each protocol"
    assert labels[0] == ["b, 2 devices", "b, 1 device", "a, 1 device"]
    assert texts[0] == ["0.5", "0.66   2 \N{RIGHTWARDS ARROW} 1", "0.343   1 \N{RIGHTWARDS ARROW} 2"]
    assert texts[3] == ["-0.1   1 \N{RIGHTWARDS ARROW} 2?"] and DOUBT_NOTE in figure.axes[3].get_xlabel()
    assert PLACES_NOTE in figure.axes[0].get_xlabel() and DOUBT_NOTE not in figure.axes[0].get_xlabel()


def describe(*rows, **given):
    return answer_of_protocols.describe_protocols(compute(*rows, **given))


def test_the_answer_says_what_each_protocol_changes_and_whether_the_order_does():
    (line,) = describe(*two_frameworks(5.0, 6.0), first_epoch_inside=True)
    assert line.startswith(
        "Not comparable, the first epoch is inside, with first step, compilation and warm-up (1 cpu device x 8 images, "
        "arrays fp32): The rate changes by a -65.7 % (-67 % to -64.5 % in 2 repeats), b -34 % (-34.2 % to -33.8 % in 2 "
        "repeats); the order of frameworks changes: b > a instead of a > b. The training time to accuracy 0.5 changes"
    )
    (line,) = describe({"framework": "a"}, {"framework": "a", "variant": "eval_batch_statistics"})
    assert "The final accuracy changes by a +0 (one repeat). The training time" in line
    others = {next(make_runs({"framework": "a"})[0][list(IDENTITY)].itertuples(index=False, name=None)): (0.7, 56)}
    (line,) = describe({"framework": "a"}, others=others)
    assert line.endswith("The final accuracy changes by a -0.1 (56 images, one repeat).")
    assert describe(*two_frameworks(5.0, 6.0)) == []


def test_frameworks_with_the_same_value_keep_their_order():
    rows = [{"framework": name, "images_per_s": rate, "compile_s": 1.0} for name, rate in (("a", 90.0), ("b", 95.0))]
    row = find(compute(*rows, first_epoch_inside=True), "first_epoch_inside", "images_per_s")
    assert (row["fair_order"], row["unfair_order"], row["order_changes"]) == ("b > a", "b > a", "no")


def test_the_answer_takes_the_largest_device_count_and_names_where_the_order_changes():
    larger = [{"framework": name, "num_gpus": 2, "images_per_s": rate} for name, rate in (("a", 400.0), ("b", 300.0))]
    (line,) = describe(*two_frameworks(5.0, 6.0), *larger, first_epoch_inside=True)
    assert "warm-up (2 cpu devices x 8 images" in line
    assert "; the order of frameworks changes in 1 of 2 configurations: on 1 device b > a instead of a > b. The" in line


def test_nothing_is_computed_without_protocols():
    assert compute(*two_frameworks(5.0, 6.0)).empty
    assert np.array_equal(compute().columns, protocols.COLUMNS)

"""Unfair protocols are measured against the same framework's comparable runs, and compared with nothing else."""

import json
import os
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from helpers.answers import find_line, make_facts
from helpers.messages import says
from helpers.specs import make_spec
from helpers.stored_runs import collect, plan_of, store_run
from howmanygpus.config.schema import study_defaults
from howmanygpus.report.answer.details import list_protocols
from howmanygpus.report.answer.texts import render_answer
from howmanygpus.report.columns import IDENTITY, SAME_PLACE
from howmanygpus.report.figures import describe_figure, list_figures, load_figure
from howmanygpus.report.figures.protocols import RANKS_NOTE, UNSURE_NOTE
from howmanygpus.report.files import write_table
from howmanygpus.report.metrics import load_metric
from howmanygpus.report.outcomes import identify
from howmanygpus.report.predictions import Predictions
from howmanygpus.report.published import PROTOCOLS, describe_protocol, drop_unfair, name_protocol
from howmanygpus.report.tables import batch_sizes, protocols, scaling, time_to_accuracy, variants
from howmanygpus.report.tables.evaluations import COLUMNS as EVALUATIONS
from howmanygpus.report.tables.runs import COLUMNS as RUNS
from project import ROOT

NONE = study_defaults()["protocols"]
QUALITY = {"metric": "accuracy", "thresholds": [0.5, 0.9], "margin": 0.01}


def make_runs(*rows):
    """Make tables of runs and evaluations on one device. A row has framework, repeat and what differs from usual.

    A run sees 1000 images. Its first step takes 1 s, and all others 9 s, with a rate of 125 after the warm-up.
    """
    runs, evaluations = [], []
    for given in rows:
        names = {key: given[key] for key in ("framework", "variant", "repeat", "num_gpus", "input") if key in given}
        spec = make_spec(**names, global_batch_size=8 * given.get("num_gpus", 1))
        identity = identify({"config": {"num_nodes": None}}, vars(spec))
        protocol = name_protocol(given["variant"]) if given.get("variant") in PROTOCOLS else None
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


@pytest.mark.parametrize(
    ("protocol", "measures"),
    [
        ("eval_first_statistics", {"quality_last", "time_to_accuracy_s"}),
        ("frozen_batches", {"images_per_s", "quality_last", "time_to_accuracy_s"}),
        ("read_every_loss", {"images_per_s", "time_to_accuracy_s"}),
    ],
)
def test_a_protocol_has_the_measures_that_it_can_change(protocol, measures):
    unfair = {"framework": "a", "variant": protocol, "images_per_s": 100.0, "quality_last": 0.7, "reached_s": 18.0}
    table = compute({"framework": "a"}, unfair, **{protocol: ["a"]})
    assert set(table["protocol"]) == {protocol} and set(table["measure"]) == measures
    effects = {"images_per_s": 0.8, "quality_last": -0.1, "time_to_accuracy_s": 2.0}
    found = dict(zip(table["measure"], table["effect_median"], strict=True))
    assert found == pytest.approx({name: effects[name] for name in measures})


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


def test_the_first_images_have_their_own_scores_and_labels():
    """The first two of four images are ranked as their labels are, the others the other way round."""
    scores, labels = np.array([[2.0], [1.0], [0.0], [3.0]]), np.array([[1], [0], [1], [0]], np.uint8)
    stored = Predictions(score=scores, label=labels)
    assert load_metric("macro_auc").compute(stored) == 0.25
    assert load_metric("macro_auc").compute(stored.first(2)) == 1.0
    assert stored.first(2).rank is None


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
    marks = [describe_protocol(names[number]) if number in names else "" for number in range(len(specs))]
    assert runs["protocol"].fillna("").tolist() == marks
    assert evaluations["protocol"].notna().sum() == 2 * len(names), "two evaluations of each"
    assert runs["trajectory"].notna().tolist() == [True, False, True, False, True]


def test_no_table_of_comparisons_has_a_run_under_a_protocol():
    fair = [{"framework": "a", "images_per_s": 100.0, "quality_last": 0.95}]
    unfair = [{"framework": "a", "variant": name, "images_per_s": 900.0, "reached_s": 1.0} for name in PROTOCOLS[2:]]
    runs, evaluations = make_runs(*fair, *unfair)
    plan = {"config": {"quality": QUALITY, "variants": {"base": {}}}, "curves": {"weak": [8]}}
    curve = scaling.tabulate(plan, runs)
    assert curve["images_per_s_median"].tolist() == [100.0] and curve["num_planned"].tolist() == [1]
    times = time_to_accuracy.tabulate(plan, runs, evaluations)
    assert set(times["variant"]) == {"base"}
    assert variants.tabulate(plan, runs, evaluations).empty
    noise = pd.DataFrame(columns=[*SAME_PLACE, *batch_sizes.SIZES])
    assert set(batch_sizes.tabulate(plan, runs, times, noise)["variant"]) == {"base"}


def test_only_figures_that_mark_protocols_get_protocol_runs():
    runs, evaluations = make_runs({"framework": "a"}, {"framework": "a", "variant": "own_augmentation"})
    kept = drop_unfair({"runs": runs, "evaluations": evaluations, "allreduce": pd.DataFrame({"device": ["d"]})})
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
    script = ROOT / "workflow" / "scripts" / "draw_figures.py"
    read = [str(tmp_path / f"{name}.tsv") for name in describe_figure(figure).tables]
    given = {"tables": read, "decision": [], "predictions": []}
    request = {"input": given, "output": {"svg": [str(tmp_path / f"{figure}.svg")]}}
    command = [sys.executable, script, json.dumps(request), json.dumps({"threads": 1})]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    subprocess.run(list(map(str, command)), check=True, env=environment)
    drawn = (tmp_path / f"{figure}.svg").read_text()
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
    assert texts[3] == ["-0.1   1 \N{RIGHTWARDS ARROW} 2?"] and UNSURE_NOTE in figure.axes[3].get_xlabel()
    assert RANKS_NOTE in figure.axes[0].get_xlabel() and UNSURE_NOTE not in figure.axes[0].get_xlabel()


def describe(*rows, **given):
    return list_protocols(compute(*rows, **given))


def test_the_answer_names_the_effect_of_each_protocol_and_changes_of_rank():
    (found,) = describe(*two_frameworks(5.0, 6.0), first_epoch_inside=True)
    assert found["words"] == name_protocol("first_epoch_inside")
    assert (found["num_gpus"], found["input"]) == (1, "arrays")
    rate, time = found["measures"]
    effects = {each["framework"]: each for each in rate["effects"]}
    assert rate["measure"] == "images_per_s" and effects["a"]["median"] == pytest.approx(0.343, abs=0.001)
    assert effects["b"]["is_ratio"] and effects["b"]["num_repeats"] == 2
    assert rate["order"] | {"sure": None} == {
        **{"num_known": 1, "num_changed": 1, "num_gpus": 1, "fair": "a > b", "unfair": "b > a", "sure": None}
    }
    assert (time["metric"], time["target"]) == ("accuracy", 0.5)
    (found,) = describe({"framework": "a"}, {"framework": "a", "variant": "eval_batch_statistics"})
    assert not found["measures"][0]["effects"][0]["is_ratio"] and found["measures"][0]["effects"][0]["median"] == 0
    others = {next(make_runs({"framework": "a"})[0][IDENTITY].itertuples(index=False, name=None)): (0.7, 56)}
    (found,) = describe({"framework": "a"}, others=others)
    assert found["measures"][0]["effects"][0]["num_images"] == 56
    assert describe(*two_frameworks(5.0, 6.0)) == []


def test_the_sentence_of_a_protocol_has_its_effects_and_orders():
    facts = make_facts({"framework": "a"}, protocols=compute(*two_frameworks(5.0, 6.0), first_epoch_inside=True))
    line = find_line(render_answer(facts, "md"), "Not comparable, the first epoch is inside")
    assert says(line, "1 x cpu, 8 per device, arrays, fp32", "images/s: a -65.7 % (-67 % to -64.5 %)", "b -34 % (")
    assert says(line, "the order of frameworks changes in 1 of 1 configuration, on 1 device to b > a from a > b")
    assert "training time to accuracy 0.5: a" in line


def test_frameworks_with_the_same_value_keep_their_order():
    rows = [{"framework": name, "images_per_s": rate, "compile_s": 1.0} for name, rate in (("a", 90.0), ("b", 95.0))]
    row = find(compute(*rows, first_epoch_inside=True), "first_epoch_inside", "images_per_s")
    assert (row["fair_order"], row["unfair_order"], row["order_changes"]) == ("b > a", "b > a", "no")


def test_the_answer_takes_the_largest_device_count_and_names_where_the_order_changes():
    larger = [{"framework": name, "num_gpus": 2, "images_per_s": rate} for name, rate in (("a", 400.0), ("b", 300.0))]
    (found,) = describe(*two_frameworks(5.0, 6.0), *larger, first_epoch_inside=True)
    assert found["num_gpus"] == 2
    order = found["measures"][0]["order"]
    assert (order["num_changed"], order["num_known"], order["num_gpus"]) == (1, 2, 1)


def test_nothing_is_computed_without_protocols():
    assert compute(*two_frameworks(5.0, 6.0)).empty
    assert np.array_equal(compute().columns, protocols.COLUMNS)

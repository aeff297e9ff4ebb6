"""Control runs are named in the table of runs, and no comparison, ranking or sum of runs contains them."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from pandas.testing import assert_frame_equal

from helpers.answers import complete, make_runs
from helpers.messages import says
from helpers.specs import make_spec
from helpers.stored_runs import collect, plan_of, store_run
from howmanygpus.prepare.weights import count_gradient_bytes
from howmanygpus.report.figures import describe_figure, list_figures, load_figure
from howmanygpus.report.published import drop_unfair
from howmanygpus.report.tables import allreduce, batch_sizes, losses, placement, scaling, time_to_accuracy, variants
from howmanygpus.report.tables.gradient_noise import COLUMNS as NOISE

QUALITY = {"metric": "accuracy", "thresholds": [0.9], "margin": 0.01}
PLAN = {"config": {"quality": QUALITY, "variants": {"base": {}}}, "curves": {"weak": [8]}}
OWN = [
    {"framework": name, "num_gpus": count, "images_per_s": 100.0 * count, "cost": 3.0, "currency": "EUR"}
    for name in ("a", "b")
    for count in (1, 2)
]
CONTROLS = [
    row | {"variant": f"control_{name}", "control": name, "images_per_s": 9000.0, "quality": None, "cost": 0.1}
    for row in OWN
    for name in ("resident_input", "no_exchange", "no_evaluation")
]


def make_all(*rows) -> dict[str, pd.DataFrame]:
    """Make all tables that compare runs, and those that they are made from."""
    runs, evaluations = make_runs(*rows)
    times = time_to_accuracy.tabulate(PLAN, runs, evaluations)
    noise = pd.DataFrame(columns=list(NOISE))
    return {
        "scaling": scaling.tabulate(PLAN, runs),
        "time_to_accuracy": times,
        "batch_sizes": batch_sizes.tabulate(PLAN, runs, times, noise),
        "variants": variants.tabulate(PLAN, runs, evaluations),
        "placement": placement.tabulate(PLAN, runs),
        "runs": runs,
        "evaluations": evaluations,
    }


def find_texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text)]


COMPARISONS = ("scaling", "time_to_accuracy", "batch_sizes", "variants", "placement")
"""The tables that compare runs, with their speed-ups, times and prices."""


@pytest.mark.parametrize("name", COMPARISONS)
def test_no_table_of_comparisons_changes_with_control_runs(name):
    assert_frame_equal(make_all(*OWN)[name], make_all(*OWN, *CONTROLS)[name], check_dtype=False)


def answer(tables: dict[str, pd.DataFrame]) -> dict:
    return complete(*(tables[name] for name in ("runs", "time_to_accuracy")), scaling=tables["scaling"])


def test_the_answer_counts_control_runs_apart_and_is_otherwise_the_same():
    without, with_controls = answer(make_all(*OWN)), answer(make_all(*OWN, *CONTROLS))
    assert with_controls["details"].pop("controls") == {"completed": 12} and not without["details"].pop("controls")
    assert with_controls == without and without["decisions"][0]["recommended"] and without["num_planned"] == 4


def test_only_the_figure_of_all_runs_gets_control_runs_and_marks_them():
    runs = make_all(*OWN, *CONTROLS)["runs"]
    assert len(drop_unfair({"runs": runs})["runs"]) == len(OWN)
    described = {name: describe_figure(name) for name in list_figures()}
    assert [name for name, each in described.items() if each.shows_unfair and "runs" in each.tables] == ["run_grid"]
    figure = load_figure("run_grid").draw(runs.assign(disturbed=False, trajectory=None, run_dir="results/runs/x"))
    marked = [text for text in find_texts(figure) if "control" in text.splitlines()]
    plt.close(figure)
    assert len(marked) == 12, "one square for each framework, control and device count"


def test_control_runs_are_named_in_the_table_of_runs_and_have_no_losses_to_compare(tmp_path):
    own = {"variant": "control_no_exchange", "exchange": "none", "evaluate": False}
    specs = [make_spec(), make_spec(framework="b"), make_spec(**own)]
    plan = plan_of(*specs) | {"protocols": {"run2": {"control": "no_exchange"}}}
    for number, spec in enumerate(specs):
        store_run(tmp_path, f"run{number}", spec, accuracies=() if number == 2 else (0.4, 0.8))
    runs, _ = collect(plan, tmp_path)
    assert runs["control"].fillna("").tolist() == ["", "", "no_exchange"] and runs["protocol"].isna().all()
    assert runs["images_per_s"].notna().all() and runs["quality_last"].notna().tolist() == [True, True, False]
    assert set(losses.tabulate(plan, tmp_path)["variant"]) == {"base"}
    assert list(runs.columns).index("control") == list(runs.columns).index("protocol") + 1


RECORDS = [
    {
        **{"device": "d", "num_gpus": count, "num_nodes": 1, "nodes": [], "weights": "small_seed1"},
        "sizes": [{"size_mib": 4 * 1234 / 2**20, "seconds": [0.001], "median_s": 0.001}],
    }
    for count in (2, 4)
]


def test_the_gradients_of_a_network_are_its_trainable_arrays_in_float32():
    weights = {"a.kernel": np.zeros((3, 5), np.float32), "a.bias": np.zeros(5, np.float32)}
    statistics = {"b.mean": np.zeros(7, np.float32), "b.variance": np.zeros(7, np.float32)}
    assert count_gradient_bytes(weights | statistics) == 4 * 20


def test_the_all_reduce_of_the_gradients_is_named_and_drawn_beside_the_fixed_sizes():
    fixed = [record | {"sizes": [{"size_mib": 1, "median_s": 0.002}]} for record in RECORDS]
    fixed = [{key: value for key, value in record.items() if key != "weights"} for record in fixed]
    table = allreduce.tabulate({"config": {"model": "small_cnn"}}, [*fixed, *RECORDS])
    gradients = table[table["gradients_of"].notna()]
    assert set(gradients["gradients_of"]) == {"small_cnn"} and gradients["num_gpus"].tolist() == [2, 4]
    assert (gradients["size_mib"] * 2**20 == 4 * 1234).all(), "exactly as many bytes"
    assert gradients["bus_gb_per_s"].tolist() == pytest.approx([4936 / 1e6, 1.5 * 4936 / 1e6])
    figure = load_figure("allreduce").draw(table)
    texts = find_texts(figure)
    (axes,) = figure.axes
    assert {line.get_linestyle() for line in axes.lines if len(line.get_xdata()) == 2} == {"-", "--"}
    plt.close(figure)
    assert {"1 MiB", "0.00471 MiB, gradients of small_cnn"} <= set(texts)


PROGRAM = {"command": "train", "start": "once", "axes": {}, "files": {}, "report": None}


def tabulate_program(results, losses, control_losses, control_seconds=None):
    """Return the rows of a program's run and of its control run. control_seconds: of each process of the latter."""
    base, control = ({"variant": "base"}, {"variant": "control_no_exchange"})
    plan = plan_of(make_spec(num_gpus=2, **base), make_spec(num_gpus=2, **control))
    plan["protocols"] = {"run1": {"control": "no_exchange"}}
    processes = [{"rank": rank, "measured_s": each} for rank, each in enumerate(control_seconds or ())]
    for number, own in enumerate((losses, control_losses)):
        planned = plan["runs"][f"run{number}"]["spec"]
        planned["program"] = PROGRAM | ({"control": "no_exchange"} if number else {})
        store_run(results, f"run{number}", make_spec(num_gpus=2), accuracies=(), processes=processes if number else [])
        folder = results / "results" / "runs" / f"run{number}"
        record = json.loads((folder / "run.json").read_text()) | {"spec": planned}
        (folder / "run.json").write_text(json.dumps(record))
        events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        events = [event | {"loss": loss} for event, loss in zip(events, own, strict=True)]
        (folder / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
    runs, _ = collect(plan, results)
    return runs.to_dict("records")


def test_a_control_run_that_trained_has_no_rate_and_says_why(tmp_path):
    run, control = tabulate_program(tmp_path, (2.0, 1.5, 1.25), (2.0, 1.5, 1.2500001))
    assert run["images_per_s"] > 0 and pd.isna(control["images_per_s"])
    assert says(control["reason"], "up to step 30", 'control("no_exchange")')


@pytest.mark.parametrize(
    "losses",
    [(2.0, 1.5, 1.2), (None, None, None), (2.0, None, None)],
    ids=["other losses", "no losses", "the first one alone"],
)
def test_a_control_run_that_did_not_train_keeps_its_rate(tmp_path, losses):
    """The first loss is that of the same weights."""
    _, control = tabulate_program(tmp_path, (2.0, 1.5, 1.25), losses)
    assert control["images_per_s"] > 0 and not control["reason"]


def test_a_loss_that_never_changes_says_nothing(tmp_path):
    _, control = tabulate_program(tmp_path, (2.0, 2.0, 2.0), (2.0, 2.0, 2.0))
    assert control["images_per_s"] > 0


def test_the_slowest_process_of_a_program_counts_where_none_waits(tmp_path):
    _, alone = tabulate_program(tmp_path / "alone", (3.0, 2.0, 1.0), (3.0, 2.1, 1.1))
    _, slowest = tabulate_program(tmp_path / "slowest", (3.0, 2.0, 1.0), (3.0, 2.1, 1.1), (5.0, 10.0))
    assert slowest["images_per_s"] == pytest.approx(alone["images_per_s"] * 5.0 / 10.0)


def test_what_a_program_evaluates_in_a_control_run_is_no_quality(tmp_path):
    tabulate_program(tmp_path, (3.0, 2.0, 1.0), (3.0, 2.1, 1.1))
    plan = plan_of(make_spec(num_gpus=2), make_spec(num_gpus=2, variant="control_no_exchange"))
    plan["protocols"] = {"run1": {"control": "no_exchange"}}
    moment = {"event": "evaluation", "epoch": 1, "step": 10, "train_s": 2.0, "wall_s": 9.0, "metric": {"accuracy": 0.9}}
    for number in (0, 1):
        folder = tmp_path / "results" / "runs" / f"run{number}"
        plan["runs"][f"run{number}"]["spec"] = json.loads((folder / "run.json").read_text())["spec"]
        with (folder / "events.jsonl").open("a") as file:
            file.write("\n" + json.dumps(moment))
    runs, evaluations = collect(plan, tmp_path)
    assert evaluations["variant"].tolist() == ["base"] and runs["quality_last"].notna().tolist() == [True, False]

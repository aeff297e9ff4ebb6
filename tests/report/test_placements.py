"""Tables, figures and answers keep the numbers of nodes of a device count apart, and say what spreading costs."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from helpers.answers import complete
from helpers.figure_tables import GRIDS, make_tables, spread, written
from helpers.specs import make_spec
from howmanygpus.report.answer.details import compare_nodes
from howmanygpus.report.answer.texts import render_answer
from howmanygpus.report.figures import describe_figure, load_figure
from howmanygpus.report.figures.price import summarize_prices
from howmanygpus.report.outcomes import identify
from howmanygpus.report.placements import compare_placements
from howmanygpus.report.rows import name_series
from howmanygpus.report.tables.allreduce import tabulate as tabulate_allreduces
from howmanygpus.report.tables.batch_sizes import compute_batch_sizes
from howmanygpus.report.tables.ceilings import COLUMNS as BOUNDS
from howmanygpus.report.tables.datasets import COLUMNS as DATASETS
from howmanygpus.report.tables.evaluations import COLUMNS as EVALUATIONS
from howmanygpus.report.tables.gradient_noise import COLUMNS as NOISE
from howmanygpus.report.tables.runs import COLUMNS as RUNS
from howmanygpus.report.tables.scaling import compute_scaling
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy
from howmanygpus.report.tables.variants import compute_variants

AXIS = {"config": {"num_nodes": [1, 2]}}
QUALITY = {"metric": "accuracy", "thresholds": [0.9]}


def make_runs(*cells, plan=AXIS):
    """Make the table of runs. A cell has its devices, its nodes, the rates of its repeats, and changes of its rows."""
    rows = []
    for num_gpus, num_nodes, rates, *changes in cells:
        for repeat, rate in enumerate(rates, start=1):
            spec = make_spec(num_gpus=num_gpus, num_nodes=num_nodes, global_batch_size=8 * num_gpus, repeat=repeat)
            row = identify(plan, vars(spec)) | {"images_per_s": rate, "status": "completed", "parity": "passed"}
            row |= {"init_s": 1.0, "compile_s": 1.0, "device_model": "EPYC", "started_at": "2026-01-01T00:00:00+00:00"}
            rows.append(row | (changes[0] if changes else {}))
    return pd.DataFrame(rows, columns=list(RUNS))


ONE, TOGETHER, APART = (1, 1, [100, 100]), (4, 1, [390, 400, 410]), (4, 2, [360, 372, 380])
NONE = {"status": "unsupported", "images_per_s": None, "parity": None}


def scale(runs):
    table = compute_scaling(runs, {"weak": [8]}, {})
    return table.set_index(["num_gpus", "num_nodes"])


def test_a_run_is_named_by_its_nodes_only_if_its_study_names_them():
    spec = vars(make_spec(num_gpus=4, num_nodes=2, global_batch_size=8))
    assert (
        identify(AXIS, spec)["placement"] == "2 nodes"
        and identify(AXIS, spec | {"num_nodes": 1})["placement"] == "1 node"
    )
    assert identify({"config": {"num_nodes": None}}, spec)["placement"] == "fewest nodes"


def test_each_number_of_nodes_has_a_speedup_over_the_same_device():
    table = scale(make_runs(ONE, TOGETHER, APART))
    assert table["speedup"].to_dict() == {(1, 1): 1.0, (4, 1): 4.0, (4, 2): pytest.approx(3.72)}
    assert table["scaling_efficiency"].loc[4, 2] == pytest.approx(0.93)
    assert set(table["baseline_num_nodes"]) == {1} and set(table["baseline_num_gpus"]) == {1}
    assert table["num_repeats"].to_dict() == {(1, 1): 2, (4, 1): 3, (4, 2): 3}


def test_the_baseline_is_on_the_fewest_nodes_that_can_have_it():
    several = scale(make_runs((2, 1, [200]), (2, 2, [150]), (4, 2, [300])))
    assert several["speedup"].to_dict() == {(2, 1): 1.0, (2, 2): 0.75, (4, 2): 1.5}
    impossible = scale(make_runs((8, 1, [None], NONE), (8, 2, [150]), (16, 2, [300])))
    assert impossible["speedup"].loc[16, 2] == 2.0 and set(impossible["baseline_num_nodes"]) == {2}
    failed = scale(make_runs((2, 1, [None], {"status": "crashed"}), (2, 2, [150])))
    assert failed["speedup"].isna().all() and set(failed["baseline_num_nodes"]) == {1}


def test_the_table_compares_the_same_devices():
    table = compare_placements(make_runs(ONE, TOGETHER, APART))
    assert table[["num_gpus", "num_nodes", "base_num_nodes"]].values.tolist() == [[4, 1, 1], [4, 2, 1]]
    together, apart = table.to_dict("records")
    assert (together["rate_of_base"], apart["rate_of_base"]) == (1.0, 0.93)
    assert apart["rate_of_base_min"] == pytest.approx(360 / 410)
    assert apart["rate_of_base_max"] == pytest.approx(380 / 390)
    assert (apart["num_repeats"], apart["base_num_repeats"], apart["parity"]) == (3, 3, "passed")


def test_nodes_that_cannot_have_the_devices_are_no_base():
    table = compare_placements(make_runs((8, 1, [None], NONE), (8, 2, [300]), (8, 4, [150]))).set_index("num_nodes")
    assert table["base_num_nodes"].tolist() == [2, 2, 2]
    assert table["rate_of_base"].loc[[2, 4]].tolist() == [1.0, 0.5] and pd.isna(table["rate_of_base"].loc[1])
    failed = compare_placements(make_runs((4, 1, [None], {"status": "crashed"}), APART))
    assert failed["rate_of_base"].isna().all() and failed["base_num_failed"].tolist() == [1, 1]


def test_a_study_without_the_key_compares_nothing():
    runs = make_runs(ONE, TOGETHER, (8, 2, [700]), plan={"config": {"num_nodes": None}})
    assert compare_placements(runs).empty and compare_nodes(runs) is None


def answer_all(*cells):
    runs = make_runs(*cells)
    keys = list(identify(AXIS, vars(make_spec())))
    evaluated = [
        run | {"epoch": 1, "images_seen": 80, "train_s": 300 / run.pop("images_per_s"), "wall_s": 3.0, "quality": 0.95}
        for run in runs[[*keys, "images_per_s"]].to_dict("records")
    ]
    times = compute_time_to_accuracy(runs, pd.DataFrame(evaluated, columns=list(EVALUATIONS)), QUALITY)
    data = pd.DataFrame([{"study": "s", "dataset": "d", "input": "arrays"}], columns=list(DATASETS))
    return complete(runs, times, data)


def test_the_answer_names_the_cost_of_spreading():
    facts = answer_all(ONE, TOGETHER, APART)
    (found,) = facts["details"]["placements"]
    assert (found["series"], found["num_gpus"], found["num_nodes"], found["base_num_nodes"]) == ("pytorch_ddp", 4, 2, 1)
    assert (found["rate_of_base"], found["rate_of_base_min"]) == (0.93, pytest.approx(360 / 410))
    assert "pytorch_ddp on 4 x cpu on 2 nodes, 8 images per device: 0.93 of the rate on 1 node" in render_answer(
        facts, "md"
    )
    best = facts["decisions"][0]["recommended"]
    assert (best["num_gpus"], best["num_nodes"]) == (4, 1)


def test_the_answer_takes_the_spread_devices_for_a_configuration_of_their_own():
    facts = answer_all(ONE, TOGETHER, (4, 2, [420, 424]))
    best = facts["decisions"][0]["recommended"]
    assert (best["num_gpus"], best["num_nodes"], best["images_per_s"]["median"]) == (4, 2, 422)
    assert facts["details"]["placements"][0]["rate_of_base"] == pytest.approx(422 / 400)


def test_the_answer_says_that_it_knows_nothing_of_spreading():
    assert compare_nodes(make_runs(TOGETHER, (4, 2, [None], {"status": "crashed"}))) == []
    some = make_runs(TOGETHER, (4, 2, [300]))
    some = pd.concat([some, make_runs((4, 2, [None], {"status": "crashed", "repeat": 2}))])
    assert compare_nodes(some) == []
    (once,) = compare_nodes(make_runs((4, 1, [400]), (4, 2, [300])))
    assert (once["rate_of_base"], once["rate_of_base_min"]) == (0.75, None)


def make_spread_tables(folder):
    """Make the tables of a study whose 2 and 4 devices are on one node and on two, where they have 0.9 of the rate."""
    tables = make_tables(*GRIDS["complete"])
    runs = tables["runs"] = written(folder, "runs", spread(tables["runs"]))
    for name in ("evaluations", "losses"):
        tables[name] = spread(tables[name].assign(images_per_s=None)).drop(columns="images_per_s")
    tables["scaling"] = written(folder, "scaling", compute_scaling(runs, {"weak": [8]}, {}))
    times = tables["time_to_accuracy"] = compute_time_to_accuracy(runs, tables["evaluations"], QUALITY)
    tables["batch_sizes"] = compute_batch_sizes(runs, times, pd.DataFrame(columns=list(NOISE)))
    tables["variants"] = compute_variants(runs, ["base", "best"], 0.01, tables["evaluations"])
    return tables


def draw(tables, name):
    figure = load_figure(name).draw(**{table: tables[table] for table in describe_figure(name).tables})
    figure.draw_without_rendering()
    plt.close(figure)
    return figure


LINES = ("throughput_by_gpus", "speedup", "time_to_accuracy", "time_with_start", "quality_by_epoch")
LINES += ("loss_of_first_epoch", "throughput_by_batch_size", "batch_sizes", "price", "run_grid", "variants")


@pytest.mark.parametrize("name", LINES)
def test_a_figure_has_a_line_for_each_number_of_nodes(tmp_path, name):
    figure = draw(make_spread_tables(tmp_path), name)
    texts = [text.get_text() for axes in figure.axes for text in (*axes.texts, *axes.get_yticklabels())]
    for nodes in ("1 node", "2 nodes"):
        assert any(nodes in text for text in texts), (nodes, texts)
    for axes in figure.axes:
        for line in axes.lines:
            xs = [float(x) for x in line.get_xdata()]
            assert len(xs) == len(set(xs)) or name in ("price", "variants"), "two placements on one line"


def test_each_time_to_accuracy_is_drawn_once(tmp_path):
    tables = make_spread_tables(tmp_path)
    axes = draw(tables, "time_to_accuracy").axes[0]
    drawn = [len(line.get_xdata()) for line in axes.lines if line.get_marker() not in ("None", "", "|", "_", None)]
    assert sorted(filter(None, drawn)) == [2] * 3 + [3] * 3


def test_each_price_is_drawn_once(tmp_path):
    tables = make_spread_tables(tmp_path)
    prices = summarize_prices(tables["runs"], tables["time_to_accuracy"])
    assert len(prices) == 3 * 5 and not prices.duplicated(["series", "num_gpus"]).any()


def test_ideal_scaling_begins_at_the_baseline_alone():
    runs = make_runs((2, 1, [200]), (4, 1, [380]), (2, 2, [150]), (4, 2, [300]))
    tables = {"scaling": compute_scaling(runs, {"weak": [8]}, {}), "runs": runs}
    axes = draw(tables | {"ceilings": pd.DataFrame(columns=BOUNDS)}, "throughput_by_gpus").axes[0]
    dotted = [line.get_ydata().tolist() for line in axes.lines if line.get_linestyle() == ":"]
    assert dotted == [[200.0, 400.0]]


def test_the_figure_names_the_fraction_of_the_rate_after_spreading(tmp_path):
    tables = make_tables(*GRIDS["complete"])
    figure = draw(tables, "placement")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["2 devices x 8 images", "4 devices x 8 images"]
    for axes, rate in zip(figure.axes, (200.0, 400.0), strict=True):
        assert {text.get_text() for text in axes.texts} >= {"a base 0.90", "b base 0.90", "b best 0.90"}
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2"]
        assert (
            axes.get_ylim()[0] == 0
            and "nodes" in axes.get_xlabel()
            and axes.get_ylabel() == "images/s over all devices"
        )
        lines = [line.get_xydata().tolist() for line in axes.lines if len(line.get_xdata()) == 2]
        assert [[1.0, rate], [2.0, 0.9 * rate]] in lines


def test_a_framework_on_one_node_alone_has_a_point_without_a_ratio():
    runs = make_runs(TOGETHER, APART)
    alone = make_runs(TOGETHER, (4, 2, [None], NONE)).assign(framework="keras_mirrored")
    figure = draw({"placement": compare_placements(pd.concat([runs, alone]))}, "placement")
    texts = {text.get_text() for text in figure.axes[0].texts}
    assert {"pytorch_ddp 0.93", "keras_mirrored"} <= texts


def test_series_are_named_by_nodes_where_they_vary():
    assert name_series(make_runs(TOGETHER, APART)).unique().tolist() == ["pytorch_ddp 1 node", "pytorch_ddp 2 nodes"]
    assert name_series(make_runs(ONE, TOGETHER)).unique().tolist() == ["pytorch_ddp"]


def test_the_all_reduce_of_each_number_of_nodes_has_a_panel():
    sizes = {"sizes": [{"size_mib": 16, "median_s": 0.01}], "device": "d"}
    layouts = [(2, 1, ["n1"]), (4, 1, ["n1"]), (2, 2, ["n1", "n2"]), (4, 2, ["n1", "n2"])]
    records = [sizes | {"num_gpus": count, "num_nodes": nodes, "nodes": names} for count, nodes, names in layouts]
    figure = draw({"allreduce": tabulate_allreduces({}, records)}, "allreduce")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["d, 1 node", "d, 2 nodes"]
    figure = draw({"allreduce": tabulate_allreduces({}, [records[0], records[3]])}, "allreduce")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["d"]

"""The table of the input's parts has the rates that the truth of a constructed study has."""

import json

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from helpers.constructed_studies import Grid, Truth, make_tables, store
from howmanygpus.report.figures import input_parts as figure_of_parts
from howmanygpus.report.figures import list_figures
from howmanygpus.report.tables import input_parts, list_tables

WORKER_S = {"arrays": 0.0001, "png": 0.004, "synthetic": 0.0002}
COMPUTE_S = 0.001
TRUTH = Truth(
    compute_s=COMPUTE_S,
    worker_s=lambda run: WORKER_S.get(run.input, 0.0),
    workers=2,
    changes=lambda run: {"host_to_device_gib_per_s": 2.0},
)
GRID = Grid(counts=(1, 4), repeats=2, inputs=("resident", "synthetic", "arrays", "png"), diagnoses=False)


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> pd.DataFrame:
    folder = tmp_path_factory.mktemp("parts")
    tables = make_tables(folder, TRUTH, GRID)
    (folder / "dataset.json").write_text(json.dumps({"image_shape": [264, 264, 3]}))
    plan = store(folder / "again", TRUTH, GRID)
    for each in plan["runs"].values():
        each["spec"] |= {"crop": [224, 224]}
    return input_parts.tabulate(plan, tables["runs"], tables["run_phases"], folder)


def find_rate(table, num_gpus, part, given=None) -> float:
    chosen = (table["num_gpus"] == num_gpus) & (table["part"] == part)
    chosen &= table["input"].isna() if given is None else table["input"] == given
    (row,) = table[chosen].to_dict("records")
    assert row["num_repeats"] == (8 if given is None else 2)
    return row["images_per_s_median"]


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("given", WORKER_S)
def test_the_loader_alone_is_all_workers_over_the_time_of_an_image(table, count, given):
    assert find_rate(table, count, "load", given) == pytest.approx(2 * count / WORKER_S[given], rel=1e-3)


def test_a_copy_is_of_the_pixels_that_the_network_gets(table):
    assert find_rate(table, 4, "copy") == pytest.approx(4 * 2 * 2**30 / (224 * 224 * 3), rel=1e-3)


def test_training_alone_and_the_slowest_part_bound_the_rate_end_to_end(table):
    assert find_rate(table, 4, "train", "resident") == pytest.approx(4 / COMPUTE_S, rel=1e-3)
    assert find_rate(table, 4, "end_to_end", "png") == pytest.approx(find_rate(table, 4, "load", "png"), rel=1e-3)
    assert find_rate(table, 4, "end_to_end", "arrays") == pytest.approx(4 / COMPUTE_S, rel=1e-3)


def test_a_part_that_was_not_measured_has_no_row(tmp_path):
    """CPU devices copy nothing, a framework's own loader tells no rate, and no run has images on the device."""
    truth = Truth(compute_s=COMPUTE_S)
    grid = Grid(counts=(1,), repeats=1, inputs=("arrays", "png"), diagnoses=False)
    tables = make_tables(tmp_path, truth, grid)
    plan = store(tmp_path / "again", truth, grid)
    table = input_parts.tabulate(plan, tables["runs"], tables["run_phases"], tmp_path)
    assert set(table["part"]) == {"end_to_end"} and set(table["input"]) == {"arrays", "png"}


def test_the_figure_goes_from_the_disk_to_the_device_and_then_end_to_end(table):
    figure = figure_of_parts.draw(table)
    plt.close(figure)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        f"pytorch_ddp, {devices} x 32 images" for devices in ("1 device", "4 devices")
    ]
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == [
        *("read and decode PNG", "read arrays", "read random images", "copy to the device"),
        *("train, images on the device", "end to end: png", "end to end: arrays", "end to end: synthetic"),
    ]


def test_only_a_study_with_several_inputs_has_the_parts():
    for inputs, is_there in ((["arrays"], False), (["arrays", "png"], True)):
        study = {
            "inputs": inputs,
            "per_device_batch_size": [8],
            "num_nodes": None,
            "trace": False,
            "predict": None,
            "variants": {},
        }
        study |= {"protocols": {}, "diagnose": False, "num_gpus": [1]}
        assert ("input_parts" in list_tables(study)) == is_there
        assert ("input_parts" in list_figures(study)) == is_there

"""Figures of rate, time and price show predictions as hatched areas without points, and are the same without any."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection

from helpers.figure_tables import GRIDS, make_tables, written
from howmanygpus.report.columns import LINE
from howmanygpus.report.figures import describe_figure, list_figures, load_figure
from howmanygpus.report.style import save_figure
from howmanygpus.report.tables.predictions import COLUMNS

SHOWING = [name for name in list_figures() if describe_figure(name).shows_predicted]
ENDS = {"throughput_by_gpus": "images_per_s", "time_to_accuracy": "time_to_accuracy_s", "price": "cost"}
COUNTS = (8, 16)


def make_predictions(folder, tables, counts=COUNTS, **changes) -> pd.DataFrame:
    """Return a table of predictions for each weak curve of `tables`, with a check of its largest measured count."""
    lines = tables["scaling"].query("scaling_mode == 'weak'").drop_duplicates(LINE)[[*LINE, "curve"]]
    rows = []
    for count in (4, *counts) if counts else ():
        values = {"num_gpus": count, "num_nodes": 1, "global_batch_size": 8 * count, "threshold": 0.9}
        values |= {"images_per_s_low": 60.0 * count, "images_per_s_high": 110.0 * count}
        if count == 4:
            values["measured_images_per_s"] = 400.0
        else:
            values |= {"time_to_accuracy_s_low": 0.3, "time_to_accuracy_s_high": 1.2, "currency": "EUR"}
            values |= {"cost_low": 5.0 + count, "cost_high": 40.0 + count}
        rows += [line | values | changes for line in lines.to_dict("records")]
    return written(folder, "predictions", pd.DataFrame(rows, columns=COLUMNS))


def draw(name, tables, **more):
    return load_figure(name).draw(**{table: tables[table] for table in describe_figure(name).tables}, **more)


def list_hatched(figure) -> list[np.ndarray]:
    """Return the corners of each hatched area."""
    areas = [area for axes in figure.axes for area in (*axes.collections, *axes.patches)]
    hatched = [area for area in areas if area.get_hatch()]
    paths = [(area.get_paths() if hasattr(area, "get_paths") else [area.get_path()], area) for area in hatched]
    places = [(path, area) for own, area in paths for path in own]
    return [
        path.vertices if hasattr(area, "get_paths") else area.get_patch_transform().transform(path.vertices)
        for path, area in places
    ]


def test_rate_time_and_price_show_predictions():
    assert set(ENDS) == set(SHOWING)


@pytest.mark.parametrize("name", ENDS)
def test_hatched_areas_reach_to_the_ends_of_the_brackets(tmp_path, name):
    tables = make_tables(*GRIDS["complete"])
    predictions = make_predictions(tmp_path, tables)
    figure = draw(name, tables, predictions=predictions)
    areas = list_hatched(figure)
    plt.close(figure)
    assert len(areas) >= 3
    predicted = predictions[predictions["num_gpus"] > 4]
    corners = np.concatenate(areas)[:, 0 if name == "price" else 1]
    ends = [predicted[f"{ENDS[name]}_{end}"] for end in ("low", "high")]
    assert {*np.round(np.concatenate(ends), 6)} <= {*np.round(corners, 6)}
    if name != "price":
        assert max(np.concatenate(areas)[:, 0]) == COUNTS[-1]
        lines = [lines for axes in figure.axes for lines in axes.collections if isinstance(lines, LineCollection)]
        drawn = {tuple(np.round(segment[:, 1], 6)) for each in lines for segment in each.get_segments()}
        assert set(zip(*(np.round(each, 6) for each in ends), strict=True)) <= drawn, "each count alone, too"


@pytest.mark.parametrize("name", ENDS)
def test_no_predicted_count_has_a_point_and_the_word_is_in_the_figure(tmp_path, name):
    tables = make_tables(*GRIDS["complete"])
    figure = draw(name, tables, predictions=make_predictions(tmp_path, tables))
    words = " ".join(text.get_text() for axes in figure.axes for text in (*axes.texts, axes.xaxis.label))
    assert "predicted" in words
    marked = [
        line.get_xdata() for axes in figure.axes for line in axes.lines if line.get_marker() not in ("None", "", None)
    ]
    assert name == "price" or max(np.concatenate(marked)) == 4
    plt.close(figure)


@pytest.mark.parametrize("name", ENDS)
def test_a_figure_without_brackets_is_the_same_as_without_the_key(tmp_path, name):
    tables = make_tables(*GRIDS["complete"])
    nothing = dict.fromkeys(f"{each}_{end}" for each in ENDS.values() for end in ("low", "high"))
    kinds = {
        "key": {},
        "rows": {"predictions": make_predictions(tmp_path, tables, counts=())},
        "brackets": {"predictions": make_predictions(tmp_path, tables, **nothing)},
    }
    for kind, more in kinds.items():
        figure = draw(name, tables, **more)
        save_figure(figure, tmp_path / f"{kind}.svg", tmp_path / f"{kind}.png")
        plt.close(figure)
    assert (tmp_path / "key.svg").read_bytes() == (tmp_path / "rows.svg").read_bytes()
    assert (tmp_path / "key.svg").read_bytes() == (tmp_path / "brackets.svg").read_bytes()


def test_a_study_that_missed_its_target_has_no_band_of_times(tmp_path):
    tables = make_tables(*GRIDS["largest never good"])
    lacking = dict.fromkeys(("time_to_accuracy_s_low", "time_to_accuracy_s_high"))
    figure = draw("time_to_accuracy", tables, predictions=make_predictions(tmp_path, tables, **lacking))
    assert list_hatched(figure) == []
    plt.close(figure)

"""Figures draw the right values, also if repeats are equal, or if some of them never reached a threshold."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from helpers.figure_tables import GRIDS, QUALITY, make_tables, written
from howmanygpus.report.figures import describe_figure, list_figures, load_figure
from howmanygpus.report.tables.batch_sizes import compute_batch_sizes
from howmanygpus.report.tables.gradient_noise import COLUMNS as NOISE
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy


def draw(tmp_path, name, tables):
    figure = load_figure(name).draw(**{table: tables[table] for table in describe_figure(name).tables})
    figure.savefig(tmp_path / "figure.svg")
    plt.close(figure)
    return figure


@pytest.mark.parametrize("name", ["throughput_by_gpus", "speedup", "published_throughput"])
def test_ideal_scaling_is_proportional_to_the_devices_at_every_device_count(tmp_path, name):
    """The axis is logarithmic, so that a straight line from 1 to 4 devices would give 2.5 times the rate on 2."""
    figure = draw(tmp_path, name, make_tables(*GRIDS["complete"]))
    dotted = [line for axes in figure.axes for line in axes.lines if line.get_linestyle() == ":"]
    longest = [line for line in dotted if max(line.get_xdata()) == 4]
    assert longest
    for line in longest:
        counts, ideal = line.get_xdata(), line.get_ydata()
        assert counts.tolist() == [1, 2, 4] and ideal.tolist() == [count * ideal[0] for count in counts]


def list_words(figure) -> list[str]:
    words = [text.get_text() for text in figure.findobj(Text)]
    return [" ".join(text.split()) for text in words if text]


NAME_AN_ACCURACY = {
    *(
        "batch_sizes",
        "decision",
        "price",
        "quality_by_epoch",
        "speedup",
        "time_to_accuracy",
        "time_with_start",
        "variants",
    ),
    *("published_epochs", "published_price", "published_quality"),
}


@pytest.mark.parametrize("name", list_figures())
def test_the_quality_of_a_guess_stands_beside_every_measured_accuracy(tmp_path, name):
    """The figure of unfair protocols has differences and ratios only, and `speedup` a threshold without its metric."""
    words = list_words(draw(tmp_path, name, make_tables(*GRIDS["complete"])))
    assert any("majority class: 0.07" in text for text in words) == (name in NAME_AN_ACCURACY)
    has_word = NAME_AN_ACCURACY - {"speedup"} | {"protocols"}
    assert any("accuracy" in text for text in words) == (name in has_word)


def delay_and_fail(times, slow):
    """Add a third repeat. Some frameworks are 50 times slower, and never reach a threshold in the third."""
    clocks = ["time_to_accuracy_s", "time_with_start_s", "epoch", "images_seen"]
    third = times[times["repeat"] == 2].assign(repeat=3)
    times = pd.concat([times, third], ignore_index=True).astype(dict.fromkeys(clocks, float))
    is_slow = times["framework"].isin(slow)
    times.loc[is_slow, clocks] *= 50
    never = is_slow & (times["repeat"] == 3)
    times.loc[never, clocks] = np.nan
    return times.assign(reached=times["reached"] & ~never)


def make_tables_without_thresholds(folder):
    """Make the tables of a study with `thresholds: []`, as the probes of an adaptive study have it."""
    tables = make_tables(*GRIDS["complete"])
    times = compute_time_to_accuracy(tables["runs"], tables["evaluations"], QUALITY | {"thresholds": []})
    tables["time_to_accuracy"] = written(folder, "time_to_accuracy", times)
    noise = pd.DataFrame(columns=list(NOISE))
    batches = compute_batch_sizes(tables["runs"], tables["time_to_accuracy"], noise)
    return tables | {"batch_sizes": written(folder, "batch_sizes", batches)}


@pytest.mark.parametrize("name", list_figures())
def test_every_figure_can_be_drawn_for_a_study_without_thresholds(tmp_path, name):
    figure = draw(tmp_path, name, make_tables_without_thresholds(tmp_path))
    said = [text.get_text() for text in figure.texts]
    assert not any("nan" in axes.get_title(loc="left") for axes in figure.axes)
    assert not any("has completed;" in text for text in said), "all runs have completed"
    if name == "speedup":
        titles = [axes.get_title(loc="left") for axes in figure.axes]
        assert titles == ["weak scaling, 8 images per device\nspeed-up of throughput"]
    if name in ("time_to_accuracy", "time_with_start"):
        assert said == ["The study has no threshold whose time is counted."]


def find_highest_point(axes) -> float:
    """Return the largest median that is drawn with a marker, crosses left out."""
    marked = [line for line in axes.lines if line.get_marker() not in ("None", "x", "_", "|", "s", "D", "")]
    return max(max(line.get_ydata()) for line in marked if len(line.get_ydata()))


@pytest.mark.parametrize("slow", [("a",), ("a", "b")])
@pytest.mark.parametrize("name", ["time_to_accuracy", "time_with_start", "batch_sizes"])
def test_the_median_is_drawn_if_one_repeat_misses_the_threshold(tmp_path, name, slow):
    tables = make_tables(*GRIDS["complete"])
    tables["time_to_accuracy"] = delay_and_fail(tables["time_to_accuracy"], slow)
    noise = pd.DataFrame(columns=list(NOISE))
    tables["batch_sizes"] = compute_batch_sizes(tables["runs"], tables["time_to_accuracy"], noise)
    for axes in draw(tmp_path, name, tables).axes:
        assert find_highest_point(axes) <= axes.get_ylim()[1]


def test_repeats_of_equal_quality_have_a_mean_without_bars(tmp_path):
    """The mean of three times 0.1 is larger than 0.1 in floating point."""
    tables = make_tables(*GRIDS["never good"])
    evaluations = tables["evaluations"]
    third = evaluations[evaluations["repeat"] == 2].assign(repeat=3)
    tables["evaluations"] = pd.concat([evaluations, third], ignore_index=True)
    assert set(tables["evaluations"]["quality"]) == {0.1}
    for axes in draw(tmp_path, "quality_by_epoch", tables).axes:
        assert find_highest_point(axes) == pytest.approx(0.1)


def test_prices_of_each_device_have_a_panel_with_its_own_hardware(tmp_path):
    tables = make_tables(*GRIDS["complete"])
    other = {"device": "a100", "device_model": "NVIDIA A100"}
    for name in ("runs", "time_to_accuracy"):
        changes = {key: value for key, value in other.items() if key in tables[name]}
        tables[name] = pd.concat([tables[name], tables[name].assign(**changes)], ignore_index=True)
    titles = [axes.get_title(loc="left").partition("\n")[0] for axes in draw(tmp_path, "published_price", tables).axes]
    assert titles[1:] == ["measured 2026: EPYC", "measured 2026: NVIDIA A100"]


def test_prices_of_whole_trainings_of_different_length_say_so(tmp_path):
    tables = make_tables(*GRIDS["complete"])
    for per_device, said in ((0, False), (1000, True)):
        images = 1000 + per_device * (tables["runs"]["num_gpus"] - 1)
        (axes,) = draw(tmp_path, "price", tables | {"runs": tables["runs"].assign(images_seen=images)}).axes
        assert ("1,000 to 4,000 images" in axes.get_title(loc="left")) == said


def test_thresholds_reached_by_the_same_evaluation_share_a_panel_and_unreached_ones_have_none(tmp_path):
    tables = make_tables(*GRIDS["complete"])
    quality = QUALITY | {"thresholds": [0.5, 0.9, 0.999]}
    tables["time_to_accuracy"] = compute_time_to_accuracy(tables["runs"], tables["evaluations"], quality)
    figure = draw(tmp_path, "time_to_accuracy", tables)
    titles = [axes.get_title(loc="left").partition("\n")[0] for axes in figure.axes]
    assert set(titles) == {"test accuracy 0.5 and 0.9 (majority class: 0.07)"}
    assert "accuracy 0.999: reached by no configuration" in figure.axes[0].get_xlabel()


@pytest.mark.parametrize("name", ["time_to_accuracy", "speedup"])
def test_each_threshold_that_was_reached_has_a_panel(tmp_path, name):
    """Twice the time to the harder one on one device alone: the thresholds do not say the same."""
    tables = make_tables(*GRIDS["complete"])
    times = tables["time_to_accuracy"]
    is_later = (times["threshold"] == 0.9) & (times["num_gpus"] == 1)
    times.loc[is_later, "time_to_accuracy_s"] *= 2
    titles = [axes.get_title(loc="left") for axes in draw(tmp_path, name, tables).axes]
    for threshold in ("0.5", "0.9"):
        assert any(f"{threshold} (majority class" in title for title in titles), threshold
    assert not any(" and " in title for title in titles)


@pytest.mark.parametrize("judgements", [["too few repeats", "too few repeats"], ["too few repeats", "no"]])
def test_what_all_variants_have_in_common_is_said_once(tmp_path, judgements):
    tables = make_tables(*GRIDS["complete"])
    rows = tables["variants"].iloc[: len(judgements)].assign(same_quality=judgements)
    figure = draw(tmp_path, "variants", tables | {"variants": rows})
    words = [text.get_text() for axes in figure.axes for text in axes.texts]
    is_common = len(set(judgements)) == 1
    assert words.count("too few repeats") == (0 if is_common else 1)
    assert any("all: too few repeats" in axes.get_xlabel() for axes in figure.axes) == is_common

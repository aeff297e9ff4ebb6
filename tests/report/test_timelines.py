"""Timelines show what the samples say: who loads, waits, gathers on the first device, is lost, evaluates, and when."""

import csv
import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from helpers.records import make_run
from helpers.specs import make_spec
from helpers.stored_runs import plan_of
from howmanygpus.measure.host.samples import COLUMNS
from howmanygpus.report.figures import timelines as figure_of
from howmanygpus.report.files import read_table, write_table
from howmanygpus.report.style import FRAMEWORKS, GREY, darken
from howmanygpus.report.tables.helpers.summaries import NUM_BINS
from howmanygpus.report.tables.runs import COLUMNS as RUNS
from howmanygpus.report.tables.timelines import tabulate
from howmanygpus.report.timelines import unpack

HZ = 10
OLD_COLUMNS = COLUMNS[:7]


def sample(device, start_s, end_s, node=0, hz=HZ, **values):
    """Return the samples of a device in (start_s, end_s]. A value that is a function gets the time."""
    times = np.arange(round(start_s * hz) + 1, round(end_s * hz) + 1) / hz
    return [
        {"time_s": t, "node": node, "device": device}
        | {key: value(t) if callable(value) else value for key, value in values.items()}
        for t in times
    ]


def window(start_s, end_s, phase="train"):
    return {"event": "window", "num_steps": 1, "phase": phase, "wall_s": end_s, "elapsed_s": end_s - start_s}


def evaluation(start_s, end_s):
    return {"event": "evaluation", "wall_s": end_s, "elapsed_s": end_s - start_s}


def checkpoint(start_s, end_s):
    return {"event": "checkpoint", "wall_s": end_s, "elapsed_s": end_s - start_s}


def store(results, samples, events, name="run0", columns=COLUMNS, **changes):
    """Store the run `name` of 100 seconds with these samples and events."""
    folder = results / "results" / "runs" / name
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(make_run(make_spec(), **{"wall_time_s": 100.0} | changes)))
    (folder / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
    with open(folder / "telemetry.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(samples)


def read_rows(results, num_runs=1):
    """Make the table, write and read it, and return the series of each row by run, node and device."""
    table = tabulate(plan_of(*[make_spec(repeat=i + 1) for i in range(num_runs)]), results)
    write_table(results / "timelines.tsv", table)
    rows = read_table(results / "timelines.tsv")
    return {
        (row["run_dir"].removeprefix("results/runs/"), row["node"], row["device"]): {
            key: unpack(value) for key, value in row.items() if isinstance(value, str) and "," in value
        }
        for _, row in rows.iterrows()
    }


def find_bins(start_s, end_s, duration_s=100.0):
    """Return the bins that lie between two times."""
    return slice(round(start_s / duration_s * NUM_BINS), round(end_s / duration_s * NUM_BINS))


def test_a_device_that_idles_while_it_loads_is_idle_in_those_bins_alone(tmp_path):
    store(tmp_path, sample("cpu0", 0, 100, utilisation_frac=lambda t: float(20 < t <= 60 or t > 80)), [window(20, 100)])
    busy = read_rows(tmp_path)["run0", 0, "cpu0"]["utilisation_frac"]
    assert len(busy) == NUM_BINS
    assert not busy[find_bins(0, 20)].any() and not busy[find_bins(60, 80)].any()
    assert (busy[find_bins(20, 60)] == 1).all() and (busy[find_bins(80, 100)] == 1).all()


def test_the_mean_of_a_bin_is_weighted_by_time_whatever_the_rate_of_sampling(tmp_path):
    """Busy for 0.1 of each 0.4 s. Bins are of 0.5 s."""
    store(tmp_path, sample("cpu0", 0, 100, utilisation_frac=lambda t: float(round(t * HZ) % 4 == 0)), [])
    slow = sample("cpu0", 0, 100, hz=1, utilisation_frac=lambda t: t % 2)
    store(tmp_path, slow, [], "run1", OLD_COLUMNS)
    rows = read_rows(tmp_path, 2)
    assert rows["run0", 0, "cpu0"]["utilisation_frac"].mean() == pytest.approx(0.25, abs=0.01)
    assert list(rows["run1", 0, "cpu0"]["utilisation_frac"][:6]) == [1, 1, 0, 0, 1, 1]


def test_a_first_device_that_gathers_for_one_sample_has_its_peak_in_the_line(tmp_path):
    samples = sample("GPU-a", 0, 100, memory_gib=lambda t: 9.0 if t == 50.3 else 3.0)
    store(tmp_path, samples + sample("GPU-b", 0, 100, memory_gib=3.0), [])
    rows = read_rows(tmp_path)
    first, second = (rows["run0", 0, name]["memory_gib"] for name in ("GPU-a", "GPU-b"))
    assert list(np.flatnonzero(first != second)) == [100] and first[100] == 9


def test_a_device_that_is_lost_in_mid_run_has_no_values_afterwards(tmp_path):
    lost = sample("GPU-b", 0, 40, utilisation_frac=0.9) + sample("GPU-b", 40, 100)
    store(tmp_path, sample("GPU-a", 0, 100, utilisation_frac=0.9) + lost, [])
    rows = read_rows(tmp_path)
    assert np.isfinite(rows["run0", 0, "GPU-a"]["utilisation_frac"]).all()
    values = rows["run0", 0, "GPU-b"]["utilisation_frac"]
    assert np.isfinite(values[find_bins(0, 40)]).all() and np.isnan(values[find_bins(40, 100)]).all()


def test_a_sampler_that_was_silent_leaves_a_gap_and_a_slow_field_does_not(tmp_path):
    samples = sample("host", 0, 30, utilisation_frac=0.5) + sample("host", 70, 100, utilisation_frac=0.5)
    for position, row in enumerate(samples):
        row["disk_read_gib_per_s"] = 0.25 if position % 20 == 0 else ""
    store(tmp_path, samples, [])
    host = read_rows(tmp_path)["run0", 0, "host"]
    assert np.isnan(host["utilisation_frac"][find_bins(30.5, 69.5)]).all()
    assert np.isfinite(host["utilisation_frac"][find_bins(0, 30)]).all()
    assert (host["disk_read_gib_per_s"][find_bins(0, 28)] == 0.25).all()


def test_phases_are_shares_of_each_bin(tmp_path):
    events = [window(10, 20, "compile"), window(20, 25, "warmup"), window(25, 60), evaluation(60, 70)]
    events += [window(70, 70.25), evaluation(70.25, 70.5), {"event": "gradient_noise", "wall_s": 75.0}]
    store(tmp_path, sample("cpu0", 0, 100, utilisation_frac=1.0), events)
    phases = read_rows(tmp_path)["run0", 0, "phases"]
    first, training, evaluating = (phases[f"{name}_frac"] for name in ("first_step", "training", "evaluation"))
    assert (first[find_bins(10, 20)] == 1).all() and first.sum() == 20
    assert (training[find_bins(20, 60)] == 1).all() and (evaluating[find_bins(60, 70)] == 1).all()
    assert training[140] == evaluating[140] == 0.5
    assert not (first + training + evaluating)[[*range(20), *range(141, 200)]].any()


def test_a_checkpoint_is_a_phase_of_its_own_and_pauses_the_phase_in_which_it_was_written(tmp_path):
    """The seconds of an event are without the checkpoints in it, here from 40 to 50 and from 70 to 80."""
    paused = [checkpoint(40, 50), window(20, 90) | {"elapsed_s": 50.0}]
    events = [checkpoint(2, 4), window(10, 20, "compile"), paused[0], checkpoint(70, 80), paused[1]]
    events += [checkpoint(90, 95), window(95, 100)]
    store(tmp_path, [], events)
    phases = read_rows(tmp_path)["run0", 0, "phases"]
    saving, training, first = (phases[f"{name}_frac"] for name in ("checkpoint", "training", "first_step"))
    spans = [(2, 4), (40, 50), (70, 80), (90, 95)]
    assert all((saving[find_bins(*span)] == 1).all() for span in spans) and saving.sum() == 2 * 27
    assert all((training[find_bins(*span)] == 1).all() for span in [(20, 40), (50, 70), (80, 90), (95, 100)])
    assert training.sum() == 2 * 55 and first.sum() == 2 * 10


def test_each_node_has_its_own_devices_and_host_and_hosts_stand_last(tmp_path):
    nodes = [
        row
        for node in (1, 0)
        for device, busy in (("host", 0.25), ("GPU-a", 0.5 + node / 4), ("GPU-b", 0.5 + node / 4))
        for row in sample(device, 0, 100, node, utilisation_frac=busy)
    ]
    store(tmp_path, nodes, [])
    rows = read_rows(tmp_path)
    assert [key[1:] for key in rows] == [
        (0, "phases"),
        *((node, device) for node in (0, 1) for device in ("GPU-a", "GPU-b")),
        *((node, "host") for node in (0, 1)),
    ]
    assert {rows["run0", node, "GPU-a"]["utilisation_frac"][9] for node in (0, 1)} == {0.5, 0.75}


def test_a_row_of_a_long_run_is_as_short_as_that_of_a_short_one(tmp_path):
    busy = lambda t: round(0.5 + 0.5 * np.sin(t), 4)  # noqa: E731
    store(tmp_path, sample("cpu0", 0, 100, utilisation_frac=busy, memory_gib=1.2345), [window(0, 100)])
    store(
        tmp_path,
        sample("cpu0", 0, 5000, utilisation_frac=busy, memory_gib=1.2345),
        [window(t, t + 1) for t in range(5000)],
        "run1",
        wall_time_s=5000.0,
    )
    table = tabulate(plan_of(make_spec(), make_spec(repeat=2)), tmp_path)
    write_table(tmp_path / "timelines.tsv", table)
    lines = (tmp_path / "timelines.tsv").read_text().splitlines()
    assert len(lines) == 5 and max(map(len, lines)) < 2500


def test_a_run_without_samples_has_its_phases_and_one_without_anything_no_row(tmp_path):
    store(tmp_path, [], [window(50, 100)])
    store(tmp_path, [], [], "run1", wall_time_s=0.0)
    assert list(read_rows(tmp_path, 2)) == [("run0", 0, "phases")]


def make_study(frameworks, num_gpus=(1, 2), repeats=2, variants=("base",), status=lambda run: "completed"):
    """Return the table `runs` of a study, with the columns that name a series."""
    constant = {"input": "arrays", "precision": "fp32", "device": "cpu", "placement": "fewest nodes"}
    rows = [
        constant | {"framework": framework, "variant": variant, "num_gpus": count, "repeat": repeat}
        for framework in frameworks
        for variant in variants
        for count in num_gpus
        for repeat in range(1, repeats + 1)
    ]
    table = pd.DataFrame(rows, columns=list(RUNS)).astype({"num_gpus": int, "repeat": int})
    names = table[["framework", "variant", "num_gpus", "repeat"]].astype(str).agg("_".join, axis=1)
    table = table.assign(run_dir="results/runs/" + names)
    return table.assign(status=[status(run) for run in names])


def test_the_first_completed_repeat_on_the_most_devices_of_each_series_is_drawn():
    statuses = {"b_base_2_1": "crashed", "c_base_2_1": "out_of_memory", "c_base_2_2": "out_of_memory"}
    runs = make_study("abc", status=lambda run: statuses.get(run, "completed"))
    chosen = figure_of.choose_runs(runs)
    assert list(chosen["run_dir"].str.removeprefix("results/runs/")) == ["a_base_2_1", "b_base_2_2", "c_base_1_1"]
    assert list(chosen["series"]) == ["a", "b", "c"]


def test_variants_are_drawn_if_they_fit_on_a_page_and_else_the_first_of_each_framework():
    assert len(figure_of.choose_runs(make_study("abc", variants=("base", "best")))) == 6
    many = figure_of.choose_runs(make_study("abcdefg", variants=("base", "best")))
    assert list(many["series"]) == [f"{name} base" for name in "abcdefg"]


def draw(tmp_path, rows_of, runs):
    """Draw runs whose timelines `rows_of` returns by their framework, and return the figure and its panels by title.

    The panels of a run stand one above the other; the first one has the title.
    """
    rows = [{"run_dir": run["run_dir"]} | row for _, run in runs.iterrows() for row in rows_of(run["framework"])]
    write_table(tmp_path / "timelines.tsv", pd.DataFrame(rows))
    figure = figure_of.draw(runs, read_table(tmp_path / "timelines.tsv"))
    figure.savefig(tmp_path / "figure.png")
    plt.close(figure)
    columns, panels = [], {}
    for axes in figure.axes:
        if axes.get_title(loc="left"):
            columns.append(axes.get_title(loc="left"))
        panels.setdefault(columns[-1], []).append(axes)
    return figure, panels


def describe(devices, bin_s=25.0, hosts=0, evaluating="0,0,0,0", saving="0,0,0,0"):
    """Return rows of the table with four bins: memory and utilisation of each device are lists as in the table."""
    phases = {"first_step_frac": "1,0,0,0", "training_frac": "0,1,0.5,0", "evaluation_frac": evaluating}
    phases |= {"checkpoint_frac": saving}
    rows = [{"node": 0, "device": "phases"} | phases]
    rows += [
        {"node": node, "device": name, "utilisation_frac": busy, "memory_gib": memory}
        for node, name, busy, memory in devices
    ]
    host = {"device": "host", "utilisation_frac": "0.5,1,,1"}
    host |= {"disk_read_gib_per_s": "1,0,0,0", "disk_write_gib_per_s": "0,0,0,0.5"}
    rows += [{"node": node} | host for node in range(hosts)]
    columns = ("utilisation_frac", "memory_gib", *host, *phases)
    return [dict.fromkeys(columns) | {"bin_s": bin_s} | row for row in rows]


def find_line(axes, colour):
    (line,) = [line for line in axes.lines if line.get_color() == colour]
    return line.get_xdata(), line.get_ydata()


def test_the_figure_shows_the_gathering_device_in_the_colour_of_its_framework(tmp_path):
    devices = [(0, "GPU-a", "0,1,1,0.5", "1,6,6,6"), (0, "GPU-b", "0,0.5,0.5,0.5", "1,2,2,2")]
    _, panels = draw(tmp_path, lambda framework: describe(devices), make_study(["pytorch_dp"], repeats=1))
    phases, utilisation, memory = panels["pytorch_dp, 2 devices"]
    first = FRAMEWORKS["pytorch_dp"][0]
    assert [list(values) for values in find_line(utilisation, first)] == [[12.5, 37.5, 62.5, 87.5], [0, 100, 100, 50]]
    assert list(find_line(memory, first)[1]) == [1, 6, 6, 6]
    assert list(find_line(memory, GREY)[1]) == [1, 2, 2, 2]
    for axes in (utilisation, memory):
        assert {text.get_text(): text.get_color() for text in axes.texts} == {"0": darken(first), "1": darken(GREY)}
    assert [panel.get_ylabel() for panel in (utilisation, memory)] == ["utilisation\n(%)", "memory\n(GiB)"]
    assert phases.get_yticklabels()[0].get_text() == "phases"


def test_all_runs_have_one_time_axis_and_one_scale(tmp_path):
    durations, memory = {"a": 5.0, "b": 20.0, "c": 10.0}, {"a": 1, "b": 8, "c": 2}
    figure, panels = draw(
        tmp_path,
        lambda name: describe([(0, "cpu0", "1,1,1,1", ",".join(4 * [str(memory[name])]))], durations[name]),
        make_study("abc", repeats=1),
    )
    assert list(panels) == ["a, 2 devices", "b, 2 devices", "c, 2 devices"]
    assert {axes.get_xlim() for axes in figure.axes} == {(0, 80)}
    assert len({panel[2].get_ylim() for panel in panels.values()}) == 1
    assert panels["a, 2 devices"][2].get_ylim()[1] > 8
    named = [axes for axes in figure.axes if axes.get_xlabel()]
    assert named == [panel[-1] for panel in panels.values()]
    assert {axes.get_xlabel() for axes in named} == {"seconds since the start of the run"}


def test_a_lost_device_ends_in_mid_run_and_a_gap_is_a_gap(tmp_path):
    devices = [(0, "GPU-a", "1,,1,1", "1,1,1,1"), (0, "GPU-b", "1,1,,", "1,1,,")]
    _, panels = draw(tmp_path, lambda framework: describe(devices), make_study(["jax_sharding"], repeats=1))
    utilisation = panels["jax_sharding, 2 devices"][1]
    assert np.isnan(find_line(utilisation, FRAMEWORKS["jax_sharding"][0])[1]).tolist() == [False, True, False, False]
    assert np.isnan(find_line(utilisation, GREY)[1]).tolist() == [False, False, True, True]
    (name,) = [text for text in utilisation.texts if text.get_text() == "1"]
    assert tuple(name.xy) == (50, 100)


def test_a_disturbed_run_is_named_so(tmp_path):
    runs = make_study("ab", repeats=1)
    runs["disturbed"] = runs["framework"] == "b"
    _, panels = draw(tmp_path, lambda framework: describe([(0, "cpu0", "1,1,1,1", "1,1,1,1")]), runs)
    assert list(panels) == ["a, 2 devices", "b, 2 devices, disturbed"]


def test_phases_fill_the_strip_and_evaluations_are_shaded_below(tmp_path):
    rows = describe([(0, "cpu0", "1,1,1,1", "1,1,1,1")], evaluating="0,0,0.25,1")
    _, panels = draw(tmp_path, lambda framework: rows, make_study("a", repeats=1))
    strip, utilisation, _ = panels["a, 2 devices"]
    assert [list_rectangles(collection) for collection in strip.collections] == [
        [(0, 25, 0, 1)],
        [(25, 50, 0, 1), (50, 75, 0, 0.5)],
        [(50, 75, 0.5, 0.75), (75, 100, 0, 1)],
    ]
    (shade,) = [rectangle for collection in utilisation.collections for rectangle in list_rectangles(collection)]
    assert shade[:2] == (75, 100)


def test_checkpoints_have_a_colour_and_a_name_if_there_are_any(tmp_path):
    rows = describe([(0, "cpu0", "1,1,1,1", "1,1,1,1")], evaluating="0,0,0.5,0", saving="0,0,0,1")
    figure, panels = draw(tmp_path, lambda framework: rows, make_study("a", repeats=1))
    strip, utilisation, _ = panels["a, 2 devices"]
    assert list_rectangles(strip.collections[-1]) == [(75, 100, 0, 1)]
    assert [rectangle[:2] for each in utilisation.collections for rectangle in list_rectangles(each)] == [(75, 100)]
    assert "checkpoints" in {text.get_text() for text in figure.legends[0].get_texts()}
    none, _ = draw(tmp_path, lambda framework: describe([]), make_study("a", repeats=1))
    assert "checkpoints" not in {text.get_text() for text in none.legends[0].get_texts()}


def list_rectangles(collection):
    """Return left, right, bottom and top of each rectangle."""
    (path,) = collection.get_paths()
    corners = path.vertices.reshape(-1, 5, 2)
    return [(*map(float, each[[0, 2], 0]), *map(float, each[[0, 1], 1])) for each in corners]


def test_devices_of_two_nodes_are_numbered_on_and_each_host_is_named(tmp_path):
    devices = [(node, f"GPU-{node}{i}", "1,1,1,1", "1,1,1,1") for node in (0, 1) for i in (0, 1)]
    _, panels = draw(tmp_path, lambda framework: describe(devices, hosts=2), make_study("a", repeats=1))
    _, utilisation, _, cores, disk = panels["a, 2 devices"]
    assert [text.get_text() for text in utilisation.texts] == ["0", "1\N{EN DASH}3"]
    assert [text.get_text() for text in cores.texts] == ["node 0", "node 1"]
    assert len(cores.lines) == 2 and len(disk.lines) == 4
    read, written = (line.get_ydata() for line in disk.lines if line.get_color() == "#000000")
    assert sorted((list(read), list(written))) == [[0, 0, 0, 512], [1024, 0, 0, 0]]


def test_samples_of_all_cpu_devices_together_are_named_so_and_have_no_host(tmp_path):
    _, panels = draw(
        tmp_path, lambda framework: describe([(0, "cpu", "1,1,7,1", "1,1,1,1")]), make_study("a", repeats=1)
    )
    _, utilisation, memory = panels["a, 2 devices"]
    assert [text.get_text() for text in utilisation.texts] == [text.get_text() for text in memory.texts] == ["all"]
    assert utilisation.get_ylim()[1] == pytest.approx(108)


def test_a_run_without_samples_beside_others_says_so(tmp_path):
    rows = {"a": describe([(0, "cpu0", "1,1,1,1", "1,1,1,1")], hosts=1), "b": describe([])}
    _, panels = draw(tmp_path, rows.get, make_study("ab", repeats=1))
    assert [[text.get_text() for text in axes.texts] for axes in panels["b, 2 devices"][1:]] == [["no samples"]] * 4


def test_a_run_alone_names_each_of_its_devices(tmp_path):
    devices = [(0, f"GPU-{i}", "1,1,1,1", "1,1,1,1") for i in range(4)]
    rows = pd.DataFrame(describe(devices, hosts=1))
    figure = figure_of.draw_run(figure_of.read_timeline(rows, "a run", "jax_sharding"))
    figure.savefig(tmp_path / "figure.png")
    plt.close(figure)
    utilisation = figure.axes[1]
    names = {text.get_text(): text.get_color() for text in utilisation.texts}
    assert list(names) == ["GPU-0", "GPU-1", "GPU-2", "GPU-3"] and len(set(names.values())) == 4

"""The phases of a run add up to its wall time, and bounds of throughput are where the truth is."""

import numpy as np
import pandas as pd
import pytest

from helpers.constructed_studies import Grid, Truth, find_row, make_tables
from howmanygpus.report.tables.run_phases import PHASES as RUN_PHASES
from howmanygpus.report.tables.time_split import PHASES


def list_phases(row):
    return {phase: row[f"{phase}_device_s_per_image"] for phase in PHASES}


def reduce_in(seconds):
    """All-reduce measurements of the gradients. seconds: by device count."""
    return tuple(
        {
            "device": "cpu",
            "num_gpus": count,
            "num_nodes": 1,
            "weights": "w",
            "sizes": [{"size_mib": 4.0, "median_s": s}],
        }
        for count, s in seconds.items()
    )


def test_phases_add_up_to_the_wall_time_of_every_run_and_configuration(tmp_path):
    truth = Truth(
        noise=0.05,
        worker_s=lambda run: 0.0012,
        exchange_s=lambda run: 0.016,
        slow={1: 1.2},
        evaluation_s=lambda run: 2.0,
    )
    tables = make_tables(tmp_path, truth, Grid(counts=(1, 2, 8), repeats=3))
    runs = tables["run_phases"]
    assert runs[[f"{phase}_s" for phase in RUN_PHASES]].sum(axis=1).to_numpy() == pytest.approx(
        runs["wall_time_s"].to_numpy(), rel=0.01
    )
    wall = (runs["wall_time_s"] * runs["num_gpus"] / runs["images_seen"])[runs["control"].isna()]
    for _, row in tables["time_split"].iterrows():
        total = row["device_s_per_image"]
        assert np.nansum(list(list_phases(row).values())) == pytest.approx(total, rel=0.01)
        assert total == pytest.approx(wall[runs["num_gpus"] == row["num_gpus"]].mean(), rel=1e-4)
        assert row["other_device_s_per_image"] < 0.01 * total


def test_exchange_and_imbalance_are_taken_out_of_the_steps_where_controls_tell(tmp_path):
    truth = Truth(exchange_s=lambda run: 0.016, slow={1: 1.4})
    tables = make_tables(tmp_path, truth, Grid(counts=(1, 2, 8), repeats=2))
    one, two, eight = (find_row(tables, count, "time_split") for count in (1, 2, 8))
    part = 40 / 43
    # Seven processes wait for the slow one.
    assert eight["exchange_device_s_per_image"] == pytest.approx(part * 0.016 / 32, rel=1e-3)
    assert eight["imbalance_device_s_per_image"] == pytest.approx(part * (0.0014 - (7 * 0.001 + 0.0014) / 8), rel=1e-3)
    assert eight["steps_device_s_per_image"] == pytest.approx(part * (7 * 0.001 + 0.0014) / 8, rel=1e-3)
    assert pd.isna(eight["steps_include"])
    assert two["steps_include"] == "exchange, imbalance" and np.isnan(two["exchange_device_s_per_image"])
    assert two["steps_device_s_per_image"] == pytest.approx(part * (0.0014 + 0.016 / 32), rel=1e-3)
    assert one["exchange_device_s_per_image"] == 0 and pd.isna(one["steps_include"])


def test_a_program_without_phases_has_its_time_in_other(tmp_path):
    unknown = {"init_s": None, "compile_s": None}
    truth = Truth(changes=lambda run: unknown, startup_s=3.0)
    row = find_row(make_tables(tmp_path, truth, Grid(inputs=("program",), diagnoses=False, repeats=2)), 8, "time_split")
    assert np.isnan(row["startup_device_s_per_image"]) and np.isnan(row["input_wait_device_s_per_image"])
    assert row["other_device_s_per_image"] == pytest.approx(3.51 * 8 / (43 * 256), rel=1e-3)


def test_the_loader_bounds_where_its_workers_have_no_reserve(tmp_path):
    """Each further device makes each worker slower, as a shared disk does. 0.0006 + 0.0001 n reaches 0.001 at n = 4."""
    truth = Truth(noise=0.01, worker_s=lambda run: 0.0006 + 0.0001 * run.num_gpus)
    tables = make_tables(tmp_path, truth, Grid(counts=(1, 2, 4, 8), diagnoses=False, repeats=3))
    rows = [find_row(tables, count, "ceilings") for count in (1, 2, 4, 8)]
    assert [row["lowest_bound"] for row in rows] == ["linear", "linear", "input", "input"]
    assert rows[-1]["input_images_per_s"] == pytest.approx(8 / 0.0014, rel=0.01)
    assert abs(rows[-1]["error_frac"]) < 0.05
    assert rows[0]["input_bounds_from"] == 4, "at a reserve of less than a tenth"
    assert "an all-reduce of the gradients" in rows[-1]["not_known"]


def test_a_loader_that_is_fast_enough_never_bounds(tmp_path):
    tables = make_tables(tmp_path, Truth(worker_s=lambda run: 0.0002), Grid(counts=(1, 2, 8), repeats=1))
    assert set(tables["ceilings"]["lowest_bound"]) == {"linear"}
    assert tables["ceilings"]["input_bounds_from"].isna().all()


def test_an_input_bound_baseline_bounds_all_counts(tmp_path):
    tables = make_tables(tmp_path, Truth(noise=0.01, worker_s=lambda run: 0.003), Grid(counts=(1, 2, 8), repeats=3))
    rows = tables["ceilings"]
    assert set(rows["lowest_bound"]) == {"input"} and set(rows["input_bounds_from"]) == {1}
    assert rows["error_frac"].abs().max() < 0.05


def test_exchange_bounds_by_the_all_reduce_of_the_gradients(tmp_path):
    seconds = {count: 0.004 * count for count in (2, 4, 8)}
    truth = Truth(noise=0.01, exchange_s=lambda run: seconds[run.num_gpus])
    grid = Grid(counts=(1, 2, 4, 8), repeats=3)
    tables = make_tables(tmp_path, truth, grid, reduce_in(seconds))
    rows = [find_row(tables, count, "ceilings") for count in (2, 4, 8)]
    assert [row["lowest_bound"] for row in rows] == ["exchange"] * 3
    assert rows[-1]["exchange_images_per_s"] == pytest.approx(256 / (0.032 + 0.032), rel=0.02)
    assert all(abs(row["error_frac"]) < 0.05 for row in rows)
    assert rows[0]["exchange_bounds_from"] == 2 and rows[0]["gradients_mib"] == 4


def test_exchange_bounds_a_larger_count_by_extrapolation(tmp_path):
    """0.003 s of a ring on two devices are 0.006 (n - 1) / n. A tenth of 0.032 s is reached at n = 3."""
    tables = make_tables(tmp_path, Truth(), Grid(counts=(1, 2), repeats=1), reduce_in({2: 0.003}))
    assert find_row(tables, 2, "ceilings")["exchange_bounds_from"] == 3


def test_exchange_overlaps_with_the_backward_pass_of_a_gpu(tmp_path):
    """Two thirds of 0.032 s hide an all-reduce of 0.02 s, but not one of 0.04 s."""
    grid = Grid(counts=(1, 2, 8), repeats=1, kind="cuda")
    rows = make_tables(tmp_path, Truth(), grid, reduce_in({2: 0.02, 8: 0.04}))["ceilings"].set_index("num_gpus")
    assert rows.loc[2, "exchange_images_per_s"] == pytest.approx(rows.loc[2, "linear_images_per_s"])
    assert rows.loc[8, "exchange_images_per_s"] == pytest.approx(256 / (0.032 / 3 + 0.04), rel=1e-3)


def test_a_bound_that_is_not_known_says_which_measurement_is_missing(tmp_path):
    grid = Grid(counts=(1, 8), repeats=1, diagnoses=False)
    row = find_row(make_tables(tmp_path, Truth(), grid), 8, "ceilings")
    assert np.isnan(row["input_images_per_s"]) and np.isnan(row["exchange_images_per_s"])
    assert "only the shared loader records" in row["not_known"] and "all-reduce" in row["not_known"]
    assert row["lowest_bound"] == "linear" and row["error_frac"] == pytest.approx(0, abs=1e-6)


def test_a_curve_without_a_baseline_has_no_bounds(tmp_path):
    truth = Truth(status=lambda run: "out_of_memory" if run.num_gpus == 1 else "completed")
    assert make_tables(tmp_path, truth, Grid(repeats=1))["ceilings"].empty

"""Sentences and shares say what bends a curve, on records whose truth is known."""

import numpy as np
import pandas as pd
import pytest

from helpers.constructed_studies import NO_EXCHANGE, RESIDENT_INPUT, Grid, Truth, find_row, make_tables, store
from helpers.messages import says
from howmanygpus.measure.host.samples import COLUMNS as SAMPLES
from howmanygpus.report.answer.details import explain_wall_time, list_causes
from howmanygpus.report.shares import BASE, END, LOSS, UNEXPLAINED, compute_shares
from howmanygpus.report.tables import explanations
from howmanygpus.report.tables.explanations import can_diagnose

USUAL = Grid()
SHARE = 0.02
"""Tolerance of shares. Five repeats that differ by 1 % give them to about 1 %."""


def explain(tmp_path, truth, grid=USUAL, num_gpus=8, **same):
    return find_row(make_tables(tmp_path, truth, grid), num_gpus, **same)


def lost(row):
    return {name: row[f"{name}_frac"] for name in ("loss", "input", "exchange", "imbalance", "unexplained")}


def test_a_linear_curve_loses_nothing(tmp_path):
    row = explain(tmp_path, Truth(noise=0.01))
    assert row["sentence"].startswith("pytorch_ddp loses nothing measurable at 8 devices (")
    assert pd.isna(row["causes"]) and pd.isna(row["remedy"])
    assert lost(row) == pytest.approx(dict.fromkeys(lost(row), 0.0), abs=SHARE)


def test_input_is_named_with_the_loaders_rate_and_the_workers_that_would_do(tmp_path):
    truth = Truth(noise=0.01, worker_s=lambda run: 0.0008 if run.num_gpus == 1 else 0.0016)
    row = explain(tmp_path, truth)
    assert row["causes"] == "input" and row["input_from"] == "control runs"
    assert row["loss_frac"] == pytest.approx(1 - 1 / 1.6, abs=SHARE)
    assert row["input_frac"] == pytest.approx(0.6 / 1.6, abs=SHARE) and abs(row["unexplained_frac"]) < SHARE
    assert row["loader_images_per_s_per_worker"] == pytest.approx(1 / 0.0016)
    assert row["wanted_images_per_s_per_device"] == pytest.approx(1000, rel=SHARE)
    assert (
        "% input (the loader gives 625 images/s per worker and has 1 worker per device, a device wants"
        in row["sentence"]
    )
    assert row["remedy"] == "loader_workers: 2 instead of 1, for which each device has 4 cores"


def test_a_loader_that_is_fast_enough_is_not_blamed_for_a_wait(tmp_path):
    """Other work on the cores of a run makes its devices wait for batches too."""
    truth = Truth(
        noise=0.01,
        worker_s=lambda run: 0.0008 if run.num_gpus == 1 else 0.0016,
        changes=lambda run: {"loader_s_per_image": 0.0002},
    )
    row = explain(tmp_path, truth)
    assert row["causes"] == "input" and row["loader_images_per_s_per_worker"] == pytest.approx(5000)
    assert (
        "% input (although the loader gives 5,000 images/s per worker and has 1 worker per device, and a device wants"
        in row["sentence"]
    )
    assert "not for lack of workers)" in row["sentence"]
    assert pd.isna(row["remedy"])


@pytest.mark.parametrize(("worker_s", "workers"), [(0.00102, 1), (0.00195, 2)])
def test_workers_that_nearly_suffice_need_no_further_ones(tmp_path, worker_s, workers):
    """A device wants 1,000 images/s; a worker gives 980, or two give 1,026 together."""
    factors = {"loader_s_per_image": worker_s}
    truth = Truth(
        noise=0.005,
        workers=workers,
        worker_s=lambda run: workers * (0.0008 if run.num_gpus == 1 else 0.0013),
        changes=lambda run: factors,
    )
    row = explain(tmp_path, truth)
    assert row["causes"] == "input" and pd.isna(row["remedy"])


def test_the_wait_for_batches_tells_input_without_controls(tmp_path):
    truth = Truth(noise=0.01, worker_s=lambda run: 0.0008 if run.num_gpus == 1 else 0.0016)
    row = explain(tmp_path, truth, Grid(diagnoses=False))
    assert row["causes"] == "input" and row["input_from"] == "waits for batches"
    assert row["input_frac"] == pytest.approx(0.6 / 1.6, abs=SHARE)
    assert "no run without exchange at 8 devices" in row["not_known"] and row["run_next"] == "diagnose: true"


def test_a_loss_without_a_cause_names_what_was_looked_at_and_what_is_missing(tmp_path):
    truth = Truth(noise=0.01, exchange_s=lambda run: 0.016)
    sentence = explain(tmp_path, truth, Grid(diagnoses=False))["sentence"]
    head, effects, rest = sentence.split(". ")
    assert head.startswith("pytorch_ddp loses 3") and head.endswith("% at 8 devices")
    assert effects == "The runs show no effect of input"
    assert rest.startswith("All of it is unexplained (no run without exchange at 8 devices")


def test_parts_of_a_superlinear_curve_are_those_of_its_negative_loss(tmp_path):
    truth = Truth(noise=0.005, factor=lambda run: 2.0 if run.num_gpus == 1 else 1.0)
    row = explain(tmp_path / "alone", truth, Grid(diagnoses=False))
    assert "(superlinear). The runs show no effect of input. All of it is unexplained (" in row["sentence"]
    truth = Truth(
        noise=0.005,
        factor=lambda run: 2.0 if run.num_gpus == 1 else 1.0,
        exchange_s=lambda run: 0.016,
    )
    row = explain(tmp_path, truth)
    assert row["loss_frac"] < -0.2 and row["causes"] == "exchange"
    assert "(superlinear). As parts of a loss of -3" in row["sentence"] and "% exchange, -" in row["sentence"]


def test_exchange_is_named_and_a_larger_batch_that_was_measured_is_the_remedy(tmp_path):
    truth = Truth(noise=0.01, exchange_s=lambda run: 0.016)
    tables = make_tables(tmp_path, truth, Grid(batches=(32, 128)))
    row = find_row(tables, 8, per_device_batch_size=32)
    assert row["causes"] == "exchange"
    assert row["exchange_frac"] == pytest.approx(0.016 / 0.048, abs=SHARE) and abs(row["unexplained_frac"]) < SHARE
    assert row["remedy"] == "a larger batch: 128 images per device lose 11 %"
    assert row["sentence"].startswith("pytorch_ddp (weak scaling, 32 images per device) loses 3")


def test_a_slow_process_is_named_with_its_host_and_is_no_exchange(tmp_path):
    grid = Grid(nodes=lambda count: (2,) if count == 8 else (1,))
    row = explain(tmp_path, Truth(noise=0.01, slow={5: 1.3}), grid)
    assert row["causes"] == "imbalance" and row["slow_process"] == "5@n2"
    assert row["imbalance_frac"] == pytest.approx(0.3 / 1.3, abs=SHARE) and abs(row["exchange_frac"]) < SHARE
    assert row["slow_frac"] == pytest.approx(0.3, abs=SHARE)
    assert "a slow process (rank 5 on n2 takes 30 % longer than the faster half)" in row["sentence"]
    assert row["remedy"] == "another device or host for rank 5 on n2"


def test_two_slow_processes_of_four_are_found(tmp_path):
    row = explain(tmp_path, Truth(noise=0.01, slow={2: 1.3, 3: 1.3}), Grid(counts=(1, 4)), num_gpus=4)
    assert row["causes"] == "imbalance" and row["imbalance_frac"] == pytest.approx(0.3 / 1.3, abs=SHARE)


@pytest.mark.parametrize("seed", range(3))
def test_chance_makes_no_process_slow(tmp_path, seed):
    """Processes that differ by chance have another slowest one in each repeat."""
    random = np.random.default_rng(seed)

    def jitter(run):
        if run.control != NO_EXCHANGE:
            return {}
        seconds = 1.28 * (1 + 0.02 * random.standard_normal(run.num_gpus))
        return {"processes": [{"rank": i, "hostname": "n1", "measured_s": s} for i, s in enumerate(seconds)]}

    row = explain(tmp_path, Truth(noise=0.005, seed=seed, changes=jitter))
    assert pd.isna(row["causes"]) and abs(row["imbalance_frac"]) < SHARE


def test_a_throttled_device_is_named_with_its_host(tmp_path):
    def sample(run):
        def line(time_s, device):
            is_hot = run.num_gpus == 8 and device == 3
            values = {"time_s": time_s, "node": 0, "device": f"GPU-{device}", "sm_clock_mhz": 900 if is_hot else 1800}
            values["throttle_reasons"] = "hw_thermal_slowdown" if is_hot else ""
            return ",".join(str(values.get(name, "")) for name in SAMPLES)

        return [line(time_s / 10, device) for time_s in range(80, 200) for device in range(run.num_gpus)]

    telemetry = {"telemetry": {"interval_s": 0.1, "problem": None, "missing": {}, "of_board": {}, "core_frac": 0.0}}
    truth = Truth(noise=0.01, slow={3: 2.0}, telemetry=sample, changes=lambda run: telemetry)
    row = explain(tmp_path, truth, Grid(kind="cuda", repeats=3))
    assert row["causes"] == "imbalance" and row["slow_process"] == "3@n1"
    assert "GPU-3 of n1 was throttled in 100 % of the time at 8 devices (hw_thermal_slowdown)." in row["sentence"]
    assert "cooling or power of the throttled device" in row["remedy"]


def test_a_drift_of_the_rates_is_said_beside_the_loss(tmp_path):
    """Rates fall from repeat to repeat, as the clock of a warm processor does."""
    truth = Truth(
        factor=lambda run: 1 + 0.04 * run.repeat,
        exchange_s=lambda run: 0.016,
        changes=lambda run: {"started_at": f"2026-01-01T{run.repeat:02}:{run.num_gpus:02}:00+00:00"},
    )
    row = explain(tmp_path, truth)
    assert row["causes"] == "exchange" and "The rates of the study drift by -1" in row["sentence"]


def test_an_outlier_is_counted_and_moves_no_share(tmp_path):
    def is_off(run):
        return run.num_gpus == 8 and not run.control and run.repeat == 2

    truth = Truth(noise=0.005, exchange_s=lambda run: 0.016, factor=lambda run: 2.0 if is_off(run) else 1.0)
    row = explain(tmp_path, truth)
    assert row["exchange_frac"] == pytest.approx(1 / 3, abs=SHARE) and row["loss_frac"] == pytest.approx(
        1 / 3, abs=SHARE
    )
    assert "1 of 5 repeats at 8 devices is an outlier." in row["sentence"]


def test_two_causes_are_named_the_larger_one_first(tmp_path):
    truth = Truth(noise=0.01, exchange_s=lambda run: 0.004, slow={1: 1.2})
    row = explain(tmp_path, truth)
    assert row["causes"] == "imbalance, exchange"
    end_s = 1.2 + 0.125
    assert row["exchange_frac"] == pytest.approx(0.125 / end_s, abs=SHARE)
    assert row["imbalance_frac"] == pytest.approx(0.2 / end_s, abs=SHARE)


def test_causes_that_hide_each_other_leave_a_rest_that_is_said(tmp_path):
    """The loader is as slow as computation with exchange, so that leaving out one of them gains nothing."""
    truth = Truth(noise=0.005, worker_s=lambda run: 0.0008 * run.num_gpus**0.2, exchange_s=lambda run: 0.00676)
    row = explain(tmp_path, truth)
    assert row["unexplained_frac"] > 0.1 and row["loss_frac"] == pytest.approx(1 - 1 / 1.2125, abs=SHARE)
    assert "With resident input it still loses" in row["sentence"]


def test_noise_as_large_as_the_effect_names_no_cause(tmp_path):
    named = 0
    for seed in range(8):
        truth = Truth(noise=0.1, seed=seed, exchange_s=lambda run: 0.0016)
        row = explain(tmp_path / str(seed), truth, Grid(counts=(1, 4)), num_gpus=4)
        named += pd.notna(row["causes"])
    assert named <= 2


def test_evaluation_is_in_no_rate_and_gets_a_sentence_of_its_own(tmp_path):
    row = explain(tmp_path, Truth(noise=0.005, startup_s=0.1, evaluation_s=lambda run: 0.2 * run.num_gpus))
    assert "loses nothing" in row["sentence"] and row["evaluation_wall_frac"] > 0.3
    assert "is evaluation" in row["wall_sentence"] and "no rate includes it" in row["wall_sentence"]
    assert "start-up" not in row["wall_sentence"]


def test_start_up_gets_a_sentence_if_it_takes_most_of_a_run(tmp_path):
    row = explain(tmp_path, Truth(noise=0.005, startup_s=30.0))
    assert "is start-up and first step" in row["wall_sentence"]


def test_repeats_that_are_missing_or_failed_are_counted(tmp_path):
    def status(run):
        if run.control or run.num_gpus < 8:
            return "completed"
        return {1: "diverged", 2: "missing"}.get(run.repeat, "completed")

    row = explain(tmp_path, Truth(noise=0.01, status=status, exchange_s=lambda run: 0.016))
    assert row["causes"] == "exchange" and row["num_repeats"] == 3
    assert "Only 3 of 5 repeats at 8 devices have a rate (1 diverged, 1 missing)." in row["sentence"]


def test_an_end_without_a_rate_is_named_and_the_next_one_explained(tmp_path):
    truth = Truth(noise=0.01, status=lambda run: "out_of_memory" if run.num_gpus == 8 else "completed")
    tables = make_tables(tmp_path, truth, Grid(counts=(1, 4, 8)))
    assert find_row(tables, 8)["sentence"] == "pytorch_ddp has no rate at 8 devices (of 5 runs: 5 out of memory)."
    last, known = list_causes(tables["explanations"])
    assert last["sentence"].startswith("pytorch_ddp has no rate at 8 devices") and "at 4 devices" in known["sentence"]


def test_a_baseline_without_a_rate_explains_nothing(tmp_path):
    row = explain(tmp_path, Truth(status=lambda run: "out_of_memory" if run.num_gpus == 1 else "completed"))
    assert (
        "loss at 8 devices is not known; its baseline, 1 device, has no rate (of 5 runs: 5 out of memory)"
        in row["sentence"]
    )
    assert pd.isna(row["loss_frac"]) and pd.isna(row["causes"])


def test_one_repeat_has_no_interval(tmp_path):
    row = explain(tmp_path, Truth(exchange_s=lambda run: 0.016), Grid(repeats=1))
    assert row["causes"] == "exchange" and np.isnan(row["loss_frac_low"])
    assert "loses 33 % at 8 devices, in one repeat and so without an interval: 33 % exchange" in row["sentence"]
    row = explain(tmp_path / "small", Truth(exchange_s=lambda run: 0.001), Grid(repeats=1))
    assert pd.isna(row["causes"]) and "loses no more than repeats usually differ by at 8 devices" in row["sentence"]


def test_a_disturbed_baseline_is_the_doubt_of_a_superlinear_curve(tmp_path):
    busy = {"disturbance": {"other_cpu_frac": 0.3, "other_gpu_processes": None}}
    is_hit = lambda run: run.num_gpus == 1 and not run.control  # noqa: E731
    truth = Truth(
        noise=0.01, factor=lambda run: 1.3 if is_hit(run) else 1.0, changes=lambda run: busy if is_hit(run) else {}
    )
    row = explain(tmp_path, truth)
    assert row["loss_frac"] == pytest.approx(-0.3, abs=SHARE)
    assert "gains 30 ± " in row["sentence"] and "(superlinear)" in row["sentence"]
    assert "5 of 5 repeats of the baseline, 1 device, were disturbed by other work" in row["sentence"]
    assert row["remedy"] == "repeat the disturbed runs of the baseline"


def test_disturbed_controls_make_the_causes_doubtful(tmp_path):
    busy = {"disturbance": {"other_cpu_frac": 0.3, "other_gpu_processes": None}}
    truth = Truth(exchange_s=lambda run: 0.016, changes=lambda run: busy if run.control == NO_EXCHANGE else {})
    row = explain(tmp_path, truth, Grid(repeats=2))
    assert "Other work disturbed 2 control runs" in row["sentence"]


def test_controls_at_one_end_only_are_no_evidence(tmp_path):
    def controls(run):
        return (RESIDENT_INPUT, NO_EXCHANGE) if run.num_gpus == 8 else ()

    truth = Truth(noise=0.01, exchange_s=lambda run: 0.016, worker_s=lambda run: 0.0012)
    row = explain(tmp_path, truth, Grid(controls=controls))
    assert row["input_from"] == "waits for batches" and row["exchange_frac"] > 0, "one device exchanges nothing"
    row = explain(tmp_path / "two", truth, Grid(counts=(2, 8), controls=controls))
    assert np.isnan(row["exchange_frac"]) and "no run without exchange at 2 devices" in row["not_known"]


def test_a_control_that_cannot_be_done_says_why(tmp_path):
    truth = Truth(
        noise=0.01,
        one_process=True,
        exchange_s=lambda run: 0.016,
        status=lambda run: "unsupported" if run.control == NO_EXCHANGE else "completed",
    )
    row = explain(tmp_path, truth)
    assert np.isnan(row["exchange_frac"]) and pd.isna(row["causes"])
    assert "it cannot leave the exchange out" in row["sentence"] and row["loss_frac"] == pytest.approx(1 / 3, abs=SHARE)
    assert pd.isna(row["run_next"]), "the study has control runs"


def test_one_process_does_not_tell_its_devices_apart(tmp_path):
    row = explain(tmp_path, Truth(noise=0.01, one_process=True, slow={1: 1.3}))
    assert "one process drives all devices" in row["not_known"] and np.isnan(row["imbalance_frac"])
    assert row["unexplained_frac"] == pytest.approx(0.3 / 1.3, abs=SHARE)


def test_strong_scaling_has_smaller_batches_as_a_cause(tmp_path):
    """Small batches take twice the time per image. The baseline's device has run with them too."""
    truth = Truth(noise=0.01, factor=lambda run: 2.0 if run.per_device_batch_size == 32 else 1.0)
    grid = Grid(counts=(1, 8), batches=(32, 256), is_strong=True)
    rows = make_tables(tmp_path, truth, grid)
    row = find_row(rows, 8, global_batch_size=256)
    assert row["causes"] == "batch" and row["batch_frac"] == pytest.approx(0.5, abs=SHARE)
    assert "smaller batches on each device (32 images)" in row["sentence"]
    row = find_row(make_tables(tmp_path / "alone", truth, Grid(batches=(256,), is_strong=True)), 8)
    assert np.isnan(row["batch_frac"]) and "no run of the baseline with 32 images per device" in row["not_known"]


def test_fewer_nodes_are_the_remedy_if_they_were_faster(tmp_path):
    truth = Truth(noise=0.01, exchange_s=lambda run: 0.002 if run.num_nodes == 1 else 0.02)
    grid = Grid(counts=(1, 4), nodes=lambda count: (1, 2) if count == 4 else (1,))
    tables = make_tables(tmp_path, truth, grid)
    row = find_row(tables, 4, num_nodes=2)
    assert row["causes"] == "exchange" and row["exchange_frac"] == pytest.approx(0.02 / 0.052, abs=SHARE)
    assert row["sentence"].startswith("pytorch_ddp 2 nodes loses") or "of 2 nodes" in row["sentence"]
    assert row["remedy"].startswith("fewer nodes: 4 devices of 1 node give 1.5")


def test_controls_speak_for_the_first_variant_only(tmp_path):
    truth = Truth(noise=0.01, exchange_s=lambda run: 0.016)
    tables = make_tables(tmp_path, truth, Grid(variants=("base", "other")))
    first, other = (find_row(tables, 8, variant=name) for name in ("base", "other"))
    assert first["causes"] == "exchange" and first["sentence"].startswith("pytorch_ddp base loses")
    assert pd.isna(other["causes"]) and np.isnan(other["exchange_frac"])
    assert "control runs repeat the first variant" in other["not_known"]


def test_nothing_is_known_of_a_program_without_control_runs(tmp_path):
    truth = Truth(noise=0.01, factor=lambda run: 1.0 + 0.05 * run.num_gpus)
    tables = make_tables(tmp_path, truth, Grid(inputs=("program",), diagnoses=False))
    row = find_row(tables, 8)
    assert " at 8 devices. The cause is not known." in row["sentence"]
    assert row["run_next"] == "diagnose: true" and pd.isna(row["causes"]) and np.isnan(row["unexplained_frac"])


def test_a_program_has_the_shares_of_its_control_runs(tmp_path):
    truth = Truth(noise=0.01, exchange_s=lambda run: 0.016, slow={3: 1.25})
    row = explain(tmp_path, truth, Grid(inputs=("program",)))
    assert set(row["causes"].split(", ")) == {"exchange", "imbalance"} and row["slow_process"] == "3@n1"
    assert row["exchange_frac"] == pytest.approx(0.016 / 0.056, abs=SHARE)
    assert row["imbalance_frac"] == pytest.approx(0.008 / 0.056, abs=SHARE)
    assert pd.isna(row["not_known"]) and pd.isna(row["run_next"])


@pytest.mark.parametrize(
    ("truth", "words"),
    [
        ({"is_timed": False}, "not all processes of the program report"),
        ({"changes": lambda run: {"reported": {"sharded": True}}}, "the optimizer updates none"),
    ],
    ids=["one process reports", "sharded"],
)
def test_what_the_control_runs_of_a_program_leave_open_is_said(tmp_path, truth, words):
    row = explain(tmp_path, Truth(noise=0.01, exchange_s=lambda run: 0.016, **truth), Grid(inputs=("program",)))
    assert row["causes"] == "exchange" and words in row["not_known"] and words in row["sentence"]


@pytest.mark.parametrize("sizes", [[], [{"size_mib": 4.0, "seconds": [0.01], "median_s": 0.01}]])
def test_the_ceiling_of_a_program_needs_the_number_of_its_parameters(tmp_path, sizes):
    record = {"device": "cpu", "num_gpus": 8, "num_nodes": 1, "weights": "of_program_s", "sizes": sizes}
    tables = make_tables(tmp_path, Truth(), Grid(inputs=("program",), repeats=1), (record,))
    row = find_row(tables, 8, "ceilings")
    assert ("report(parameters=...)" in row["not_known"]) == (not sizes)
    assert row["exchange_images_per_s"] == pytest.approx(8 * 32 / 0.042) if sizes else np.isnan(row["allreduce_s"])


def test_variants_of_a_program_may_have_other_parameters_than_the_first(tmp_path):
    sizes = [{"size_mib": 4.0, "seconds": [0.01], "median_s": 0.01}]
    record = {"device": "cpu", "num_gpus": 8, "num_nodes": 1, "weights": "of_program_s", "sizes": sizes}
    for given, expected in (("program", np.nan), ("arrays", 0.01)):
        grid = Grid(inputs=(given,), variants=("small", "large"), repeats=1)
        tables = make_tables(tmp_path / given, Truth(), grid, (record,))
        found = [find_row(tables, 8, "ceilings", variant=name)["allreduce_s"] for name in ("small", "large")]
        assert found == pytest.approx([0.01, expected], nan_ok=True)


def test_each_curve_has_a_sentence_and_the_wall_time_of_one_is_explained(tmp_path):
    frameworks = tuple(f"framework{number}" for number in range(3))
    grid = Grid(counts=(1, 2), frameworks=frameworks, repeats=1, diagnoses=False)
    table = make_tables(tmp_path, Truth(), grid)["explanations"]
    assert [cause["sentence"].split()[0] for cause in list_causes(table)] == list(frameworks)
    assert "start-up" in explain_wall_time(table)
    assert list_causes(table.iloc[:0]) == [] and explain_wall_time(table.iloc[:0]) is None


@pytest.mark.parametrize("config", [{"diagnose": True}, {"repeats": "auto"}, {"budget_device_h": 3}])
def test_a_study_that_cannot_have_control_runs_is_not_told_to(config):
    assert can_diagnose({"repeats": 3, "diagnose": False}) and not can_diagnose({"repeats": 3} | config)


def test_shares_are_never_forced_to_add_up():
    groups = {END: np.full(3, 2.0), BASE: np.full(3, 1.0), "end_alone": np.full(3, 0.8)}
    shares = compute_shares(groups, {"exchange": {END: 1, "end_alone": -1}})
    assert shares[LOSS].value == 0.5 and shares["exchange"].value == pytest.approx(0.6)
    assert shares[UNEXPLAINED].value == pytest.approx(-0.1)


def test_input_that_bounds_both_ends_bends_no_curve_and_is_named(tmp_path):
    row = explain(tmp_path, Truth(noise=0.01, worker_s=lambda run: 0.003))
    assert row["sentence"].startswith("pytorch_ddp loses nothing") and pd.isna(row["causes"])
    assert row["input_of_time_frac"] == pytest.approx(2 / 3, abs=SHARE)
    assert "Input takes 6" in row["sentence"] and "as much at the baseline" in row["sentence"]
    assert row["remedy"] == "loader_workers: 3 instead of 1, for which each device has 4 cores"


def test_input_is_named_though_exchange_takes_a_part_of_its_wait(tmp_path):
    truth = Truth(noise=0.005, worker_s=lambda run: 0.003, exchange_s=lambda run: 0.0005 * run.per_device_batch_size)
    row = explain(tmp_path, truth)
    assert (
        row["sentence"].startswith("pytorch_ddp loses nothing") and row["input_frac"] < 0 and row["causes"] == "input"
    )
    assert "Input takes 5" in row["sentence"] and "and more at the baseline" in row["sentence"]
    assert row["remedy"].startswith("loader_workers: ")


def test_runs_without_evaluation_tell_what_it_costs(tmp_path):
    truth = Truth(startup_s=0.5, evaluation_s=lambda run: 2.3)
    row = explain(tmp_path, truth, Grid(repeats=2))
    assert row["saved_without_evaluation_frac"] == pytest.approx(2.3 / (2.3 + 0.5 + 0.5 + 0.01 + 42 * 0.032), abs=0.01)
    assert "runs without it take 49 % less" in row["wall_sentence"]


def test_a_larger_batch_that_was_not_tried_halves_the_part_of_the_exchange_that_is_left(tmp_path):
    """A step computes for 32 ms and exchanges for 128; with twice the images it computes for 64."""
    row = explain(tmp_path, Truth(noise=0.005, exchange_s=lambda run: 0.128), Grid(repeats=3))
    head, _, percent = row["remedy"].rpartition("exchange takes about ")
    assert head == "a larger batch: with twice the images per device, "
    assert float(percent.removesuffix(" %")) == pytest.approx(100 * 128 / (128 + 64), abs=1)


@pytest.mark.parametrize(
    "changes",
    [
        {"status": lambda run: "out_of_memory" if run.per_device_batch_size == 128 else "completed"},
        {"factor": lambda run: 3.0 if run.per_device_batch_size == 128 else 1.0},
    ],
    ids=["does not fit", "is slower"],
)
def test_a_larger_batch_that_was_tried_in_vain_is_no_remedy(tmp_path, changes):
    truth = Truth(noise=0.01, exchange_s=lambda run: 0.016, **changes)
    row = find_row(make_tables(tmp_path, truth, Grid(batches=(32, 128))), 8, per_device_batch_size=32)
    assert row["causes"] == "exchange" and pd.isna(row["remedy"])


def test_a_loss_that_repeats_do_not_tell_is_not_called_nothing(tmp_path):
    truth = Truth(noise=0.0, factor=lambda run: 1.0 if run.num_gpus == 1 else (1.0, 3.0)[run.repeat % 2])
    sentence = explain(tmp_path, truth, Grid(repeats=2, diagnoses=False))["sentence"]
    assert sentence.startswith("The repeats do not tell what pytorch_ddp loses at 8 devices (")


def test_a_process_that_is_slow_everywhere_is_no_remedy_for_a_loss_that_is_not_there(tmp_path):
    row = explain(tmp_path, Truth(noise=0.005, slow={0: 1.4}))
    assert "loses nothing measurable" in row["sentence"] and pd.isna(row["remedy"])


def test_waiting_for_whoever_is_slow_in_a_step_is_no_exchange(tmp_path):
    """Another process is slow in each step. Alone, all of them are equally fast."""
    row = explain(tmp_path, Truth(noise=0.005, straggle=1.6))
    assert row["causes"] == "waiting" and pd.isna(row["exchange_frac"])
    assert "waiting for whoever is slow in a step" in row["sentence"] and "exchange (" not in row["sentence"]
    assert "larger batch" not in row["remedy"]


def test_exchange_beside_little_scatter_stays_exchange(tmp_path):
    row = explain(tmp_path, Truth(noise=0.005, straggle=1.03, exchange_s=lambda run: 0.016))
    assert row["causes"] == "exchange" and "larger batch" in row["remedy"]


@pytest.mark.parametrize("repeats", [1, 5])
def test_a_slow_node_is_named_instead_of_one_of_its_processes(tmp_path, repeats):
    grid = Grid(nodes=lambda count: (2,) if count == 8 else (1,), repeats=repeats)
    row = explain(tmp_path, Truth(noise=0.01, slow={4: 1.31, 5: 1.3, 6: 1.29, 7: 1.3}), grid)
    assert row["causes"] == "imbalance" and row["slow_process"] == "all@n2"
    assert "a slow node (n2 takes" in row["sentence"] and "rank" not in row["sentence"]
    assert row["remedy"] == "another node in place of n2"


def test_two_slow_processes_of_a_node_of_four_are_no_slow_node(tmp_path):
    grid = Grid(nodes=lambda count: (2,) if count == 8 else (1,))
    row = explain(tmp_path, Truth(noise=0.01, slow={4: 1.3, 5: 1.31}), grid)
    assert row["slow_process"] == "5@n2"


def test_a_slow_baseline_is_not_called_less_input(tmp_path):
    """The runs on one device are slow, but not those with resident input, and they wait for no batch."""
    truth = Truth(
        noise=0.005,
        factor=lambda run: 1.3 if run.num_gpus == 1 and run.control != RESIDENT_INPUT else 1.0,
        exchange_s=lambda run: 0.016,
    )
    row = explain(tmp_path, truth)
    assert "input" not in str(row["causes"]) and "input (less than" not in row["sentence"]
    assert "The baseline, 1 device, takes 30 % longer than with resident input" in row["sentence"]
    assert row["remedy"] == "repeat the runs of the baseline"


def test_less_input_is_named_if_the_baseline_waited_for_batches(tmp_path):
    truth = Truth(noise=0.005, worker_s=lambda run: 0.0014 if run.num_gpus == 1 else 0.0, exchange_s=lambda run: 0.016)
    row = explain(tmp_path, truth)
    assert "input (less than at the baseline)" in row["sentence"]


@pytest.mark.parametrize(("allreduce_s", "cause"), [(0.02, "exchange"), (0.0005, "waiting")])
def test_exchange_and_waiting_that_are_not_told_apart_have_no_remedy(tmp_path, allreduce_s, cause):
    """The all-reduce alone explains the loss too, or it does not."""
    tables = make_tables(tmp_path, Truth(noise=0.005, straggle=1.6), USUAL)
    tables["ceilings"].loc[tables["ceilings"]["num_gpus"] == 8, "allreduce_s"] = allreduce_s
    names = ("runs", "scaling", "run_phases", "ceilings", "utilisation")
    plan = {"config": {"diagnose": True, "variants": {"base": {}}}}
    row = find_row({"explanations": explanations.tabulate(plan, **{name: tables[name] for name in names})}, 8)
    assert row["causes"] == cause and ("do not tell apart" in row["sentence"]) == (cause == "exchange")
    assert pd.isna(row["remedy"]) == (cause == "exchange")


GRADIENTS_MIB, LINK_GB_PER_S = 64.0, 10.0


def make_allreduce(bus_gb_per_s, num_gpus=8):
    """Return the record of an all-reduce of the gradients, over sockets whose link the machine file states."""
    seconds = 2 * (num_gpus - 1) / num_gpus * GRADIENTS_MIB * 2**20 / bus_gb_per_s / 1e9
    sizes = [{"size_mib": GRADIENTS_MIB, "seconds": [seconds] * 10, "median_s": seconds}]
    socket = {"kind": "socket", "name": "gloo", "via": "TCP", "interfaces": ["eth0"]}
    transport = {"library": "gloo", "within_node": socket, "between_nodes": None, "settings": {}, "why": None}
    record = {"device": "cpu", "num_gpus": num_gpus, "num_nodes": 1, "weights": "w", "sizes": sizes}
    record |= {"transport": transport | {"not_recognised": None}}
    record |= {"network": {"ports": [], "interfaces": [], "slingshot": [], "gpus": [], "pairs": []}}
    return seconds, record | {"link_gb_per_s": {"within_node": LINK_GB_PER_S}}


@pytest.mark.parametrize("bus_gb_per_s", [2.0, 4.0])
def test_a_slow_link_is_named_with_its_part_of_the_loss(tmp_path, bus_gb_per_s):
    """Without other losses, the part of the exchange beyond the rate of the link is what the link costs."""
    exchange_s, record = make_allreduce(bus_gb_per_s)
    tables = make_tables(tmp_path, Truth(noise=0.005, exchange_s=lambda run: exchange_s), USUAL, (record,))
    row = find_row(tables, 8)
    excess_frac = row["exchange_frac"] * (1 - bus_gb_per_s / LINK_GB_PER_S)
    assert row["network_frac"] == pytest.approx(excess_frac, abs=0.05)
    assert row["network_frac"] <= row["loss_frac"]
    assert f"{100 * row['network_frac']:.0f} of the {100 * row['loss_frac']:.0f} % lost" in row["network"]
    assert f"{bus_gb_per_s:g} of {LINK_GB_PER_S:g} GB/s" in row["network"]


def test_without_a_slow_link_nothing_is_said_about_it(tmp_path):
    exchange_s, record = make_allreduce(8.0)
    tables = make_tables(tmp_path, Truth(noise=0.005, exchange_s=lambda run: exchange_s), USUAL, (record,))
    assert tables["explanations"]["network"].isna().all()


def test_without_control_runs_the_part_of_a_slow_link_is_not_known(tmp_path):
    exchange_s, record = make_allreduce(2.0)
    del record["weights"]
    truth = Truth(noise=0.005, exchange_s=lambda run: exchange_s)
    row = find_row(make_tables(tmp_path, truth, Grid(diagnoses=False), (record,)), 8)
    assert "2 of 10 GB/s" in row["network"] and "lost" not in row["network"] and pd.isna(row["network_frac"])


@pytest.mark.parametrize(
    ("changes", "is_asked"),
    [
        ({"launcher": "mpirun"}, False),
        ({"launcher": "horovodrun", "horovod_controller": "mpi"}, False),
        ({"launcher": "horovodrun", "horovod_controller": "gloo"}, True),
        ({"launcher": "mpirun", "device_kind": "cuda"}, True),
        ({"launcher": "mpirun", "program": {}}, True),
    ],
    ids=["ChainerMN", "Horovod by MPI", "Horovod by gloo", "NCCL", "a program"],
)
def test_what_mpi_carries_is_not_said_to_be_carried_by_the_library_of_the_measurement(tmp_path, changes, is_asked):
    """Gloo may be slow where MPI is not."""
    exchange_s, record = make_allreduce(2.0)
    truth, grid = Truth(noise=0.005, exchange_s=lambda run: exchange_s), Grid(counts=(1, 8), repeats=2)
    plan, made = store(tmp_path, truth, grid), make_tables(tmp_path / "made", truth, grid)
    for run in plan["runs"].values():
        run["spec"] |= changes
    names = ("runs", "scaling", "run_phases", "ceilings", "utilisation")
    table = explanations.tabulate(plan, **{name: made[name] for name in names}, allreduces=[record])
    row = find_row({"explanations": table}, 8)
    assert pd.notna(row["network"]) == is_asked and says(row["transport"], "gloo" if is_asked else "MPI")
    assert is_asked or pd.isna(row["network_frac"])

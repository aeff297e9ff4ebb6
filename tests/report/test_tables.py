"""Tables are made from the run.json and attempt.json records of runs and attempts."""

import json

import pandas as pd
import pytest

from helpers.records import make_run
from helpers.specs import make_spec
from helpers.stored_runs import FIXED, QUALITY, collect, plan_of, store_run, write_attempt
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.report.answer.facts import Question, decide
from howmanygpus.report.disturbance import is_disturbed
from howmanygpus.report.files import read_table, write_table
from howmanygpus.report.outcomes import identify
from howmanygpus.report.tables import describe_table, list_common, losses
from howmanygpus.report.tables.runs import COLUMNS as RUNS
from howmanygpus.report.tables.scaling import compute_scaling
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy
from howmanygpus.report.thresholds import summarize_time_to_accuracy
from howmanygpus.site.jobs.completing import complete_attempts


def test_rates_are_total_over_total_of_the_measured_windows(tmp_path):
    spec = make_spec(global_batch_size=8)
    store_run(tmp_path, "run0", spec, window_s=(1.0, 3.0), host_to_device_gib_per_s=5.5)
    row = collect(plan_of(spec), tmp_path)[0].iloc[0]
    assert row["images_per_s"] == pytest.approx(20 * 8 / 4)
    assert row["data_wait_frac"] == pytest.approx(0.25)
    assert row["step_s_median"] == pytest.approx(0.2)
    assert row["step_s_p95"] == pytest.approx(0.3)
    assert row["host_to_device_gib_per_s"] == 5.5
    assert (row["peak_memory_gib"], row["quality_last"], row["quality_best"]) == (1.0, 0.8, 0.8)


def test_images_are_counted_exactly_also_beside_runs_without_any(tmp_path):
    store_run(tmp_path, "run0", make_spec(), images_seen=115_305_033)
    write_table(tmp_path / "runs.tsv", collect(plan_of(make_spec(), make_spec(repeat=2)), tmp_path)[0])
    assert read_table(tmp_path / "runs.tsv")["images_seen"].iloc[0] == 115_305_033


def test_percentiles_weight_steps_and_not_windows(tmp_path):
    spec = make_spec()
    store_run(tmp_path, "run0", spec, window_s=(1.0, 1.0), slowest_s=0.55)
    row = collect(plan_of(spec), tmp_path)[0].iloc[0]
    assert (row["step_s_median"], row["step_s_p95"]) == (pytest.approx(0.05), pytest.approx(0.55))


def test_a_run_that_measured_nothing_has_no_rate(tmp_path):
    spec = make_spec()
    store_run(tmp_path, "run0", spec, window_s=())
    row = collect(plan_of(spec), tmp_path)[0].iloc[0]
    assert row["status"] == "completed"
    assert pd.isna(row["images_per_s"]) and row["train_s"] == 5


@pytest.mark.parametrize(
    ("seen", "is_seen_as"),
    [
        (None, None),
        ({"other_cpu_frac": None, "other_gpu_processes": None}, None),
        ({"other_cpu_frac": 0.04, "other_gpu_processes": None}, False),
        ({"other_cpu_frac": 0.06, "other_gpu_processes": None}, True),
        ({"other_cpu_frac": 0.0, "other_gpu_processes": 1}, True),
    ],
)
def test_a_run_is_disturbed_by_others_on_its_cores_or_gpus(seen, is_seen_as):
    """Runs that were not trained have no such record."""
    record = make_run(make_spec(), "failed_parity") | ({"disturbance": seen} if seen else {})
    assert is_disturbed(record) is is_seen_as


def test_time_to_accuracy_has_clocks_with_and_without_start(tmp_path):
    """Start-up takes 1 s and the first step 2 s, as in tests/helpers/records.py."""
    store_run(tmp_path, "run0", make_spec(), accuracies=(0.4, 0.9))
    store_run(tmp_path, "run1", make_spec(repeat=2), (0.95, 0.1), status="diverged", reason="training loss is nan")
    plan = plan_of(make_spec(), make_spec(repeat=2))
    table = compute_time_to_accuracy(*collect(plan, tmp_path), QUALITY | {"thresholds": [0.9]})
    assert table["time_to_accuracy_s"].tolist() == [4.0, 2.0]
    assert table["time_with_start_s"].tolist() == [7.0, 5.0]
    assert table["wall_time_s"].tolist() == [18.0, 9.0]
    assert summarize_time_to_accuracy(table, "time_with_start_s")["time_s_max"].iloc[0] == 7.0


def test_repeats_that_failed_never_reached_a_threshold(tmp_path):
    specs = [make_spec(repeat=repeat) for repeat in (1, 2, 3)]
    store_run(tmp_path, "run0", specs[0], accuracies=(0.9,))
    runs, evaluations = collect(plan_of(*specs), tmp_path)
    runs.loc[1:, "status"] = ["out_of_memory", "clock_mismatch"]
    summary = summarize_time_to_accuracy(compute_time_to_accuracy(runs, evaluations, QUALITY))
    assert summary["num_repeats"].tolist() == [3, 3] and summary["num_reached"].tolist() == [1, 1]
    assert summary["time_s_median"].tolist() == [float("inf")] * 2
    row = compute_scaling(runs, {"weak": [8]}, {}).iloc[0]
    assert (row["num_planned"], row["num_repeats"], row["num_failed"]) == (3, 1, 2)


def test_speedup_is_also_over_the_best_framework_on_one_device():
    slow = runs_table({(1, 8, 1): 50, (2, 8, 1): 100})
    fast = runs_table({(1, 8, 1): 80, (2, 8, 1): 100}).assign(framework="fast")
    failed = runs_table({(1, 8, 1): 900, (1, 8, 2): None}).assign(framework="lucky", status=["completed", "crashed"])
    table = compute_scaling(
        pd.concat([slow, fast, failed]), {"weak": [8]}, {"base": {"fast": "", "pytorch_ddp": "DDP"}}
    )
    two = table[table["num_gpus"] == 2]
    assert two["speedup"].tolist() == [2.0, 1.25]
    assert two["speedup_over_best"].tolist() == [1.25, 1.25] and set(two["best_one_device"]) == {"fast"}
    assert two["baseline_machinery"].tolist() == ["DDP", "none"]


@pytest.mark.parametrize(
    ("tier", "compression", "carries"), [("stock", "none", True), ("best", "none", False), ("best", "fp16", True)]
)
def test_the_best_tier_of_ddp_carries_machinery_on_one_device_only_to_compress(tier, compression, carries):
    machinery = FRAMEWORKS["pytorch_ddp"].resolve_machinery({"tier": tier, "gradient_compression": compression})
    assert bool(machinery) == carries


def test_a_curve_that_begins_with_two_devices_has_no_run_on_one_to_carry_machinery():
    table = compute_scaling(
        runs_table({(2, 8, 1): 100, (4, 8, 1): 180}), {"weak": [8]}, {"base": {"pytorch_ddp": "DDP"}}
    )
    assert table["baseline_machinery"].isna().all() and table["best_one_device"].isna().all()


def test_there_is_one_row_per_planned_run_and_metrics_only_where_one_happened(tmp_path):
    specs = [make_spec(repeat=repeat) for repeat in (1, 2)]
    store_run(tmp_path, "run0", specs[0])
    runs, evaluations = collect(plan_of(*specs, unsupported=[make_spec(precision="tf32")]), tmp_path)
    assert runs["status"].tolist() == ["completed", "missing", "unsupported"]
    assert runs["images_per_s"].notna().tolist() == [True, False, False]
    assert runs["reason"].tolist() == ["", "not run yet", "no such device"]
    assert len(evaluations) == 2


def status_of_first(tmp_path, spec):
    return tuple(collect(plan_of(spec), tmp_path)[0].iloc[0][["status", "reason"]])


def test_a_failed_run_has_the_reason_of_its_last_attempt(tmp_path):
    write_attempt(tmp_path, "crashed")
    write_attempt(tmp_path, "time_limit", started="20260102T000000")
    assert status_of_first(tmp_path, make_spec()) == ("time_limit", "why time_limit")


def test_an_attempt_without_an_end_was_killed_if_its_process_is_gone(tmp_path, monkeypatch):
    monkeypatch.setattr("os.uname", lambda: type("Uname", (), {"nodename": "h"}))
    write_attempt(tmp_path, "running", pid=2**22 + 1)
    assert status_of_first(tmp_path, make_spec())[0] == "running", "nobody has looked yet"
    assert len(complete_attempts(tmp_path / "results" / "attempts")) == 1
    assert status_of_first(tmp_path, make_spec())[0] == "killed"
    write_attempt(tmp_path, "running", started="20260102T000000", pid=1)
    assert complete_attempts(tmp_path / "results" / "attempts") == []
    assert status_of_first(tmp_path, make_spec())[0] == "running"


def test_a_run_with_other_settings_is_stale_and_ignored(tmp_path):
    store_run(tmp_path, "run0", make_spec(window_steps=7))
    row = collect(plan_of(make_spec()), tmp_path)[0].iloc[0]
    assert (row["status"], row["reason"]) == ("stale", "was run with another window_steps")
    assert pd.isna(row["images_per_s"])


def test_a_gpu_run_never_names_the_processor_as_its_device(tmp_path):
    """A framework that does not tell the GPU's name leaves the cell empty."""
    specs = [make_spec(), make_spec(device="cuda", device_kind="cuda", repeat=2)]
    host = make_run(specs[0])["host"] | {"gpu_uuids": ["GPU-a", "GPU-b"]}
    store_run(tmp_path, "run0", specs[0])
    store_run(tmp_path, "run1", specs[1], host=host)
    table = collect(plan_of(*specs), tmp_path)[0]
    assert table["device_model"].iloc[0] == "c" and pd.isna(table["device_model"].iloc[1])
    assert pd.isna(table["gpu_uuids"].iloc[0]) and table["gpu_uuids"].iloc[1] == "GPU-a GPU-b"


def runs_table(rates):
    """Make a table of runs. rates: {(num_gpus, per_device_batch_size, repeat): images_per_s or None}."""
    rows = []
    for (num_gpus, size, repeat), rate in rates.items():
        spec = make_spec(num_gpus=num_gpus, global_batch_size=num_gpus * size, repeat=repeat)
        rows.append(identify(FIXED, vars(spec)) | {"images_per_s": rate, "status": "completed"})
    return pd.DataFrame(rows, columns=list(RUNS))


def test_scaling_compares_medians_with_the_smallest_count_of_each_curve():
    rates = {(1, 8, 1): 90, (1, 8, 2): 100, (1, 8, 3): 110, (2, 8, 1): 150, (2, 4, 1): 120}
    table = compute_scaling(runs_table(rates), {"weak": [8], "strong": [8]}, {})
    rows = {(row.scaling_mode, row.num_gpus): row for row in table.itertuples()}
    assert set(rows) == {("weak", 1), ("weak", 2), ("strong", 1), ("strong", 2)}
    weak, strong = rows["weak", 2], rows["strong", 2]
    assert (weak.speedup, weak.scaling_efficiency) == (pytest.approx(1.5), pytest.approx(0.75))
    assert (strong.speedup, strong.per_device_batch_size) == (pytest.approx(1.2), 4)
    base = rows["weak", 1]
    assert (base.images_per_s_min, base.images_per_s_max, base.num_repeats) == (90, 110, 3)


def test_without_its_baseline_a_curve_has_no_speedup():
    table = compute_scaling(runs_table({(1, 8, 1): None, (2, 8, 1): 150}), {"weak": [8]}, {})
    assert table["num_repeats"].tolist() == [0, 1]
    assert table["speedup"].isna().all()


def test_time_to_accuracy_is_the_first_evaluation_that_reaches_it(tmp_path):
    specs = [make_spec(repeat=repeat) for repeat in (1, 2, 3)]
    for name, spec, accuracies in zip(
        ("run0", "run1", "run2"), specs, [(0.4, 0.6, 0.9), (0.6, 0.4, 0.8), (0.1, 0.1, 0.1)], strict=True
    ):
        store_run(tmp_path, name, spec, accuracies)
    table = compute_time_to_accuracy(*collect(plan_of(*specs), tmp_path), QUALITY)
    half = table[table["threshold"] == 0.5]
    assert half["time_to_accuracy_s"].tolist()[:2] == [4.0, 2.0]
    assert half["wall_time_s"].tolist()[:2] == [18.0, 9.0]
    assert half["reached"].tolist() == [True, True, False]
    assert pd.isna(half["epoch"].iloc[2])


def test_repeats_that_never_reach_a_threshold_count_as_infinitely_slow(tmp_path):
    specs = [make_spec(repeat=repeat) for repeat in (1, 2, 3)]
    for name, spec, accuracies in zip(("run0", "run1", "run2"), specs, [(0.9,), (0.6,), (0.1,)], strict=True):
        store_run(tmp_path, name, spec, accuracies)
    summary = summarize_time_to_accuracy(compute_time_to_accuracy(*collect(plan_of(*specs), tmp_path), QUALITY))
    rows = {row.threshold: row for row in summary.itertuples()}
    assert (rows[0.5].num_reached, rows[0.5].time_s_median, rows[0.5].time_s_max) == (2, 2.0, float("inf"))
    assert (rows[0.9].num_reached, rows[0.9].time_s_median) == (1, float("inf"))


def test_a_diverged_run_never_reached_any_threshold(tmp_path):
    store_run(tmp_path, "run0", make_spec(), accuracies=(), status="diverged", reason="training loss is nan")
    table = compute_time_to_accuracy(*collect(plan_of(make_spec()), tmp_path), QUALITY)
    assert table["reached"].tolist() == [False, False]


def decide_about(runs, evaluations):
    (decision,) = decide(runs, compute_time_to_accuracy(runs, evaluations, QUALITY), Question())["decisions"]
    return decision


def test_the_answer_names_the_best_and_says_when_there_is_none(tmp_path):
    specs = [make_spec(), make_spec(framework="keras_mirrored")]
    store_run(tmp_path, "run0", specs[0], accuracies=(0.9,), window_s=(1.0, 1.0))
    best = decide_about(*collect(plan_of(*specs), tmp_path))["recommended"]
    assert (best["framework"], best["duration_s"]["median"], best["images_per_s"]["median"]) == ("pytorch_ddp", 2, 80)
    nothing = decide_about(*collect(plan_of(specs[1]), tmp_path / "elsewhere"))
    assert nothing["refusal"] == "no run that counts has completed"


@pytest.mark.parametrize(
    ("inputs", "rate"),
    [
        ({"arrays": 1.0, "synthetic": 0.5, "resident": 0.25}, 80),
        ({"synthetic": 0.5, "resident": 0.25}, 160),
        ({"resident": 0.25}, 320),
        ({"arrays": None, "resident": 0.25}, None),
    ],
)
def test_the_answer_is_about_real_images_if_the_study_has_any(tmp_path, inputs, rate):
    """inputs: seconds of a window of 10 steps with 8 images each, None for a run that is missing."""
    specs = [make_spec(input=name) for name in inputs]
    for number, (spec, window_s) in enumerate(zip(specs, inputs.values(), strict=True)):
        if window_s:
            store_run(tmp_path, f"run{number}", spec, accuracies=(0.9,), window_s=(window_s, window_s))
    runs, evaluations = collect(plan_of(*specs), tmp_path)
    assert set(compute_time_to_accuracy(runs, evaluations, QUALITY)["input"]) <= {"arrays"}
    best = decide_about(runs, evaluations)["recommended"]
    assert (best["images_per_s"]["median"] if best else None) == rate


def test_the_losses_table_has_the_windows_of_the_first_epoch(tmp_path):
    specs = [make_spec(), make_spec(repeat=2)]
    store_run(tmp_path, "run0", specs[0])
    windows = [(1, 1, 1, 2.5), (1, 2, 9, 2.0), (2, 11, 10, 1.0)]
    keys = ("epoch", "first_step", "num_steps", "loss")
    events = [{"event": "window", **dict(zip(keys, values, strict=True))} for values in windows]
    (tmp_path / "results" / "runs" / "run0" / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
    table = losses.tabulate(plan_of(*specs), tmp_path)
    assert table[["last_step", "loss"]].to_numpy().tolist() == [[1, 2.5], [10, 2.0]]
    assert set(table["repeat"]) == {1}, "the run that is missing has no rows"


def test_each_table_is_made_after_those_that_it_is_made_from():
    """One job makes all of these, in this order."""
    common = list_common()
    for position, name in enumerate(common):
        assert set(describe_table(name).inputs) <= set(common[:position])
    assert {"runs", "scaling"} < set(common) and "published" not in common

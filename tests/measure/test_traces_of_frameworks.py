"""Every framework is traced by its own profiler after a run, which stays what it is without a trace."""

import json
from pathlib import Path

import numpy as np
import pytest

from howmanygpus.measure.loop.tracing import NUM_STEPS
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.report.traces.reading import read_window
from howmanygpus.study.invalidation.code import LIBRARY, collect_training_code
from measure.asked import LARGEST, LEARNING, TRACED
from project import ROOT

WITHOUT_PROFILER = ("chainer",)
"""Families whose framework has no profiler that writes a trace."""


@pytest.mark.parametrize(("framework", "num_gpus"), LARGEST)
def test_a_traced_run_has_the_weights_steps_and_windows_of_one_that_is_not(run, framework, num_gpus):
    traced, plain = (run(framework, num_gpus, **request) for request in (TRACED, LEARNING["sgd"]))
    assert "trace" in traced.record and "trace" not in plain.record
    for key in ("status", "reason", "steps", "images_seen", "measured_steps"):
        assert traced.record[key] == plain.record[key]
    windows = [
        [(event["event"], event.get("first_step"), event.get("num_steps"), event["epoch"]) for event in each.events]
        for each in (traced, plain)
    ]
    assert windows[0] == windows[1]
    weights = traced.final_weights
    assert all(np.allclose(weights[name], array, rtol=1e-4, atol=1e-6) for name, array in plain.final_weights.items())
    assert np.array_equal(traced.predictions["rank"], plain.predictions["rank"])


@pytest.mark.parametrize(("framework", "num_gpus"), LARGEST)
def test_the_trace_of_a_framework_says_when_its_devices_were_busy(run, framework, num_gpus):
    traced = run(framework, num_gpus, **TRACED)
    record, folder = traced.record["trace"], traced.folder / "run" / "trace"
    if FRAMEWORKS[framework].family in WITHOUT_PROFILER:
        assert framework in record["problem"] and not folder.exists()
        return
    assert record["problem"] is None and record["steps"] == NUM_STEPS
    assert sorted(path.name for path in folder.iterdir()) == ["steps.json", record["file"]]
    assert (folder / record["file"]).stat().st_size == record["bytes"] < 2**21
    window = read_window(folder, record["file"], "cpu")
    assert len(window.ends_s) == NUM_STEPS and 0 < window.busy_frac < 1
    assert all(0 <= gap <= window.window_s for gap in window.gaps_s) and max(window.gaps_s) > 0
    assert len(window.operators) == 3 and sum(part for _, part in window.operators) <= 1
    seen = json.loads((folder / "steps.json").read_text())["steps"]
    assert seen[-1]["finished_s"] - seen[-NUM_STEPS - 1]["finished_s"] == pytest.approx(window.window_s)


@pytest.mark.parametrize(("framework", "num_gpus"), LARGEST)
def test_the_profiler_is_code_of_traced_runs_only(run, framework, num_gpus, monkeypatch):
    monkeypatch.chdir(ROOT)
    profiler = f"{LIBRARY}/howmanygpus/measure/frameworks/{FRAMEWORKS[framework].family}/profiler.py"
    exists = Path(profiler).exists()
    executed = {f"{LIBRARY}/{path}" for path in run(framework, num_gpus, **TRACED).record["code"]}
    assert (profiler in executed) == exists
    assert (profiler in collect_training_code(framework, "small_cnn", is_traced=True)) == exists
    assert profiler not in collect_training_code(framework, "small_cnn")

"""`make check-gpu` plans what was found, doubles batch sizes to the end, and says what failed and why."""

import json
import os
import subprocess
import sys
from importlib import import_module

import pandas as pd
import pytest
import yaml
from snakemake.utils import update_config

from helpers.messages import says
from helpers.records import make_run
from helpers.specs import make_spec
from helpers.stored_runs import FIXED
from howmanygpus.measure.host.samples import COLUMNS
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.environments.pins import read_requirements
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from howmanygpus_tools.check_gpu import findings
from howmanygpus_tools.check_gpu.findings import summarize_samples
from howmanygpus_tools.check_gpu.page import render_page
from howmanygpus_tools.check_gpu.steps import BATCHES, RATES, add_size, choose_one_per_family, describe_changes
from howmanygpus_tools.wheelhouse.wheelhouse import normalize
from project import ROOT

CONFIG = ROOT / "config" / "check_gpu.yaml"
MODULES = {"scikit-learn": "sklearn", "pillow": "PIL", "opencv-python-headless": "cv2", "kornia-rs": "kornia_rs"}
"""Modules of packages, where their names differ."""
GPU = Machine("machine.yaml", {"cpu": Device(8, 1), "cuda": Device(1, 8, "cuda", 1, "9.0")})
FOUND = ["pytorch_ddp", "pytorch_dp", "jax_sharding"]


def plan_check(device: str, frameworks=FOUND, **batches) -> Plan:
    """Return the plan of what the command would run."""
    config = yaml.safe_load(CONFIG.read_text())
    changes = describe_changes(frameworks, device, "results/check_gpu/machine.yaml")
    changes["studies"][BATCHES] |= batches
    update_config(config, changes)
    return Plan(config, GPU)


def runs_of(plan: Plan, study: str) -> list:
    return [run for run in plan.runs.values() if run.study == study and not run.unsupported]


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_every_framework_found_is_gated_in_every_precision_and_run_in_both_tiers(device):
    plan = plan_check(device)
    gated = {(cell.framework, cell.precision) for cell in plan.parity_cells.values()}
    assert gated == {(name, precision) for name in FOUND for precision in FRAMEWORKS[name].precisions[device]}
    assert {run.device for run in plan.runs.values()} == {device}
    for name in FOUND:
        ran = {(run.variant, run.input) for run in runs_of(plan, RATES) if run.framework == name}
        assert {("stock", source) for source in ("arrays", "synthetic", "resident")} <= ran
        assert ("best" in {variant for variant, _ in ran}) == (device in FRAMEWORKS[name].best)


def test_no_framework_that_was_found_is_left_out():
    changes = describe_changes(list(FRAMEWORKS), "cuda", "machine.yaml")
    assert changes["studies"][RATES]["frameworks"] == list(FRAMEWORKS)


def test_batches_are_tried_with_one_framework_of_each_family():
    assert choose_one_per_family(list(FRAMEWORKS)) == [
        *("pytorch_ddp", "horovod_tensorflow", "jax_sharding", "mxnet_gluon", "chainer_mn")
    ]
    assert {run.framework for run in runs_of(plan_check("cuda"), BATCHES)} == {"pytorch_ddp", "jax_sharding"}


def test_batch_sizes_double_for_the_frameworks_that_have_memory_left():
    study = {"frameworks": ["pytorch_ddp", "jax_sharding"], "per_device_batch_size": [1024]}
    assert add_size(study, ["pytorch_ddp", "jax_sharding"], 5000)
    assert add_size(study, ["jax_sharding"], 5000)
    assert not add_size(study, ["jax_sharding"], 5000), "a batch cannot have more than all images"
    assert not add_size(study, [], 100_000)
    plan = plan_check("cuda", per_device_batch_size=study["per_device_batch_size"], exclude=study["exclude"])
    tried = sorted((run.framework, run.per_device_batch_size) for run in runs_of(plan, BATCHES))
    assert tried == [
        *(("jax_sharding", size) for size in (1024, 2048, 4096)),
        *(("pytorch_ddp", size) for size in (1024, 2048)),
    ]


def write_telemetry(folder, *rows: dict):
    lines = [",".join(str(row.get(column, "")) for column in COLUMNS) for row in rows]
    (folder / "telemetry.csv").write_text("\n".join([",".join(COLUMNS), *lines]) + "\n")
    return folder


def sample(time_s: float, device: str = "GPU-1", **values) -> dict:
    return {"time_s": time_s, "node": 0, "device": device, "memory_gib": 2, **values}


def test_samples_are_summed_up_by_device(tmp_path):
    rows = [sample(1, utilisation_frac=0.2, power_w=100, energy_j=50), sample(1, "GPU-2", energy_j=10)]
    rows += [sample(2, utilisation_frac=0.6, memory_gib=3, energy_j=350), sample(2, "GPU-2", energy_j=40)]
    summary = summarize_samples(write_telemetry(tmp_path, *rows, sample(2, "host", memory_gib=9)), 3.0, on_gpu=True)
    assert summary == {
        **{"samples": 4, "last_s": 2.0, "utilisation_frac": pytest.approx(0.4), "power_w": 100.0},
        **{"memory_gib": 3.0, "energy_j": 330.0, "problem": ""},
    }


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([sample(1, "cpu0"), sample(1, "host")], "telemetry has no GPU samples"),
        ([sample(1, memory_gib=""), sample(20)], ""),
        ([sample(20, memory_gib="")], "no GPU sample has the memory in use"),
        ([sample(1), sample(2)], "GPU samples end after 2 s of 20 s"),
    ],
)
def test_a_run_whose_gpu_was_not_sampled_to_its_end_has_a_problem(tmp_path, rows, problem):
    assert summarize_samples(write_telemetry(tmp_path, *rows), 20.0, on_gpu=True)["problem"] == problem


def test_a_run_without_a_telemetry_file_has_a_problem(tmp_path):
    problem = summarize_samples(tmp_path, 20.0, on_gpu=False)["problem"]
    assert says(problem, "no process samples")


def test_a_sampler_problem_in_the_record_is_a_finding(tmp_path):
    rows = []
    records = {"a": {"telemetry": {"problem": None}}, "b": {"telemetry": {"problem": "node 0: killed"}}}
    for name, noticed in records.items():
        folder = tmp_path / name
        folder.mkdir()
        write_telemetry(folder, sample(9))
        (folder / "run.json").write_text(json.dumps(noticed))
        rows.append({"status": "completed", "run_dir": name, "wall_time_s": 10.0, "variant": "base", "input": "arrays"})
    rates = pd.DataFrame(rows).assign(framework="f", precision="fp32", per_device_batch_size=8)
    summaries = findings.add_telemetry(rates, on_gpu=True, results=tmp_path)
    assert [(each["samples"], each["problem"]) for each in summaries] == [(1, ""), (1, "node 0: killed")]


BATCH_COLUMNS = ("framework", "per_device_batch_size", "status", "reason", "peak_memory_gib", "images_per_s")


def make_batches(*rows) -> pd.DataFrame:
    return pd.DataFrame([dict(zip(BATCH_COLUMNS, row, strict=True)) for row in rows])


def test_the_largest_batch_is_the_last_one_before_the_memory_is_full():
    completed = ("completed", "", 9.5, 700.0)
    batches = make_batches(
        ("a", 2048, "out_of_memory", "tried to allocate 7 GiB", None, None),
        ("a", 1024, *completed),
        ("b", 1024, *completed),
        ("b", 2048, "crashed", "cuDNN error", None, None),
        ("c", 1024, *completed),
        ("d", 1024, "missing", "not run yet", None, None),
    )
    full, crashed, unlimited, missing = findings.find_largest(batches, 1024, on_gpu=True, why="the disk is full")
    assert (full["largest"], full["next"], full["reason"]) == (1024, 2048, "tried to allocate 7 GiB")
    assert full["problem"] == ""
    assert says(crashed["problem"], 2048, "crashed", "out_of_memory", "cuDNN error")
    assert says(unlimited["problem"], "1024 of 1024")
    assert says(missing["problem"], 1024, "the disk is full", "same call")
    on_cpu = findings.find_largest(batches, 1024, on_gpu=False, why="")
    assert on_cpu[2]["problem"] == "", "memory of hosts is not filled"


def store(results, plan: dict, path: str, status: str, **changes) -> None:
    """Add a run to a plan, and store its record if it has one."""
    spec = make_spec(global_batch_size=changes.pop("size", 8), framework=changes.pop("framework", "pytorch_ddp"))
    plan["runs"][path] = {"spec": spec.to_dict(), "unsupported": ""}
    if status == "missing":
        return
    folder = results / "results" / "runs" / path
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(make_run(spec, status, **changes)))
    (folder / "events.jsonl").touch()


def test_a_framework_grows_if_its_largest_batch_completed(tmp_path):
    plan = FIXED | {"runs": {}, "defaults": {}}
    store(tmp_path, plan, "a1", "completed", size=8)
    store(tmp_path, plan, "a2", "completed", size=16)
    store(tmp_path, plan, "b1", "completed", size=8, framework="jax_sharding")
    store(tmp_path, plan, "b2", "out_of_memory", size=16, framework="jax_sharding")
    assert findings.list_completed_at_largest(plan, tmp_path) == ["pytorch_ddp"]


def make_verdict(framework, variant, precision, status, reason="") -> dict:
    named = {"framework": framework, "variant": variant, "precision": precision}
    return named | {"status": status, "reason": reason}


VERDICTS = [
    make_verdict("pytorch_ddp", "stock", "fp32", "passed"),
    make_verdict("pytorch_ddp", "stock", "tf32", "unsupported", "no tf32"),
    make_verdict("pytorch_ddp", "stock", "bf16", "failed", "gradients: 1 > 0.1 | worst"),
    make_verdict("pytorch_ddp", "best", "bf16", "passed"),
    make_verdict("jax_sharding", "stock", "fp32", ""),
]


def test_everything_that_failed_is_on_the_page_with_its_reason(tmp_path):
    config = FIXED["config"] | {"quality": {"metric": "accuracy"}}
    plan = {"config": config, "runs": {}, "billing": {}, "defaults": {}}
    for status in ("missing", "out_of_memory"):
        store(tmp_path, plan, status, status, **({} if status == "missing" else {"reason": "7 GiB"}))
    rates = findings.tabulate(plan, tmp_path)
    telemetry = [{"run": "r", **summarize_samples(tmp_path, 9.0, on_gpu=True)}]
    largest = findings.find_largest(make_batches(("a", 8, "crashed", "why", None, None)), 8, on_gpu=True, why="")
    waits = [{"framework": "b", "status": "diverged", "with_wait_s": None, "without_s": 0.004}]
    waits[0] |= {"reason": "nan", "problem": "diverged: nan"}
    broken = {"environment": "jax-cuda13", "version": "", "python": "p", "reason": "AssertionError: it finds no GPU"}
    why = {"gate": findings.TIME_UP, "rates": "Snakemake was killed by SIGKILL"}
    failures = findings.list_failures([], VERDICTS, rates, telemetry, waits, largest, [broken], why)
    assert failures == [
        "jax-cuda13: AssertionError: it finds no GPU",
        "gate of pytorch_ddp (stock) in bf16: failed: gradients: 1 > 0.1 | worst",
        "gate of jax_sharding (stock) in fp32: not run: the time was up; the same call continues",
        "run pytorch_ddp (arrays, fp32, batch 8): not run: Snakemake was killed by SIGKILL; the same call continues",
        "run pytorch_ddp (arrays, fp32, batch 8): out_of_memory: 7 GiB",
        "telemetry of r: telemetry has no GPU samples",
        "wait of b: diverged: nan",
        "largest batch of a: batch 8: crashed, not out_of_memory: why",
    ]
    page = render_page({"host": "h"}, [broken], [], VERDICTS, rates, telemetry, waits, largest, failures)
    assert "8 failures on h, " in page
    assert "gradients: 1 > 0.1 \\| worst" in page, "a bar would end the cell"
    assert "| framework | variant | fp32 | tf32 | bf16 |" in page
    assert "| pytorch_ddp | stock | passed | unsupported | failed |" in page, "the other tier passed"
    assert "| pytorch_ddp | best | — | — | passed |" in page
    assert "| jax_sharding | stock | missing | — | — |" in page
    assert "## Waits\n\n| framework | status | median step with the wait, ms | without it, ms | reason |" in page
    assert "| b | diverged | — | 4.00 | nan |" in page


def test_each_tier_has_a_verdict_of_its_own_on_the_page():
    script = import_module("howmanygpus_tools.check_gpu.__main__")
    verdicts = script.list_verdicts(plan_check("cuda", ["pytorch_ddp"]))
    found = [(verdict["variant"], verdict["precision"]) for verdict in verdicts]
    stock = [("stock", precision) for precision in ("fp32", "tf32", "bf16", "fp16")]
    assert found == [*stock, ("best", "fp32"), ("best", "bf16")]


def test_a_page_without_failures_says_so():
    verdicts, none = VERDICTS[:2], pd.DataFrame()
    assert findings.list_failures([], verdicts, none, [], [], [], [], {}) == []
    page = render_page({"host": "h"}, [], [], verdicts, none, [], [], [], [])
    assert "Everything passed on h, " in page and "## What failed, and why\n\nNothing." in page
    page = render_page({"host": "h", "steps": "site, gate"}, [], [], verdicts, none, [], [], [], [])
    assert "Everything passed in the steps site, gate on h, " in page


def test_the_command_starts_with_nothing_but_the_packages_of_its_pins():
    """Where wheels are carried along, `.venv` has these alone."""
    pinned = {normalize(line) for line in read_requirements(ROOT / "envs" / "check_gpu.txt")}
    others = {normalize(line) for line in read_requirements(ROOT / "envs" / "workflow.txt")} - pinned
    modules = sorted({MODULES.get(name, name.replace("-", "_")) for name in others} | {"torch", "cv2"})
    program = (
        f"import sys, runpy; sys.modules.update(dict.fromkeys({modules})); "
        "sys.argv[1:] = ['--help']; runpy.run_module('howmanygpus_tools.check_gpu', run_name='__main__')"
    )
    environment = os.environ | {"PYTHONPATH": "workflow/lib"}
    called = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert called.returncode == 0, called.stderr

"""`make check-gpu` does the steps that are asked for, says how each ended, and unlocks what a killed call left."""

import json
import os
import signal
import time
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from snakemake.utils import update_config

from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from howmanygpus_tools.check_gpu import NETWORKS, STEPS
from howmanygpus_tools.check_gpu.steps import BATCHES, BESIDE_EXPERT, RATES, describe_changes
from project import ROOT

HERE = Machine("machine.yaml", {"cpu": Device(8, 1)})
ALL_MISSING = {*NETWORKS, "gate", "rates", "waits", "batches"}
PAGE = "results/parity/parity.html"


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Return the script as a module, in a folder that has nothing of the project but its code and pins."""
    module = import_module("howmanygpus_tools.check_gpu.__main__")
    monkeypatch.chdir(tmp_path)
    for name in ("envs", "workflow"):
        (tmp_path / name).symlink_to(ROOT / name)
    return module


def plan(changes: dict) -> Plan:
    config = yaml.safe_load((ROOT / "config" / "check_gpu.yaml").read_text())
    update_config(config, changes)
    return Plan(config, HERE)


def run_steps(command, monkeypatch, steps, end) -> tuple[list[list[str]], dict[str, str]]:
    """Run some steps, and return the calls of Snakemake and how each step ended.

    end: the exit status of each call, or a function that is called in its place.
    """
    calls = []

    def run_until(deadline, words, **options):
        calls.append(words[1 : words.index("--profile")])
        return end() if callable(end) else end

    monkeypatch.setattr(command, "run_until", run_until)
    monkeypatch.setattr(command, "read_plan", plan)
    changes = describe_changes(["pytorch_ddp", "jax_sharding"], "cpu", "machine.yaml", has_gate="gate" in steps)
    check = command.Check(changes, "cpu", steps, time.monotonic() + 60)
    check.run()
    return calls, check.why


ALONE = {
    "site": [],
    **{network: [[study, "--until", "train"]] for network, study in BESIDE_EXPERT.items()},
    "gate": [[PAGE, "--until", "write_parity_page"]],
    "rates": [[RATES, "--until", "train"]],
    "batches": [[BATCHES, "--until", "train"]],
}


@pytest.mark.parametrize("step", ALONE)
def test_a_single_step_makes_no_files_of_other_steps(command, monkeypatch, step):
    calls, _ = run_steps(command, monkeypatch, [step], 0)
    assert calls == ALONE[step]


def test_all_steps_are_done_in_their_order(command, monkeypatch):
    calls, _ = run_steps(command, monkeypatch, list(STEPS), 0)
    assert calls == [
        *(ALONE[network][0] for network in NETWORKS),
        [PAGE, RATES, "--until", "write_parity_page", "train"],
        ALONE["batches"][0],
    ]


def test_the_step_waits_alone_has_snakemake_make_its_inputs(command, monkeypatch):
    (call,), _ = run_steps(command, monkeypatch, ["waits"], 0)
    assert "--until" not in call and {Path(path).parts[1] for path in call} == {
        *("environments", "parity", "prepared", "weights")
    }


def test_without_the_gate_runs_are_trained_unchecked():
    for has_gate, checked in ((True, True), (False, False)):
        found = plan(describe_changes(["pytorch_ddp"], "cpu", "machine.yaml", has_gate))
        assert bool(found.checked_verdicts) == checked and found.runs


def test_a_verdict_that_a_check_without_the_gate_has_left_is_missing(command):
    found = plan(describe_changes(["pytorch_ddp"], "cpu", "machine.yaml"))
    for path, status in zip(sorted(found.checked_verdicts), ["not_checked", "passed", "failed"], strict=False):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps({"status": status, "reason": f"why {status}"}))
    said = {(verdict["status"], verdict["reason"]) for verdict in command.list_verdicts(found)}
    assert said == {("", ""), ("passed", "why passed"), ("failed", "why failed")}


def fail(error):
    raise error


@pytest.mark.parametrize(
    ("end", "words", "stops"),
    [
        (1, "Snakemake ended with status 1, see what it printed", False),
        (-signal.SIGKILL, "Snakemake was killed by SIGKILL", True),
        (None, "the time was up", True),
        (lambda: fail(KeyboardInterrupt()), "the check was interrupted", True),
    ],
    ids=["failed", "killed", "time up", "interrupted"],
)
def test_missing_results_are_explained_by_the_end_of_the_call(command, monkeypatch, end, words, stops):
    calls, why = run_steps(command, monkeypatch, list(STEPS), end)
    assert {why[step] for step in ALL_MISSING} == {words}
    assert len(calls) == (1 if stops else 4), "a check goes on after a failed step, and ends if it was stopped"


def test_a_launcher_that_ended_without_a_record_is_named_with_its_log(command, monkeypatch, tmp_path):
    wait = SimpleNamespace(framework="f", environment="e.json", folder=tmp_path)
    wait.explain_refusal, wait.list_missing, wait.create_attempt = str, list, lambda python: [python]
    monkeypatch.setattr(command, "resolve_python", str)
    monkeypatch.setattr(command, "run_until", lambda *_, **__: 1)
    why = {}
    command.run_without_waits([wait], time.monotonic() + 60, why)
    assert why == {"f": f"its launcher ended with status 1, see {tmp_path / 'log.txt'}"}


@pytest.mark.parametrize(
    ("is_locked", "age_s", "living", "unlocks"),
    [(True, 60, [], True), (True, -60, [], False), (True, 60, ["a call"], False), (False, 0, [], False)],
    ids=["left by a killed call", "younger than this call", "of a living call", "no lock"],
)
def test_only_the_lock_of_a_killed_call_is_released(command, monkeypatch, is_locked, age_s, living, unlocks):
    now, calls = time.time(), []
    command.LOCKS.mkdir(parents=True)
    if is_locked:
        for name in ("0.input.lock", "0.output.lock"):
            (command.LOCKS / name).touch()
            os.utime(command.LOCKS / name, (now - age_s, now - age_s))
    monkeypatch.setattr(command, "list_living_calls", lambda: living)
    monkeypatch.setattr(command.subprocess, "run", lambda words, **_: calls.append(words[:2]))
    command.unlock(now)
    assert calls == ([[command.SNAKEMAKE, "--unlock"]] if unlocks else [])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--steps", "gate", "wait"], ["STEPS", '"wait"', "did you mean waits?", *STEPS]),
        (["--frameworks", "pytorch"], ["FRAMEWORKS", '"pytorch"', *FRAMEWORKS]),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_names(command, monkeypatch, options, words):
    given = ["check_gpu.py", "--site", "python3", "--device", "cuda", "--minutes", "9", *options]
    monkeypatch.setattr(command.sys, "argv", given)
    with pytest.raises(SystemExit) as refused:
        command.read_arguments()
    assert all(word in str(refused.value) for word in words)


@pytest.mark.parametrize("has_jax", [True, False])
def test_only_the_frameworks_named_are_looked_for_and_each_must_be_there(command, monkeypatch, has_jax):
    looked_for = []

    def find(environments, pythons, on_gpu):
        looked_for.extend(environments)
        return [
            SimpleNamespace(environment=name, python="p", version=version, reason="" if version else "ModuleNotFound")
            for name in environments
            for version in ["1.0" if has_jax or not name.startswith("jax") else ""]
        ]

    monkeypatch.setattr(command, "detect_frameworks", find)
    monkeypatch.setattr(command, "build_overlay", lambda python, wheels: python)
    monkeypatch.setattr(command, "share_site_packages", lambda overlays, wheels: None)
    named = ("jax_sharding", "pytorch_ddp")
    if has_jax:
        command.detect_site(["p"], "cpu", None, named)
    else:
        with pytest.raises(SystemExit, match=r"FRAMEWORKS: .*jax_sharding.*jax-cpu: ModuleNotFound"):
            command.detect_site(["p"], "cpu", None, named)
    assert sorted(looked_for) == ["jax-cpu", "pytorch-cpu"]

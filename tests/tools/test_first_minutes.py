"""A GPU that is lent for minutes is checked in order of worth, within the time, and what exists is saved."""

import json
import signal
import subprocess
import sys
import tarfile
import time
from importlib import import_module

import pandas as pd
import pytest

from hanging import HANG_S
from howmanygpus_tools import references
from howmanygpus_tools.check_gpu import NETWORKS, STEPS, findings, lent
from howmanygpus_tools.check_gpu.expert import FIRST_WAYS
from project import ROOT

DRIVER = ROOT / "benchmarks" / "gpu" / "first_minutes.py"
PYTHON = """#!/bin/sh
mkdir -p results/runs/check_gpu_resnet50
echo '{}' >results/runs/check_gpu_resnet50/run.json
touch results/runs/check_gpu_resnet50/weights.npz
echo '{}' >results/check_gpu/expert.jsonl
echo "$*" >given
exec sleep 600
"""


@pytest.fixture
def machine(tmp_path):
    """Return a folder that looks like an installed tree, whose check has trained something and goes on."""
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    (tmp_path / "workflow").symlink_to(ROOT / "workflow")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "snakemake"):
        (programs / name).write_text(PYTHON)
        (programs / name).chmod(0o755)
    return tmp_path


def start(folder, seconds: float, *options: str) -> subprocess.Popen:
    command = [sys.executable, str(DRIVER), "--seconds", str(seconds), "--save-to", "saved", "--device", "cpu"]
    return subprocess.Popen([*command, *options], cwd=folder, stdout=subprocess.PIPE, text=True)


def test_a_terminated_call_has_saved_what_exists(machine):
    driver = start(machine, 545, "--models", "resnet50")
    deadline = time.monotonic() + HANG_S
    while not (machine / "given").exists():
        assert driver.poll() is None and time.monotonic() < deadline, driver.stdout.read()
        time.sleep(0.05)
    driver.send_signal(signal.SIGTERM)
    printed, _ = driver.communicate(timeout=HANG_S)
    assert driver.returncode == 1 and "told to end" in printed
    saved = machine / "saved"
    with tarfile.open(saved / "records.tgz") as tar:
        names = tar.getnames()
    assert "results/runs/check_gpu_resnet50/run.json" in names and not [name for name in names if ".npz" in name]
    assert {"expert.jsonl", "log.txt"} <= {path.name for path in saved.iterdir()}
    assert "$ nproc\n" in (saved / "machine.txt").read_text()
    given = (machine / "given").read_text().split()
    assert 400 < 60 * float(given[given.index("--minutes") + 1]) < 500, "the check gets what is left"
    assert given[given.index("--steps") + 1 :] == ["site", "resnet50", "gate", "rates", "waits", "batches"]


def test_parts_for_which_no_time_is_left_are_named_and_the_rest_is_saved(machine):
    driver = start(machine, 1)
    printed, _ = driver.communicate(timeout=HANG_S)
    assert driver.returncode == 1 and "check-gpu: no time is left" in printed
    assert not (machine / "given").exists()
    assert {"log.txt", "machine.txt", "records.tgz"} <= {path.name for path in (machine / "saved").iterdir()}


def test_the_real_programs_accept_the_options(monkeypatch, tmp_path):
    """They read the command lines of an installation and of the check."""
    commands = []
    given = {"seconds": 545, "save_to": tmp_path, "device": "cuda", "wheels": tmp_path, "site": ["python3"]}
    given |= {"models": NETWORKS, "ways": FIRST_WAYS}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lent.Lent, "do", lambda self, name, command, *_, **__: commands.append(command))
    call = lent.Lent(lent.argparse.Namespace(**given))
    call.install()
    call.check()
    install, check = commands
    monkeypatch.setattr(sys, "argv", check[2:])
    arguments = import_module("howmanygpus_tools.check_gpu.__main__").read_arguments()
    assert (tuple(arguments.steps), arguments.wheels, arguments.save_to) == (STEPS, tmp_path, tmp_path)
    assert 480 < 60 * float(arguments.minutes) <= 500
    refused = subprocess.run(install, cwd=ROOT, env={"PYTHONPATH": "workflow/lib"}, capture_output=True, text=True)
    assert "has no wheel of Snakemake" in refused.stderr, "its options were read, and the folder is empty"


TASK = {"model": "resnet50", "batch_size": 8}
RUNS = pd.DataFrame(
    [
        ("pytorch_ddp", "stock", "missing", "", "", None, None, None, None),
        ("pytorch_ddp", "best", "completed", "", "NVIDIA Test", 39.2, 0.25, 3.0, 1.5),
        ("jax_sharding", "best", "unsupported", "no such tier", "", None, None, None, None),
    ],
    columns=["framework", "variant", "status", "reason", "device_model", *findings.LOOP_RATES.values()],
)


@pytest.fixture
def rows(tmp_path) -> list[dict]:
    """Return the rows of one network, of which an expert's loop was repeated, one failed, and one was not begun."""
    printed = [TASK | {"way": "nchw", "error": "OutOfMemoryError: 7 GiB"}]
    rates = {"step_s": 0.2, "first_step_s": 2.0, "peak_memory_gib": None}
    printed += [TASK | rates | {"way": "compile", "images_per_s": rate, "device": "NVIDIA Test"} for rate in (1, 40.0)]
    (tmp_path / "expert.jsonl").write_text("".join(json.dumps(row) + "\n" for row in printed))
    loops = findings.read_loops(tmp_path / "expert.jsonl")
    ways = {"nchw": "", "compile": "", "jax": "its limit was reached"}
    return findings.compare_with_expert(RUNS, TASK, ways, loops, "the time was up")


def test_a_rate_is_compared_with_the_expert_loop_that_does_the_same(rows):
    found = {(row["framework"], row["way"]): row for row in rows}
    assert found["pytorch_ddp", "best"]["over_expert"] == pytest.approx(0.98)
    assert [key for key, row in found.items() if "over_expert" in row] == [("pytorch_ddp", "best")]
    failures = findings.list_failures(rows, [], pd.DataFrame(), [], [], [], [], {})
    assert failures == [
        "resnet50 of expert (nchw): OutOfMemoryError: 7 GiB",
        "resnet50 of expert (jax): not run: its limit was reached; the same call continues",
        "resnet50 of pytorch_ddp (stock): not run: the time was up; the same call continues",
    ]


def test_a_card_has_a_file_from_which_the_documentation_has_its_table(monkeypatch, tmp_path, rows):
    script = import_module("howmanygpus_tools.check_gpu.__main__")
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(script, "FOLDER", tmp_path / "docs")
    for trained in ([], rows):
        script.write_card(trained, "abcdef", None)
    monkeypatch.setattr(references, "CARDS", tmp_path / "docs")
    table = references.describe_cards().splitlines()
    (best,) = [line for line in table if "`pytorch_ddp`, best" in line]
    for cell in ("NVIDIA Test", "abcdef", "resnet50, 8", "250.00", "1.5", "0.980 (compile)"):
        assert f"| {cell} |" in best
    monkeypatch.setattr(references, "CARDS", tmp_path / "none")
    assert references.describe_cards() == "No card was measured yet.\n"

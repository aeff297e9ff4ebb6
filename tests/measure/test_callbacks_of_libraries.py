"""The callbacks that users copy report what the real Lightning, Trainer of Hugging Face and Keras do."""

import json
import os
import shutil
import subprocess
from itertools import pairwise

import pytest

from hanging import HANG_S
from howmanygpus.measure.program.progress import Progress
from howmanygpus.measure.program.reports import parse_json
from project import ROOT

PROGRAM = ROOT / "tests" / "measure" / "train_with_callback.py"
EPOCHS, STEPS = 2, 12
"""Of the program."""
RUNS = ("usual", "resident_input", "no_exchange")


def find_python(library: str, own: str) -> str:
    """Return a Python that has a library with PyTorch, of PATH or our own. The test is skipped without."""
    for name in ("python3", "python", own):
        python = shutil.which(name)
        if python and not subprocess.run([python, "-c", f"import torch, {library}"], capture_output=True).returncode:
            return python
    pytest.skip(f"no python3 and no python of PATH has torch and {library}")


def train(python: str, library: str, folder, *runs: str, num_processes: int = 1) -> list[dict]:
    """Return by process what it ended with, by run. The folder then has the reports of each run."""
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_processes)]
    command = [python, *(start if num_processes > 1 else []), str(PROGRAM), library, str(folder), *runs]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "examples" / "program"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((folder / f"ended{rank}.json").read_text()) for rank in range(num_processes)]


def follow(folder, run: str) -> tuple[Progress, list[dict]]:
    """Return what the first process reported in a run, and the events that come of it."""
    events: list[dict] = []
    reports = [parse_json(line, 0.0) for line in (folder / f"{run}.jsonl").read_text().splitlines()]
    progress = Progress(2, 4, reports[0].time, events.append, "" if run == "usual" else run)
    for report in reports:
        progress.add(report)
    return progress, events


def check_usual(folder, num_parameters: int) -> None:
    progress, events = follow(folder, "usual")
    assert (progress.steps, progress.facts["parameters"]) == (EPOCHS * STEPS, num_parameters)
    assert progress.unended_checkpoint is None and progress.checkpoint_s > 0
    windows = [event for event in events if event["event"] == "window"]
    assert [event["first_step"] for event in windows[:10]] == list(range(1, 11))
    assert all(event["loss"] is not None for event in windows[:10])
    assert not [event for event in windows if event["phase"] == "unclear"]
    assert [event["metric"].keys() for event in events if event["event"] == "evaluation"] == [{"test_loss"}] * EPOCHS
    assert sum(event["event"] == "checkpoint" for event in events) >= EPOCHS
    assert all(one["wall_s"] <= other["wall_s"] for one, other in pairwise(events))


def test_keras(environment_python, tmp_path):
    train(environment_python("tensorflow-cpu"), "keras", tmp_path, "usual")
    check_usual(tmp_path, 9)


@pytest.mark.parametrize("library", ["lightning", "transformers"])
def test_a_library_of_pytorch_and_its_control_runs(library, environment_python, tmp_path):
    python = find_python(library, environment_python("pytorch-cpu"))
    first, second = train(python, library, tmp_path, *RUNS, num_processes=2)
    check_usual(tmp_path, 9)
    assert follow(tmp_path, "usual")[0].facts["sharded"] is False
    for run in RUNS[1:]:
        progress, _ = follow(tmp_path, run)
        assert not progress.explain_ignored_control() and progress.steps >= EPOCHS * STEPS
        assert list(tmp_path.glob(f"{run}.jsonl.rank1@*")), "each process reports"
    for run in RUNS:
        assert (first[run] == second[run]) == (run != "no_exchange"), "parameters after training"
    assert first["resident_input"] != first["usual"]

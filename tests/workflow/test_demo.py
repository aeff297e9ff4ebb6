"""The demo, with fewer runs: its two frameworks are gated, trained, interrupted, continued, reported and changed."""

import os
import signal
import subprocess
import time
from collections import Counter
from types import SimpleNamespace

import pytest
import yaml

from forking import listen_to_ctrl_c
from hanging import HANG_S
from project import ODD_FOLDER, Project

pytestmark = pytest.mark.quick
FEWER = {"inputs": ["arrays"], "per_device_batch_size": [64], "scaling": "weak", "repeats": 1, "epochs": 2}
LIBRARY = "workflow/lib/howmanygpus/measure"
PYTORCH, KERAS = "digits/pytorch_ddp/", "digits/keras_mirrored/"
COMMAND = ["make", "--old-file", ".venv/installed", "demo"]


def start_demo(project: Project) -> subprocess.Popen:
    """Start `make demo` as in a terminal. It prints to printed.txt."""
    with open(project.folder / "printed.txt", "w") as printed:
        return subprocess.Popen(
            COMMAND,
            cwd=project.folder,
            env=project.environment(),
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=listen_to_ctrl_c,
        )


def list_begun(project: Project) -> set[str]:
    """Return the paths of the runs that have an attempt and no record."""
    attempts = project.folder / "results" / "attempts"
    begun = {str(path.parent.parent.relative_to(attempts)) for path in attempts.glob("digits/**/attempt.json")}
    return begun - project.read_records().keys()


def interrupt_second_run(project: Project) -> None:
    """Start the demo, and press Ctrl-C during its second run."""
    made = start_demo(project)
    deadline = time.monotonic() + HANG_S
    while not (list_begun(project) and project.read_records()):
        assert made.poll() is None and time.monotonic() < deadline, project.read("printed.txt")[-4000:]
        time.sleep(0.1)
    os.killpg(made.pid, signal.SIGINT)
    assert made.wait(HANG_S), "an interrupted call does not succeed"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Return the project after a call that Ctrl-C interrupted and one that completed it.

    kept: the records of the runs that the first call completed. printed: what the second call printed.
    """
    project = Project(tmp_path_factory.mktemp("demo") / ODD_FOLDER / "project", fakes=())
    config = yaml.safe_load(project.read("config/config.yaml"))
    config["studies"]["digits"] |= FEWER
    del config["studies"]["digits"]["exclude"]
    (project.folder / "config" / "config.yaml").write_text(yaml.safe_dump(config))
    try:
        interrupt_second_run(project)
        kept = project.read_records()
        made = start_demo(project)
        assert made.wait(HANG_S) == 0, project.read("printed.txt")[-4000:]
        yield SimpleNamespace(project=project, kept=kept, printed=project.read("printed.txt"))
    finally:
        project.kill_processes()


def test_all_runs_pass_the_gate_and_complete(demo):
    rows = [(row["framework"], row["num_gpus"], row["parity"], row["status"]) for row in demo.project.read_rows()]
    frameworks = ("keras_mirrored", "pytorch_ddp")
    assert sorted(rows) == [(name, count, "passed", "completed") for name in frameworks for count in "12"]


def test_completed_runs_are_not_repeated_after_ctrl_c(demo):
    records = demo.project.read_records()
    assert 0 < len(demo.kept) < len(records) == 4
    assert {path: records[path] for path in demo.kept} == demo.kept


def test_the_answer_is_printed_and_the_report_names_both_frameworks(demo):
    assert "4 runs planned: 4 completed." in demo.printed
    report = demo.project.read("results/report.html")
    screen, _, rest = demo.project.read("results/tables/answer.txt").partition("The rest is in")
    assert screen in demo.printed and "Data and devices:" in rest and "Data and devices:" not in demo.printed
    for name in ("pytorch_ddp", "keras_mirrored"):
        assert name in report


def test_a_second_call_plans_nothing(demo):
    assert demo.project.planned() == []


@pytest.mark.parametrize(
    ("path", "runs"),
    [
        ("frameworks/torch/ddp.py", {PYTORCH: 2}),
        ("frameworks/keras/fit_mirrored.py", {KERAS: 2}),
        ("loop/loop.py", {PYTORCH: 2, KERAS: 2}),
    ],
)
def test_changed_code_repeats_the_gate_and_the_runs_that_execute_it(demo, path, runs):
    file = demo.project.folder / LIBRARY / path
    text = file.read_text()
    demo.project.edit(f"{LIBRARY}/{path}", "\nA_NEW_CONSTANT = 1\n")
    try:
        planned = demo.project.planned()
    finally:
        file.write_text(text)
    assert Counter("/".join(job.split("/")[:2]) + "/" for job in planned if "/" in job) == runs
    assert planned.count("observe_parity") == len(runs)

"""Test one attempt at a run: the published files, the kept files, and that no process is left."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from hanging import HANG_S
from helpers.specs import make_spec
from howmanygpus.measure.around.schema import read_record
from howmanygpus.report.telemetry import read_telemetry
from howmanygpus.site.jobs.completing import complete_attempts
from measure.launching import write_inputs
from project import Project


class Attempt:
    """A launcher of a fake backend in a copy of the project."""

    def __init__(self, project: Project, behaviour=None, deadline_s=300, **changes):
        self.folder = project.folder / "inputs"
        names = {"framework": "sleeping", "family": "fake", "strategy": "sleeping", "launcher": "plain"}
        self.spec = write_inputs(self.folder, make_spec(**names, **changes))
        self.attempt = project.folder / "attempt"
        self.attempt.mkdir()
        (self.attempt / "spec.json").write_text(json.dumps(self.spec.to_dict()))
        self.run_dir = project.folder / "run"
        if behaviour:
            project.behave(gpus1=behaviour)
        command = [sys.executable, "-m", "howmanygpus.measure.launch.launch", "--attempt", str(self.attempt)]
        command += ["--run-dir", str(self.run_dir), "--deadline-s", str(deadline_s)]
        self.command, self.cwd = command, project.folder
        self.environment = project.environment() | {"PYTHONPATH": str(project.folder / "workflow" / "lib")}

    def start(self) -> subprocess.Popen:
        return subprocess.Popen(self.command, cwd=self.cwd, env=self.environment, stderr=subprocess.PIPE, text=True)

    def run(self) -> int:
        process = self.start()
        self.errors = process.communicate(timeout=HANG_S)[1]
        return process.returncode

    @property
    def published(self) -> list[str]:
        return sorted(path.name for path in self.run_dir.iterdir()) if self.run_dir.exists() else []

    @property
    def run_record(self) -> dict:
        return read_record(self.run_dir / "run.json")

    @property
    def record(self) -> dict:
        """What the launcher has recorded."""
        return read_record(self.attempt / "attempt.json")

    def explain(self) -> tuple[str, str]:
        """Return status and reason once the attempt is settled."""
        complete_attempts(self.attempt)
        return self.record["status"], self.record["reason"]


FAILING_SAMPLE = """

def fail(*arguments):
    Path("go_on").touch()
    return 1 / 0


Node.sample = fail
"""
DEADLINE_AT_OUTCOME = """

def wait_for_end(pid, timeout_s=None):
    while not Path("attempt/outcome.json").exists():
        time.sleep(0.05)
    return False
"""
"""Code appended to howmanygpus/measure/host/processes.py, by which the deadline passes when the run is done."""
RUN_FILES = ["events.jsonl", "predictions.npz", "run.json", "telemetry.csv"]


def wait_for_training(launcher: subprocess.Popen, attempt: Attempt) -> psutil.Process:
    """Wait for the first window of a run and return the process that trains."""
    deadline = time.monotonic() + HANG_S
    while time.monotonic() < deadline:
        events = attempt.attempt / "events.jsonl"
        if events.exists() and events.read_text():
            return psutil.Process(launcher.pid).children(recursive=True)[0]
        time.sleep(0.05)
    raise AssertionError("training did not start")


def assert_ends(process: psutil.Process) -> None:
    psutil.wait_procs([process], timeout=HANG_S)
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_completed_run_publishes_its_files_and_leaves_no_attempt(project):
    # Long enough for several samples after the first event, of which a busy machine may leave out most.
    project.edit("workflow/lib/howmanygpus/measure/host/telemetry.py", "\nLATE_FRAC = 1.0\n")
    attempt = Attempt(project, behaviour={"step_s": 0.2})
    assert attempt.run() == 0
    assert attempt.published == RUN_FILES
    assert not attempt.attempt.exists()
    record = attempt.run_record
    assert record["status"] == "completed"
    assert record["spec"] == attempt.spec.to_dict()
    assert len(record["manifest_sha256"]) == len(record["weights_sha256"]) == 64
    (device,) = record["topology"]["cores"]
    assert len(device["cores"]) == 1 and record["topology"]["gpus"] == record["topology"]["links"] == []
    assert record["telemetry"]["problem"] is None and record["telemetry"]["interval_s"] == 0.1
    samples = read_telemetry(attempt.run_dir)
    assert set(samples["device"]) == {"cpu0", "host"}
    assert samples.loc[samples["device"] == "cpu0", "memory_gib"].max() > 0.01, "that of the run's processes"
    events = [json.loads(line) for line in (attempt.run_dir / "events.jsonl").read_text().splitlines()]
    assert samples["time_s"].iloc[0] < events[-1]["wall_s"], "on one clock"
    assert samples["time_s"].iloc[-1] > events[0]["wall_s"]


@pytest.mark.parametrize(
    ("behaviour", "status", "reason"),
    [
        ("out_of_memory", "out_of_memory", "tried to allocate 7 GiB"),
        ("diverge", "diverged", "training loss is nan in steps 2 to 5"),
        ("unsupported", "unsupported", "this device cannot sleep"),
    ],
)
def test_an_expected_outcome_is_published_and_exits_with_0(project, behaviour, status, reason):
    attempt = Attempt(project, behaviour)
    assert attempt.run() == 0
    assert attempt.published == RUN_FILES
    record = attempt.run_record
    assert (record["status"], record["reason"]) == (status, reason)


def test_a_dead_sampler_is_recorded_and_the_run_counts(project):
    """The source fails at its first sample, for which the run waits. Its rates do not need samples."""
    project.edit("workflow/lib/howmanygpus/measure/host/telemetry.py", FAILING_SAMPLE)
    attempt = Attempt(project, "wait_for_file")
    assert attempt.run() == 0
    assert attempt.run_record["status"] == "completed"
    problem = "the sampler of node 0 failed: ZeroDivisionError: division by zero"
    assert attempt.run_record["telemetry"]["problem"] == problem and f"telemetry: {problem}" in attempt.errors


def test_a_crash_publishes_nothing_and_keeps_its_attempt_with_the_reason(project):
    attempt = Attempt(project, "crash")
    assert attempt.run() == 1
    assert attempt.published == []
    assert (attempt.record["reason"], attempt.record["exit_status"]) == ("exit status 1", 1)
    assert attempt.explain() == ("crashed", "RuntimeError: the fake backend was told to crash")
    assert (attempt.attempt / "events.jsonl").read_text(), "what was measured before the crash is kept"


def test_an_abort_of_a_library_is_quoted(project):
    """It ends the process without a traceback of Python."""
    attempt = Attempt(project, "abort")
    assert attempt.run() == 1
    assert attempt.explain() == ("crashed", "the fake library was told to abort")
    assert "terminate called" in attempt.errors


def test_a_record_that_violates_its_schema_is_not_published(project):
    backend = project.folder / "workflow/lib/howmanygpus/measure/frameworks/fake/sleeping.py"
    text = backend.read_text()
    backend.write_text(text.replace('{"sleeping": "1.0"}', '{"sleeping": 1.0}'))
    assert backend.read_text() != text
    attempt = Attempt(project)
    assert attempt.run() == 1
    assert attempt.published == []
    assert attempt.record["status"] == "crashed"
    assert "run.json: versions: sleeping: 1.0 is not of type 'string'" in attempt.record["reason"]
    assert (attempt.attempt / "events.jsonl").read_text(), "what was measured is kept"


def test_the_deadline_ends_a_run_with_its_reason(project):
    attempt = Attempt(project, "hang", deadline_s=3)
    assert attempt.run() == 1
    assert attempt.published == []
    assert attempt.record["status"] == "time_limit"
    assert "not done after 3 s" in attempt.record["reason"]


def test_a_process_that_hangs_when_its_run_is_done_does_not_undo_it(project):
    project.edit("workflow/lib/howmanygpus/measure/host/processes.py", DEADLINE_AT_OUTCOME)
    attempt = Attempt(project, "hang_at_end")
    assert attempt.run() == 0
    assert attempt.published == RUN_FILES and attempt.run_record["status"] == "completed"


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_whole_run(project, signum):
    attempt = Attempt(project, "hang")
    launcher = attempt.start()
    training = wait_for_training(launcher, attempt)
    launcher.send_signal(signum)
    assert launcher.wait(timeout=HANG_S) == 128 + signum
    assert_ends(training)
    assert attempt.published == []
    assert attempt.record["status"] == "interrupted"
    assert attempt.record["reason"] == f"stopped by {signal.Signals(signum).name}"


def test_killing_the_launcher_ends_its_processes_and_leaves_a_record(project):
    attempt = Attempt(project, "hang")
    launcher = attempt.start()
    training = wait_for_training(launcher, attempt)
    launcher.kill()
    launcher.wait(timeout=HANG_S)
    assert_ends(training)
    assert attempt.published == []
    assert attempt.record["status"] == "running" and attempt.explain()[0] == "killed"


def test_changed_data_is_refused_before_training(project):
    attempt = Attempt(project)
    (attempt.folder / "data" / "arrays" / "train_labels.npy").write_bytes(b"changed")
    assert attempt.run() == 1
    assert "train_labels.npy: SHA-256 is" in attempt.record["reason"]
    assert "and run the workflow again to make it anew" in attempt.record["reason"]


def test_missing_data_is_refused_before_training(project):
    attempt = Attempt(project)
    (attempt.folder / "data" / "arrays" / "test_images.npy").unlink()
    assert attempt.run() == 1
    assert "test_images.npy: the file is missing; delete" in attempt.record["reason"]


def test_changed_weights_are_refused_before_training(project):
    attempt = Attempt(project)
    (attempt.folder / "weights.safetensors").write_bytes(b"changed")
    assert attempt.run() == 1
    assert "weights.safetensors: SHA-256 is" in attempt.record["reason"]


def test_too_few_cores_are_refused(project):
    attempt = Attempt(project, cores_per_device=4096)
    assert attempt.run() == 1
    assert "4096 cores are needed for devices of 4096 cores each, this process may use" in attempt.record["reason"]


def test_a_run_is_bound_to_the_cores_of_its_devices(project):
    attempt = Attempt(project, "hang")
    launcher = attempt.start()
    try:
        training = wait_for_training(launcher, attempt)
        assert len(training.cpu_affinity()) == 1
        assert psutil.Process(launcher.pid).cpu_affinity() == sorted(os.sched_getaffinity(0)), (
            "the launcher is not bound"
        )
    finally:
        launcher.terminate()
        launcher.wait(timeout=HANG_S)


@pytest.mark.parametrize("is_changed", [False, True])
def test_two_runs_of_one_user_are_not_measured_at_the_same_time(project, tmp_path, is_changed):
    """The second does not read its data meanwhile either: it sees a change that is made while it waits."""
    first, second = Attempt(project, "wait_for_file"), Attempt(Project(tmp_path / "other"))
    launcher = first.start()
    wait_for_training(launcher, first)
    waiting = second.start()
    deadline = time.monotonic() + HANG_S
    while not (second.attempt / "attempt.json").exists():
        assert time.monotonic() < deadline and waiting.poll() is None, "the second launcher did not start"
        time.sleep(0.05)
    time.sleep(2.0)
    assert not list(second.attempt.glob("processes-*")) and waiting.poll() is None, "the second waits for the first"
    if is_changed:
        (second.folder / "data" / "arrays" / "train_labels.npy").write_bytes(b"changed")
    (project.folder / "go_on").touch()
    assert launcher.wait(timeout=HANG_S) == 0 and waiting.wait(timeout=HANG_S) == int(is_changed)
    assert not is_changed or "train_labels.npy: SHA-256 is" in second.record["reason"]


def test_a_refused_run_is_published_without_training(project):
    attempt = Attempt(project)
    attempt.command += ["--parity", "failed", "--refuse", "gradients on 2 devices: 1, allowed 0.001"]
    assert attempt.run() == 0
    assert attempt.published == RUN_FILES
    record = attempt.run_record
    assert (record["status"], record["reason"]) == ("failed_parity", "gradients on 2 devices: 1, allowed 0.001")
    assert (attempt.run_dir / "events.jsonl").read_text() == ""

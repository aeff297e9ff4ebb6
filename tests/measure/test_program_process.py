"""The process that starts a program takes all of its reports, however it ends, and stays while others need it."""

import dataclasses
import json
import multiprocessing
import os
import subprocess
import sys
import time

import pytest

from helpers.messages import says
from howmanygpus.measure.host.processes import DEVICE_CORES_VARIABLE
from howmanygpus.measure.program import process, progress, watching
from howmanygpus.measure.program.process import run
from howmanygpus.measure.program.ranks import time_processes
from howmanygpus.measure.program.reports import NUMBER_FORM
from howmanygpus.measure.program.spec import ProgramSpec
from howmanygpus.measure.program.watching import Watcher
from howmanygpus.measure.records import AttemptFolder
from project import ROOT

OUTCOME = '{"status": "unsupported", "reason": "no such card"}'


def make_spec(command: str, start: str = "once", num_gpus: int = 1) -> ProgramSpec:
    program = {"command": command, "start": start, "files": {}, "report": None, "axes": {}, "environment": None}
    program |= {"python": None, "modules": [], "container": None}
    launcher = "plain" if start == "once" else start
    return ProgramSpec(
        *("p", "own_data", "p", {}, "p", "base", "program", "fp32", "cpu", "cpu", 1, num_gpus, 32, 1, 32 * num_gpus),
        *(1, 5, "program", start, launcher, 1, 0, program),
    )


@pytest.mark.parametrize(
    ("written", "ends", "outcome"),
    [
        (f"echo '{OUTCOME}'", 1, ("unsupported", "no such card")),
        ("""echo '{"step": 1, "loss": NaN}'""", 1, ("diverged", "training loss is nan at step 1")),
        ("""printf '{"step": 1, "lo'""", 3, None),
    ],
    ids=["outcome", "loss", "half a line"],
)
def test_reports_right_before_a_failure_count(tmp_path, monkeypatch, written, ends, outcome):
    """The program ends before the thread that follows its reports looks again. Half a line is no report."""
    monkeypatch.setattr(watching, "POLL_S", 30.0)
    monkeypatch.setattr(os, "environ", os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"})
    command = f"sleep 0.2; {written.replace('{', '{{').replace('}', '}}')} >> $HOWMANYGPUS_REPORT; exit {ends}"
    attempt = AttemptFolder(tmp_path)
    assert run(make_spec(command), attempt, time.time()) == ends
    if outcome is None:
        assert not attempt.outcome.exists()
        assert attempt.error_of(0).read_text() == "the program ended with exit status 3"
        return
    record = json.loads(attempt.outcome.read_text())
    assert (record["status"], record["reason"]) == outcome


@pytest.mark.parametrize(
    ("losses", "is_named"),
    [(["0.69"] * 10, True), (["0.69"] * 9, False), (["0.69"] * 9 + ["0.68"], False), ([], False)],
    ids=["equal", "few", "one differs", "none"],
)
def test_a_loss_that_never_changes_is_named(tmp_path, monkeypatch, losses, is_named):
    """As with one autocast around the whole loop: steps are done and measured, and all see the first weights."""
    monkeypatch.setattr(os, "environ", os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"})
    reports = [{"step": step, "loss": float(loss)} for step, loss in enumerate(losses, start=1)] or [{"step": 1}]
    (tmp_path / "reports").write_text("".join(json.dumps(report) + "\n" for report in reports))
    attempt = AttemptFolder(tmp_path / "attempt")
    attempt.path.mkdir()
    assert run(make_spec(f"cat {tmp_path}/reports >> $HOWMANYGPUS_REPORT"), attempt, time.time()) == 0
    record = json.loads(attempt.outcome.read_text())
    assert record["status"] == "completed"
    assert ("0.69" in record["reason"]) == is_named


def test_the_wait_for_output_that_another_process_holds_open_is_no_time_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "GRACE_S", 1.5)
    monkeypatch.setattr(os, "environ", os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"})
    command = """echo '{{"step": 1}}' >> $HOWMANYGPUS_REPORT; sleep 10 & true"""
    attempt, started = AttemptFolder(tmp_path), time.time()
    assert run(make_spec(command), attempt, started) == 0
    assert json.loads(attempt.outcome.read_text())["wall_time_s"] <= time.time() - started - process.GRACE_S


LOOP = "for step in 1 2 3 4 5 6 7 8 9; do sleep {wait}; {say} >> {where}; done"


def run_control(tmp_path, monkeypatch, control: str, command: str, **changes) -> dict:
    """Run a program of a control run, and return its outcome."""
    monkeypatch.setattr(os, "environ", os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"})
    spec = make_spec(command.replace("{", "{{").replace("}", "}}"))
    spec.program.update(control=control, **changes)
    attempt = AttemptFolder(tmp_path)
    run(spec, attempt, time.time())
    return json.loads(attempt.outcome.read_text())


REPORT_STEP = """echo "{\\"step\\": $step, \\"loss\\": NaN}" """
SAY_CONTROL = """echo "{\\"control\\": \\"$HOWMANYGPUS_CONTROL\\"}" >> $HOWMANYGPUS_REPORT; """


@pytest.mark.parametrize("control", ["resident_input", "no_exchange"])
@pytest.mark.parametrize("heard_s", [0.1, 60.0], ids=["it goes on", "it ends before"])
def test_a_program_that_leaves_nothing_out_is_told_the_lines(tmp_path, monkeypatch, control, heard_s):
    monkeypatch.setattr(progress, "HEARD_S", heard_s)
    command = LOOP.format(wait=0.1, say=REPORT_STEP, where="$HOWMANYGPUS_REPORT")
    outcome = run_control(tmp_path, monkeypatch, control, command)
    assert outcome["status"] == "unsupported" and says(outcome["reason"], "control()", f'control("{control}")')


def test_a_control_run_has_a_rate_whatever_its_loss_is(tmp_path, monkeypatch):
    command = SAY_CONTROL + LOOP.format(wait=0.02, say=REPORT_STEP, where="$HOWMANYGPUS_REPORT")
    outcome = run_control(tmp_path, monkeypatch, "no_exchange", command)
    assert (outcome["status"], outcome["steps"]) == ("completed", 9)


def test_a_program_whose_output_is_read_says_in_the_file_what_it_leaves_out(tmp_path, monkeypatch):
    """Steps in its file are none of the run, and what is no report says nothing."""
    other = (
        """echo "{\\"step\\": 77, \\"parameters\\": 5}" >> $HOWMANYGPUS_REPORT; echo oops >> $HOWMANYGPUS_REPORT; """
    )
    command = SAY_CONTROL + other + LOOP.format(wait=0.02, say='echo "step $step"', where="/dev/stdout")
    outcome = run_control(tmp_path, monkeypatch, "resident_input", command, report=["step (?P<step>[0-9]+)"])
    assert (outcome["status"], outcome["steps"], outcome["reported"]) == ("completed", 9, {"parameters": 5})


def test_a_control_run_ends_when_its_rate_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "CONTROL_S", 0.2)
    monkeypatch.setattr(progress, "CONTROL_WINDOWS", 2)
    command = SAY_CONTROL + LOOP.format(wait=0.1, say=REPORT_STEP, where="$HOWMANYGPUS_REPORT") + "; sleep 100"
    began = time.monotonic()
    outcome = run_control(tmp_path, monkeypatch, "resident_input", command)
    assert outcome["status"] == "completed" and outcome["measured_steps"] >= 2 and time.monotonic() - began < 60


def test_the_processes_of_a_control_run_have_their_own_seconds(tmp_path):
    """The first one measured 4 steps; the second needs twice as long for one, and was stopped behind."""
    spec = make_spec("true", num_gpus=2)
    attempt, times = AttemptFolder(tmp_path), [100.0 + 2 * step for step in range(8)]
    lines = [json.dumps({"step": step, "time": moment}) for step, moment in enumerate(times)]
    (tmp_path / "report.jsonl.rank1@n7").write_text("\n".join([*lines, '{"ste']))
    time_processes(spec, attempt, {"measured_s": 4.0, "measured_steps": 4})
    found = [json.loads(attempt.times_of(rank).read_text()) for rank in (0, 1)]
    assert found == [{"rank": 0, "measured_s": 4.0}, {"rank": 1, "measured_s": 8.0, "hostname": "n7"}]


def test_processes_of_which_one_reports_nothing_have_no_seconds(tmp_path):
    time_processes(make_spec("true", num_gpus=2), AttemptFolder(tmp_path), {"measured_s": 4.0, "measured_steps": 4})
    assert not list(tmp_path.glob("times*"))


@pytest.mark.parametrize("report", [None, ["step (?P<step>[0-9]+)"]], ids=["file", "output"])
def test_a_report_that_cannot_be_stored_fails_the_run(tmp_path, report):
    """Otherwise the reports before it would be taken for the whole training."""
    spec = make_spec("true")
    spec.program["report"] = report
    watcher = Watcher(spec, AttemptFolder(tmp_path), time.time(), None)

    def write(event: dict) -> None:
        raise OSError(28, "No space left on device")

    watcher.progress._write = write
    watcher.path.open("a").write('{"step": 1}\n') if report is None else watcher.handle_output_line(
        "step 1", time.monotonic()
    )
    watcher.close()
    assert watcher.error == "OSError: [Errno 28] No space left on device" and watcher.ended.is_set()


def test_other_work_is_measured_from_the_end_of_warmup_to_the_end_of_the_program(tmp_path):
    steps = []

    class Others:
        cpu_frac, gpu_processes = 0.25, 3

        def start(self):
            steps.append(("start", watcher.progress.steps))

        def stop(self):
            steps.append(("stop", watcher.progress.steps))

    spec = dataclasses.replace(make_spec("true"), warmup_steps=3)
    spec.program["report"] = ["step (?P<step>[0-9]+)"]
    watcher = Watcher(spec, AttemptFolder(tmp_path), time.time(), Others())
    for step in range(1, 9):
        watcher.handle_output_line(f"step {step}", time.monotonic())
    watcher.close()
    assert steps == [("start", 3), ("stop", 8)]
    assert watcher.describe_disturbance() == {"other_cpu_frac": 0.25, "other_gpu_processes": 3}


def test_other_processes_stay_until_the_first_has_looked_at_them(tmp_path):
    """Else their time is taken for that of others: nobody knows what a process that is gone has computed."""
    attempt = AttemptFolder(tmp_path)
    attempt.spec.write_text(json.dumps(make_spec("true", "mpirun", num_gpus=2).to_dict()))
    core = str(min(os.sched_getaffinity(0)))
    variables = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
    variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", DEVICE_CORES_VARIABLE: f"{core};{core}"}
    words = ["--attempt", str(tmp_path), "--started-at", str(time.time())]
    command = [sys.executable, "-m", "howmanygpus.measure.program.process", *words]
    environment = os.environ | variables | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    (tmp_path / "ended.rank0").touch()
    with subprocess.Popen(command, env=environment) as second:
        while not (tmp_path / "ended.rank1").exists() and second.poll() is None:
            time.sleep(0.01)
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(timeout=1.0)
        attempt.outcome.write_text("{}")
        assert second.wait(timeout=30) == 0


def follow_output(tmp_path, patterns: list[str], lines: list[str]) -> Watcher:
    spec = make_spec("true")
    spec.program["report"] = patterns
    watcher = Watcher(spec, AttemptFolder(tmp_path), time.time(), None)
    for line in lines:
        watcher.handle_output_line(line, time.monotonic())
    watcher.close()
    return watcher


PATTERN = r"^step (?P<step>\d+): loss (?P<loss>[0-9.]+), \d+ tokens"


@pytest.mark.parametrize("text", ["nan", "-nan", "inf", "2.0e-05", "-0.12"])
def test_an_expression_that_stops_at_a_number_is_named(tmp_path, text):
    """The steps after it would be taken for an evaluation, and the run for completed."""
    watcher = follow_output(tmp_path, [PATTERN], ["step 1: loss 2.0, 8 tokens", f"step 2: loss {text}, 16 tokens"])
    assert watcher.progress.steps == 1 and says(watcher.error, f"step 2: loss {text}", NUMBER_FORM)


def test_a_step_that_goes_back_is_named_with_its_line(tmp_path):
    """It tells which other bar the expression matches."""
    lines = ["epoch 0: 4/5 [00:01]", "epoch 0: 5/5 [00:02]", "evaluation: 0/3 [00:00]"]
    watcher = follow_output(tmp_path, [r"(?P<step>\d+)/\d+ \["], lines)
    assert says(watcher.error, "step 0", "step 5", lines[-1])


def test_lines_of_other_ranks_and_of_another_form_are_not_missed(tmp_path):
    lines = ["[0] step 1: loss 2.0", "[1] step 1: loss nan and more", "[1] step 1: loss 2.0", "[0] step 2: loss 1.9"]
    watcher = follow_output(tmp_path, [r"\[0\] step (?P<step>\d+): loss (?P<loss>[0-9.]+)"], lines)
    assert (watcher.progress.steps, watcher.error) == (2, "")


def test_a_program_that_ends_before_the_steps_that_it_announces_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"})
    spec = make_spec("echo step 1 of 3; echo step 2 of 3 || true")
    spec.program["report"] = [r"step (?P<step>\d+) of"]
    attempt = AttemptFolder(tmp_path)
    assert run(spec, attempt, time.time()) == 0
    outcome = json.loads(attempt.outcome.read_text())
    assert (outcome["status"], outcome["missing_steps"]) == ("completed", 1)
    assert says(outcome["reason"], "step 2 of 3")


STEPS = [f"""echo '{{{{"step": {step}}}}}' >> $HOWMANYGPUS_REPORT""" for step in (0, 2, 4)]
STOP = "(P=$PPID; kill -STOP $P; sleep 0.3; kill -CONT $P); "
"""The shell's parent is the process that runs the program."""


@pytest.mark.parametrize(("between", "status"), [("", "completed"), (STOP, "suspended")])
def test_a_program_that_was_stopped_and_continued_is_no_measurement(tmp_path, monkeypatch, between, status):
    monkeypatch.setattr(os, "environ", os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"})
    attempt, command = AttemptFolder(tmp_path), f"{STEPS[0]}; {STEPS[1]}; {between}{STEPS[2]}"
    # A shell whose own child is stopped would take back the terminal.
    arguments = (make_spec(command), attempt, time.time())
    child = multiprocessing.get_context("fork").Process(target=run, args=arguments)
    child.start()
    child.join()
    outcome = json.loads(attempt.outcome.read_text())
    assert outcome["status"] == status, outcome["reason"]
    assert ("stopped 1 x" in outcome["reason"]) == bool(between)


@pytest.mark.parametrize("by_s", [0.0, 40.0])
def test_the_time_of_day_that_is_set_while_a_program_runs_is_noticed(tmp_path, monkeypatch, by_s):
    monkeypatch.setattr(os, "environ", os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"})
    read, is_set = time.time, tmp_path / "is_set"
    monkeypatch.setattr(time, "time", lambda: read() + by_s * is_set.exists())
    attempt, command = AttemptFolder(tmp_path), f"{STEPS[0]}; {STEPS[1]}; sleep 0.3; touch {is_set}; {STEPS[2]}"
    assert run(make_spec(command), attempt, time.time()) == 0
    outcome = json.loads(attempt.outcome.read_text())
    assert outcome["status"] == ("clock_mismatch" if by_s else "completed")
    assert ("the clock was set" in outcome["reason"]) == bool(by_s)

"""The live view fits the terminal, whatever its size and however many runs there are."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from howmanygpus.invocation.progress.following import RunFollower
from howmanygpus.invocation.progress.tracking import Step, Tracker
from howmanygpus.invocation.progress.view import describe_clock, draw, make_console
from howmanygpus.study.durations import ExpectedDuration
from howmanygpus.study.runs import Run


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gate.log").write_text("begins\nstep 3 of 5\n")


def make_steps(num_runs):
    gate = SimpleNamespace(
        rule=SimpleNamespace(name="observe_parity"),
        wildcards_dict={"cell": "network/sleeping_cpu-0123abcd"},
        log=["gate.log"],
        is_group=lambda: False,
    )
    runs = (Run("grid", "sleeping", "base", "arrays", "fp32", "cpu", 2, 64, repeat) for repeat in range(num_runs))
    return {0: Step(gate, "parity gate", None)} | {n: Step(None, "runs", run) for n, run in enumerate(runs, 1)}


def render(num_runs, num_running, width, height, num_queued=0, usual_s=None):
    """Return the lines of the view of a call whose first runs go on, the first of these in SLURM's queue."""
    steps = make_steps(num_runs)
    tracker, followers = Tracker(steps, is_serial=True), {}
    tracker.expect = lambda job: ExpectedDuration(usual_s, "records")
    tracker.expected = {step.run.path: ExpectedDuration(60.0, "records") for step in steps.values() if step.run}
    for job_id in range(num_running + 1):
        tracker.begin(job_id)
        if run := steps[job_id].run:
            followers[run.path] = RunFollower(run.path, is_queued=job_id <= num_queued)
    screen = Console(file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None)
    screen.print(draw(tracker, followers, width, height))
    return screen.file.getvalue().splitlines()


def test_stages_and_runs_are_shown_with_their_state():
    gate, runs, running = render(8, 1, 120, 30)
    assert gate.split()[:2] == ["parity", "gate"] and "observe_parity sleeping_cpu, 0:00, step 3 of 5" in gate
    assert "0 of 8 done; about 8 min left (estimate)" in runs
    assert running.split() == ["sleeping", "2", "x", "cpu", "batch", "64", "repeat", "0", "starts", "0:00"]


def test_a_step_that_was_done_before_says_how_long_it_took():
    gate, *_ = render(8, 1, 140, 30, usual_s=93.0)
    assert "0:00 of about 1:33, step 3 of 5" in gate


@pytest.mark.parametrize(("num_runs", "num_running"), [(1, 1), (40, 1), (40, 30), (500, 100)])
@pytest.mark.parametrize(("width", "height"), [(60, 20), (100, 24), (200, 60)])
def test_no_line_is_too_long_and_none_is_lost(num_runs, num_running, width, height):
    num_queued = num_running // 3
    lines = render(num_runs, num_running, width, height, num_queued)
    assert max(map(len, lines)) <= width and len(lines) < height
    shown = sum("sleeping 2 x cpu" in line for line in lines)
    more = [int(line.split()[1]) for line in lines if line.strip().startswith("and ")]
    assert shown and shown + sum(more) + num_queued == num_running
    assert [line.strip() for line in lines if "queue" in line] == [f"{num_queued} in SLURM's queue"] * bool(num_queued)
    assert f"0 of {num_runs} done" in "".join(lines)


@pytest.mark.parametrize(("terminal", "is_shown"), [("xterm", True), ("dumb", False)])
def test_a_terminal_that_cannot_move_its_cursor_has_no_view(monkeypatch, terminal, is_shown):
    monkeypatch.setenv("TERM", terminal)
    for name in ("TTY_COMPATIBLE", "TTY_INTERACTIVE", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    stream = io.StringIO()
    stream.isatty = lambda: True
    assert (make_console(stream, no_color=False) is not None) == is_shown


def test_clocks_have_hours_if_there_are_any():
    assert [describe_clock(seconds) for seconds in (7, 92.9, 7510)] == ["0:07", "1:32", "2:05:10"]

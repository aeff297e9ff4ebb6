"""A clock that is set while a program runs neither fails its run nor changes its rate."""

import json
import time
from types import SimpleNamespace

import pytest

from howmanygpus.measure.program import watching
from howmanygpus.measure.program.progress import Progress
from howmanygpus.measure.program.reports import parse_json
from howmanygpus.measure.program.timeline import Timeline
from howmanygpus.measure.program.watching import Watcher

STEP_S = 0.1


class Host:
    """The clocks of a host, as simulated seconds."""

    def __init__(self, monkeypatch):
        self.now, self.offset = 0.0, 1.7e9
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "time", lambda: self.offset + self.now)


@pytest.mark.parametrize("jump_s", [-30.0, -0.5, 30.0])
def test_setting_the_clock_does_not_change_rates_read_from_output(tmp_path, monkeypatch, jump_s):
    host = Host(monkeypatch)
    program = {"report": [r"step (?P<step>\d+)"], "start": "once"}
    spec = SimpleNamespace(program=program, num_nodes=1, warmup_steps=2, global_batch_size=32)
    attempt = SimpleNamespace(events=tmp_path / "events.jsonl", path=tmp_path)
    watcher = Watcher(spec, attempt, host.offset, None)
    for step in range(1, 21):
        host.now += STEP_S
        host.offset += jump_s if step == 10 else 0.0
        watcher.handle_output_line(f"step {step}\n", time.monotonic())
    watcher.close()
    clocks, ended_at = watcher.progress.clocks, watcher.convert_to_wall_time(watching.time.monotonic())
    assert not watcher.error
    assert (clocks.measured_steps, round(clocks.measured_s, 6)) == (18, 1.8)
    assert watcher.progress.describe(ended_at)["wall_time_s"] == pytest.approx(2.0)


def follow(looks: list[tuple[float, list[dict]]]) -> tuple[Progress, list[dict]]:
    """Take the lines of each look at the file of reports, with the moment of the look. The run starts at 1000."""
    events: list[dict] = []
    timeline, progress = Timeline(1000.0), Progress(0, 32, 1000.0, events.append)
    for arrived, lines in looks:
        for report in timeline.place([parse_json(json.dumps(line), arrived) for line in lines], arrived):
            progress.add(report)
    return progress, events


@pytest.mark.parametrize("jump_s", [-3.0, -0.5, 0.5, 30.0])
@pytest.mark.parametrize("step_s", [0.02, 0.1, 2.0])
def test_setting_the_clock_does_not_change_rates_reported_in_a_file(jump_s, step_s):
    """Each report has its time, and arrives at the next look, at most 0.05 s later."""
    looks = []
    for step in range(40):
        moment = 1001.0 + step * step_s
        line = {"step": step, "time": moment + (jump_s if step >= 20 else 0.0)}
        looks.append((moment + 0.01 + 0.03 * (step % 2), [line]))
    progress, events = follow(looks)
    windows = [event for event in events if event["phase"] == "train"]
    assert progress.clocks.measured_s == pytest.approx(len(windows) * step_s, rel=0.01)
    assert 36 <= len(windows) <= 38 and progress.steps == 39


def test_reports_that_a_program_writes_late_and_together_keep_their_times():
    lines = [{"step": step, "time": 1001.0 + step} for step in range(11)]
    progress, _ = follow([(1060.0, lines)])
    assert (progress.init_s, progress.clocks.measured_steps, progress.clocks.measured_s) == (1.0, 9, 9.0)


def test_reports_in_blocks_keep_their_times():
    """A program that buffers its file writes ten reports at once."""
    blocks = [[{"step": step, "time": 1001.0 + step} for step in range(10 * i, 10 * i + 10)] for i in range(5)]
    progress, _ = follow([(block[-1]["time"] + 0.04, block) for block in blocks])
    assert (progress.clocks.measured_steps, progress.clocks.measured_s) == (48, 48.0)


def test_a_clock_that_is_ahead_on_another_host_is_no_clock_that_is_set():
    progress, _ = follow([(1001.0 + step, [{"step": step, "time": 1101.0 + step}]) for step in range(11)])
    assert (progress.clocks.measured_steps, progress.clocks.measured_s) == (9, 9.0)


def test_a_look_that_comes_late_is_no_clock_that_is_set(tmp_path):
    """A busy machine pauses the thread that looks, here while it begins to measure other work."""
    program = {"report": None, "start": "once"}
    spec = SimpleNamespace(program=program, num_nodes=1, warmup_steps=2, global_batch_size=32)
    attempt = SimpleNamespace(events=tmp_path / "events.jsonl", path=tmp_path)
    others = SimpleNamespace(start=lambda: time.sleep(0.8), stop=lambda: None)
    watcher = Watcher(spec, attempt, time.time(), others)
    with watcher.path.open("a") as file:
        for step in range(13):
            file.write(json.dumps({"step": step, "time": time.time()}) + "\n")
            file.flush()
            time.sleep(0.02)
    watcher.close()
    assert (watcher.progress.clocks.measured_steps, watcher.error) == (10, "")

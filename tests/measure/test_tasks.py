"""Processes that a launcher has started meet, copy their data, learn their place, and report which failed first."""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from hanging import HANG_S
from helpers.specs import make_spec
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.host.telemetry import Watched, get_node_path, get_start_path
from howmanygpus.measure.launch import rank_process, spawn
from howmanygpus.measure.launch.rendezvous import open_rendezvous, read_all
from howmanygpus.measure.launch.staging import STAGED
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.site.jobs.endings import read_crash
from project import ROOT

SPEC = make_spec(launcher="per_device", num_gpus=2, data_dir="arrays")
COPYING_S = 0.5
CORES = sorted(os.sched_getaffinity(0))


def prepare(folder: Path, rank: int, seen: Path) -> None:
    """Prepare one of two processes, of which the second one copies for longer. Writes what the process did and saw."""
    os.environ |= {"HOWMANYGPUS_RANK": str(rank), "HOWMANYGPUS_LOCAL_RANK": "0", "HOWMANYGPUS_WORLD_SIZE": "2"}
    did, telemetry, wait_for_all = [], [], rank_process.wait_for_all
    rank_process.start_telemetry = lambda folder, node, watched, interval_s: telemetry.append((node, watched.cores))

    def wait(*arguments):
        others = wait_for_all(*arguments)
        did.append("met")
        return others

    def stage(data_dir, scratch):
        did.append("copied")
        time.sleep(COPYING_S * rank)
        return Path(scratch) / data_dir, COPYING_S * rank

    rank_process.wait_for_all, rank_process.stage = wait, stage
    os.sched_setaffinity(0, {CORES[-rank]})  # as SLURM binds a task
    rank_process.prepare(folder, SPEC, Placement("slurm", scratch="/scratch", bind_cores=False))
    staging_s = [process.get("staging_s") for process in read_all(folder)]
    seen.write_text(json.dumps([did, staging_s, os.environ[STAGED], telemetry]))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Return what each of two processes did and saw that were prepared together."""
    folder = tmp_path_factory.mktemp("attempt")
    meeting = open_rendezvous(folder, SPEC, Placement())
    seen = [folder / f"seen{rank}.json" for rank in range(2)]
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=prepare, args=(meeting, rank, seen[rank])) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=HANG_S)
    assert [process.exitcode for process in processes] == [0, 0]
    return [json.loads(path.read_text()) for path in seen]


def test_a_node_that_copies_its_data_is_not_missing(prepared):
    """If it copied before it announced itself, the others would give up, and each attempt would begin the copy anew."""
    for did, staging_s, staged, _ in prepared:
        assert did == ["met", "copied"] and staged == "/scratch/arrays"
        assert staging_s == [0.0, COPYING_S], "nobody goes on before all have copied"


def test_each_device_of_a_node_is_watched_on_the_cores_of_its_process(prepared):
    """SLURM has bound each process to a core of its own, and none knows those of the other."""
    assert [telemetry for *_, telemetry in prepared] == [[[0, [[CORES[0]], [CORES[-1]]]]]] * 2


def test_the_first_process_of_a_node_starts_its_sampler(tmp_path, monkeypatch):
    """It ends with what it watches."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "workflow" / "lib"))
    get_start_path(tmp_path).write_text(repr(time.time() - 100))
    others = psutil.Process().children()  # of tests that ran here before
    watched = subprocess.Popen(["sleep", "600"])
    rank_process.start_telemetry(tmp_path, 3, Watched(watched.pid, [], [[0], [0]], False), 0.02)
    path, deadline = get_node_path(tmp_path, 3), time.monotonic() + HANG_S
    while path.read_text().count("cpu1") < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    (sampler,) = [child for child in psutil.Process().children() if child not in others and child.pid != watched.pid]
    watched.kill()
    watched.wait()
    sampler.wait(60)
    lines = [line.split(",") for line in path.read_text().splitlines()[1:]]
    assert {(node, device) for _, node, device, *_ in lines} == {("3", "cpu0"), ("3", "cpu1"), ("3", "host")}
    assert 100 < float(lines[0][0]) < 500, "on the clock of the run's events"


KILLED = """
import os, signal, time

if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(600)
"""


def test_a_process_that_the_kernel_kills_is_named_with_its_signal(tmp_path):
    """The search for the largest batch takes it for exhausted memory."""
    (tmp_path / "killed.py").write_text(KILLED)
    attempt = AttemptFolder(tmp_path / "attempt")
    attempt.path.mkdir()
    meeting = open_rendezvous(attempt.path, SPEC, Placement(bind_cores=False))
    folders = [str(ROOT / "workflow" / "lib"), str(tmp_path)]
    command = [
        sys.executable,
        "-m",
        "howmanygpus.measure.launch.spawn",
        "--num-processes",
        "2",
        "--folder",
        str(meeting),
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(folders)}
    ended = subprocess.run([*command, "killed"], env=environment, capture_output=True, text=True, timeout=HANG_S)
    assert ended.returncode == 128 + 9, ended.stderr
    attempt.said.write_text(ended.stderr)
    assert read_crash(attempt, ended.returncode)["reason"] == "process 1 failed first, killed by SIGKILL"


@pytest.mark.parametrize(("statuses", "named"), [([0, -6], True), ([-6, 1], False)])
def test_of_processes_that_fail_together_none_is_named_as_the_first(monkeypatch, capsys, statuses, named):
    """One of them lost its connection to the other, whose traceback is the reason."""
    ends = iter(statuses)

    class TryEnding:
        def __init__(self, *command, **options):
            self.returncode = next(ends)

        def poll(self):
            return self.returncode

        wait = poll

    monkeypatch.setattr(spawn.subprocess, "Popen", TryEnding)
    monkeypatch.setattr(spawn, "die_with_parent", lambda: None)
    monkeypatch.setattr(sys, "argv", ["spawn", "--num-processes", "2", "--folder", "meeting", "module"])
    with pytest.raises(SystemExit) as ended:
        spawn.main()
    assert ended.value.code == 128 + 6
    assert ("Process name:" in capsys.readouterr().err) == named

"""
One process of a program's run: starts the command, passes on its output, and records what the program reports.

The first process leaves the outcome in the attempt's folder, after the programs of all processes have ended. A program
that fails leaves the end of its output as the reason.
"""

import argparse
import codecs
import functools
import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import psutil

from howmanygpus.base.login_shell import ANNOUNCE, REACHED, explain_unreached
from howmanygpus.base.secrets import make_hiding
from howmanygpus.files import write_json_atomic
from howmanygpus.measure.host.gpus import describe_gpu, list_gpu_uuids
from howmanygpus.measure.host.other_work import OtherWork
from howmanygpus.measure.host.processes import Suspensions, bind_to_device_cores, die_with_parent, stop_process_tree
from howmanygpus.measure.launch.launchers import count_processes, count_processes_per_node
from howmanygpus.measure.launch.rank_process import RANK_VARIABLES, read_place
from howmanygpus.measure.loop.clocks import ClockFaults, PhaseTimer, read_second_clock
from howmanygpus.measure.program.command import build_shell, fill_command
from howmanygpus.measure.program.ending import Ending
from howmanygpus.measure.program.ranks import time_processes
from howmanygpus.measure.program.reports import CONTROL_VARIABLE, LINE_END, REPORT_VARIABLE, TERMINAL
from howmanygpus.measure.program.spec import ProgramSpec
from howmanygpus.measure.program.watching import POLL_S, REPORTS, Watcher
from howmanygpus.measure.records import ENDED_WELL, AttemptFolder

GRACE_S = 10.0


def read_rank(spec: ProgramSpec) -> tuple[int, int]:
    """Return this process's rank, and its rank on its node. A process that no launcher started has 0, 0."""
    if not any(names[0] in os.environ for names in RANK_VARIABLES) or spec.program["start"] == "once":
        return 0, 0
    # A single process on this machine may run inside a job of SLURM that has nothing to do with it.
    place = read_place()
    return (place.rank, place.local_rank) if place.num_processes == count_processes(spec) else (0, 0)


def build_environment(spec: ProgramSpec, rank: int, local_rank: int, report: Path | None) -> dict[str, str]:
    """Return the environment variables of the program. report: where it writes reports, on the first process.

    In a control run all processes report, because each may be the slow one.
    """
    left_out = ("PYTHONPATH", REPORT_VARIABLE, CONTROL_VARIABLE)
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        environment.pop(name, None)
    if spec.program["start"] != "once":
        per_node = count_processes_per_node(spec.launcher, spec.devices_per_node)
        ranks = {"RANK": rank, "LOCAL_RANK": local_rank, "WORLD_SIZE": count_processes(spec)}
        ranks |= {"LOCAL_WORLD_SIZE": per_node, "NODE_RANK": rank // per_node}
        environment |= {name: str(value) for name, value in ranks.items()}
    if report:
        environment[REPORT_VARIABLE] = str(report.absolute())
    if control := spec.program.get("control"):
        environment[CONTROL_VARIABLE] = control
    return environment


def read_lines(stream: IO[bytes]) -> Iterator[tuple[str, float]]:
    """Yield the lines of a stream, without empty ones, as soon as they end: also where a progress bar moves back.

    With each comes when the last of its text arrived, by time.monotonic(). A bar that begins with a carriage return,
    such as tqdm's, is ended by its next drawing only. Python's own text streams keep a carriage return until they know
    whether a line feed follows.
    """
    decoder, rest, arrived = codecs.getincrementaldecoder("utf-8")("replace"), "", 0.0
    while chunk := os.read(stream.fileno(), 65536):
        now, begun = time.monotonic(), len(rest)
        *lines, rest = LINE_END.split(rest + decoder.decode(chunk))
        for line in lines:
            arrived, begun = now if _has_text(line[begun:]) else arrived, 0
            if line.strip():
                yield line, arrived
        arrived = now if _has_text(rest[begun:]) else arrived
    if rest.strip():
        yield rest, arrived


def _has_text(part: str) -> bool:
    """Return whether a terminal would show something of a part of a line."""
    return bool(TERMINAL.sub("", part).strip())


def run_program(command: list[str], environment: dict[str, str], watcher: Watcher | None) -> tuple[int, Ending, float]:
    """Run a command until it ends or the watcher needs no more.

    Returns its exit status, the end of its output without secrets, and when it ended by time.monotonic().
    """
    child = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=functools.partial(die_with_parent, parent=os.getpid()),
    )
    assert child.stdout is not None
    output: IO[bytes] = child.stdout
    ending, hide = Ending(), make_hiding(environment)

    def pass_on() -> None:
        for said, arrived in read_lines(output):
            if said == REACHED:
                ending.has_begun = True
                continue
            line = hide(said)
            with suppress(OSError):  # on a full disk; the program must not wait to write more
                print(line, flush=True)
            if watcher:
                watcher.handle_output_line(said, arrived)
            ending.add(line, watcher.num_reports if watcher else 0)

    reader = threading.Thread(target=pass_on, name="output", daemon=True)
    reader.start()
    while child.poll() is None:
        if watcher and watcher.ended.is_set():
            stop_process_tree(psutil.Process(child.pid), GRACE_S)
        time.sleep(POLL_S)
    ended_at = time.monotonic()
    # A process that the program left behind may hold the output open.
    reader.join(GRACE_S)
    return child.wait(), ending, ended_at


def wait_for_siblings(attempt: AttemptFolder, rank: int, num_processes: int) -> None:
    """Wait until the programs of all processes have ended well. If one fails, its launcher ends the others."""
    (attempt.path / f"ended.rank{rank}").touch()
    while len(list(attempt.path.glob("ended.rank*"))) < num_processes:
        time.sleep(POLL_S)


def wait_for_first(attempt: AttemptFolder) -> None:
    """Wait until the first process has an outcome. If it has none, its launcher ends the others.

    It looks how long the processes of all programs have computed, which the kernel forgets when they are gone.
    """
    while not attempt.outcome.exists():
        time.sleep(POLL_S)


def describe_outcome(spec: ProgramSpec, watcher: Watcher, ended_at: float) -> dict[str, Any]:
    """Return the outcome of a program that ended well, or that reported one."""
    progress, code = watcher.progress, {"code": spec.program["files"]}
    status, reason = progress.status or "completed", progress.reason
    if status == "completed" and (ignored := progress.explain_ignored_control()):
        status, reason = "unsupported", ignored
    if status == "completed" and "stop_after" not in spec.program and (missing := progress.missing_steps):
        reason = f"it ended after step {progress.steps} of {progress.steps + missing} that its output announced"
    elif status == "completed":
        reason = reason or progress.describe_constant_loss()
    outcome = {"status": status, "reason": reason, **code}
    if status in ("out_of_memory", "unsupported"):
        return outcome
    uuids = list_gpu_uuids() if spec.device_kind == "cuda" else []
    return {
        **outcome,
        **progress.describe(watcher.convert_to_wall_time(ended_at)),
        "disturbance": watcher.describe_disturbance(),
        "num_processes": count_processes(spec),
        "device_model": describe_gpu(uuids[0])["name"] if uuids else None,
    }


def explain_missing_outcome(watcher: Watcher) -> str:
    """Say why a program that ended well has no outcome; empty if it has one."""
    if watcher.error:
        return watcher.error
    silence = watcher.explain_silence()
    return silence and f"{ENDED_WELL}{silence}"


def run(spec: ProgramSpec, attempt: AttemptFolder, started_at: float) -> int:
    """Run the program of this process and return the exit status."""
    (rank, local_rank), num_processes = read_rank(spec), count_processes(spec)
    if num_processes == spec.num_gpus and spec.launcher in ("per_device", "mpirun"):
        bind_to_device_cores(local_rank, spec.cores_per_device)
    others = OtherWork(str(attempt.path), list_gpu_uuids()) if spec.num_nodes == 1 else None
    watcher = Watcher(spec, attempt, started_at, others) if rank == 0 else None
    reports = attempt.path / REPORTS
    environment = build_environment(spec, rank, local_rank, reports if watcher or spec.program.get("control") else None)
    *shell, script = build_shell(spec, fill_command(spec, os.environ))
    command = [*shell, ANNOUNCE + script]
    # Reports have the time of day.
    laps = PhaseTimer(time.time, read_second_clock)
    with Suspensions() as suspensions:
        exit_status, ending, ended_at = run_program(command, environment, watcher)
    laps.end("window")
    if not ending.has_begun and exit_status >= 0:
        attempt.error_of(rank).write_text(explain_unreached())
        return 1
    if not exit_status and any(module in ending.module for module in spec.program["modules"]):
        attempt.error_of(rank).write_text(f"the program ran without a module of its study: {ending.module}")
        return 1
    if watcher and exit_status:
        # A program may report an outcome and fail at once.
        watcher.read_rest(is_cut=True)
    is_stopped = bool(watcher and watcher.ended.is_set())
    if exit_status and not is_stopped:
        if ending.memory:
            outcome = {"status": "out_of_memory", "reason": ending.memory, "code": spec.program["files"]}
            write_json_atomic(attempt.outcome, outcome)
        attempt.error_of(rank).write_text(ending.describe(exit_status))
        return exit_status if exit_status > 0 else 128 - exit_status
    if not is_stopped:
        wait_for_siblings(attempt, rank, num_processes)
    if watcher is None:
        if others:
            wait_for_first(attempt)
        return 0
    watcher.close()
    if mistake := explain_missing_outcome(watcher):
        attempt.error_of(rank).write_text(make_hiding(environment)(mistake))
        return 1
    outcome = describe_outcome(spec, watcher, ended_at)
    if outcome["status"] == "completed" and spec.program.get("control"):
        time_processes(spec, attempt, outcome)
    if outcome["status"] == "completed":
        outcome |= ClockFaults(laps.apart_s, stops=suspensions.stops, slept_s=suspensions.slept_s).judge()
    write_json_atomic(attempt.outcome, outcome)
    # A status other than 0 ends the other processes of a program that was stopped.
    return int(is_stopped)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempt", required=True, help="folder of this attempt, with its spec.json")
    parser.add_argument("--started-at", type=float, required=True, help="when the launcher started, seconds since 1970")
    arguments = parser.parse_args()
    die_with_parent()
    # The locale may lack characters of the program's output.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    attempt = AttemptFolder(arguments.attempt)
    spec = ProgramSpec(**json.loads(attempt.spec.read_text()))
    sys.exit(run(spec, attempt, arguments.started_at))


if __name__ == "__main__":
    main()

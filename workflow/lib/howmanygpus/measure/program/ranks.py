"""How long each process of a program took in a control run, in which they do not wait for each other."""

import time
from typing import Any

from howmanygpus.files import write_json_atomic
from howmanygpus.measure.program.progress import Progress
from howmanygpus.measure.program.reports import ReportError, parse_json
from howmanygpus.measure.program.spec import ProgramSpec
from howmanygpus.measure.program.watching import REPORTS
from howmanygpus.measure.records import AttemptFolder


def time_processes(spec: ProgramSpec, attempt: AttemptFolder, outcome: dict[str, Any]) -> None:
    """Write the seconds that each process needs for the measured steps, if all of them reported.

    Those of another process than the first are its own measured seconds per step, times the first one's steps: the run
    may have been stopped while it was behind. outcome: of the first process.
    """
    times: dict[int, dict[str, Any]] = {0: {"measured_s": outcome["measured_s"]}}
    for path in attempt.path.glob(f"{REPORTS}.rank*@*"):
        rank, host = path.name.removeprefix(f"{REPORTS}.rank").split("@", 1)
        progress = follow(spec, path.read_text(errors="replace").splitlines())
        if progress and progress.clocks.measured_steps:
            step_s = progress.clocks.measured_s / progress.clocks.measured_steps
            times[int(rank)] = {"measured_s": step_s * outcome["measured_steps"], "hostname": host}
    if len(times) != spec.num_gpus or not outcome["measured_steps"]:
        return
    for number, own in times.items():
        write_json_atomic(attempt.times_of(number), {"rank": number} | own)


def follow(spec: ProgramSpec, lines: list[str]) -> Progress | None:
    """Return what a process reported; None if it cannot be understood. The last line may be half a line."""
    progress = Progress(spec.warmup_steps, spec.global_batch_size, 0.0, lambda event: None)
    try:
        for line in lines:
            progress.add(parse_json(line, time.time()))
    except ReportError as error:
        print(f"reports of another process were not understood: {error}", flush=True)
        return progress if lines and line == lines[-1] else None
    return progress

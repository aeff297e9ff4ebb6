"""
Complete a planned run's specification and become its launcher, in the Python of its framework's environment.

A change of this file does not rerun a run, because the script ends before anything is measured. Its decisions are in
the specification, which is stored with the run and compared with the plan.
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from howmanygpus.base.environment import build_surroundings, parse_variable_names
from howmanygpus.measure.host.processes import die_with_parent
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.measure.spec import MODEL_PATH_KEYS
from howmanygpus.site.environments.find import find_launcher, resolve_python
from howmanygpus.site.jobs.attempts import (
    RUNS,
    DoneByAnotherError,
    create_attempt,
    list_launch_options,
    prefer_interpreter,
    read_verdict,
)
from howmanygpus.site.jobs.ledger import RUN, SIZE, is_packed, start_record
from howmanygpus.site.reference import plan_reference
from howmanygpus.site.retrying import sum_used_min
from howmanygpus.study.runs import Run, complete_spec

PARENT = os.getppid()
"""Process that started this one."""


def exec_launcher(python: str, module: str, options: list[str], environment: Mapping[str, str]) -> NoReturn:
    """Become the launcher, or the program that starts it in a container. Either ends with the parent of this process.

    The launcher's own option --parent would name another process than its parent in a container.
    """
    die_with_parent(signal.SIGTERM, PARENT)
    os.execve(python, [python, "-m", module, *options], environment)


def start_attempt(run: str, spec: dict, placement: dict) -> AttemptFolder:
    """Create the attempt and record its job, unless another call does the run."""
    try:
        attempt = create_attempt(run, spec, placement)
    except DoneByAnotherError as error:
        sys.exit(str(error))
    size, more = {key: spec[key] for key in SIZE}, {"framework": spec["framework"], "attempt": str(attempt.path)}
    start_record(RUN, run, size, is_packed(placement), **more)
    return attempt


def resolve_limit_min(arguments: argparse.Namespace, run: str) -> float:
    """Return the time limit of this attempt in minutes; with a budget, its earlier attempts have used a part of it."""
    if "limit_min" not in arguments.launch:
        return arguments.time_limit_min
    left = arguments.launch["limit_min"] - sum_used_min(run)
    if left <= 0:
        sys.exit(f"{arguments.run}: earlier attempts have used what the budget of device-hours had left for this run")
    return min(arguments.time_limit_min, left)


def start_program(arguments: argparse.Namespace, run: str) -> NoReturn:
    """Become the launcher of a user's program, in the workflow's own Python."""
    # Imported here because this module takes as long as all others, and most runs have no program.
    from howmanygpus.study.program.study import complete_program_spec

    spec = complete_program_spec(Run.from_path(run), arguments.settings)
    attempt = start_attempt(run, spec, arguments.launch["placement"])
    python = resolve_python(arguments.environment) if arguments.environment else spec["program"]["python"]
    prefer_interpreter(python)
    reference = plan_reference(arguments.launch.get("reference"))
    options = list_launch_options(attempt, run, arguments.time_limit_min, reference)
    exec_launcher(sys.executable, "howmanygpus.measure.program.launch", options, os.environ)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="run.json to write, below results/runs/")
    parser.add_argument("--settings", type=json.loads, required=True, help="what differs from the defaults, as JSON")
    parser.add_argument("--data", type=Path, nargs="?", help="dataset.json of the prepared data")
    parser.add_argument("--weights", type=Path, nargs="?", help="record of the initial weights, beside them")
    parser.add_argument("--environment", type=Path, nargs="?", help="record of the framework's environment")
    parser.add_argument("--verdict", type=Path, nargs="?", help="the parity gate's verdict on the framework")
    parser.add_argument(
        "--launch",
        type=json.loads,
        required=True,
        help="JSON: `parity` (required, report or off), `placement` (see measure.host.placement), where the model is, "
        "`limit_min` (what a budget has left for the run), and `reference` (see site.reference)",
    )
    parser.add_argument("--time-limit-min", type=float, required=True, help="minutes after which the run is stopped")
    arguments = parser.parse_args()
    run = str(arguments.run.parent.relative_to(RUNS))
    arguments.time_limit_min = resolve_limit_min(arguments, run)
    if "program" in arguments.settings:
        start_program(arguments, run)
    weights = str(arguments.weights.with_suffix(".safetensors"))
    settings = arguments.settings | {place: arguments.launch.get(place) for place in MODEL_PATH_KEYS}
    spec = complete_spec(Run.from_path(run), settings, str(arguments.data.parent), weights)
    python, placement = find_launcher(arguments.environment, arguments.launch["placement"])
    attempt = start_attempt(run, spec, placement)
    reference = plan_reference(arguments.launch.get("reference"))
    judged = read_verdict(arguments.verdict, arguments.launch["parity"], (spec["num_gpus"], spec["num_nodes"]))
    options = list_launch_options(attempt, run, arguments.time_limit_min, reference, judged)
    scratch = arguments.launch["placement"].get("scratch") or ""
    environment = build_surroundings(os.environ, parse_variable_names(scratch))
    exec_launcher(python, "howmanygpus.measure.launch.launch", options, environment)


if __name__ == "__main__":
    main()

"""
Search the largest batch that fits on one device, with one process of the framework for each size that is tried.

Every try is stored as soon as it has ended, so that a stopped search continues from there. If a try fails for a reason
other than memory, the program says so in a file beside the record, and fails.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import NoReturn

from howmanygpus.base.environment import build_surroundings
from howmanygpus.files import write_json_atomic
from howmanygpus.measure.host.limits import read_memory_bytes
from howmanygpus.measure.largest import bisecting, tries
from howmanygpus.measure.largest.bisecting import NextTry, SearchError, SearchResult
from howmanygpus.measure.largest.tries import Launcher, TryData
from howmanygpus.measure.largest.try_log import TryLog
from howmanygpus.measure.spec import MODEL_PATH_KEYS
from howmanygpus.site.environments.find import find_launcher, resolve_python
from howmanygpus.site.jobs.attempts import is_refused, prefer_interpreter
from howmanygpus.site.jobs.endings import explain_crash
from howmanygpus.site.jobs.ledger import is_packed, recorded, share_equally
from howmanygpus.site.retrying import STARTED
from howmanygpus.study.largest.search import FAILED, GAVE_UP, REFUSED, STUDY, complete_try, read_found

TRAINING, PROGRAM = "howmanygpus.measure.launch.launch", "howmanygpus.measure.program.launch"
"""Modules that start a try."""


def do_try(arguments: argparse.Namespace, step: NextTry, deadline: float, done: list[dict]) -> dict:
    """Do one try and return its row. deadline: of the job, by time.monotonic(). done: rows of the tries before."""
    request, launch, settings = arguments.request, arguments.launch, arguments.request["settings"]
    placement = launch["placement"] | ({"scratch": None} if "scratch" in launch["placement"] else {})
    if "program" in settings:
        launcher, make_spec, work = plan_program_try(arguments, step)
    else:
        python, placement = find_launcher(arguments.environment, placement)
        launcher = Launcher(python, TRAINING, build_surroundings(os.environ))
        make_spec, work = plan_try(arguments, step)
    folder = arguments.record.parent / "tries" / f"{request['name']}_batch{step.batch}"
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the time limit of the search is over; a further attempt goes on from its tries")
    memory = compute_memory_bytes(launch, settings.get("device_kind"))
    ended = tries.do_try(launcher, make_spec, work, folder, placement, left_s, memory, explain_crash)
    if ended.outcome == bisecting.NO_STEP and not any(row["outcome"] == bisecting.FITS for row in done):
        # A program that reports no step at all has another fault than too few samples.
        ended = replace(ended, outcome=bisecting.FAILED)
    row = {"batch": step.batch, "num_steps": request["steps"][step.is_confirmation], **asdict(ended)}
    row |= {"is_confirmation": step.is_confirmation, "memory_limit_bytes": memory}
    print(f"batch of {step.batch}: {ended.outcome} after {ended.seconds:.0f} s {ended.reason}".rstrip(), flush=True)
    return row


def plan_try(arguments: argparse.Namespace, step: NextTry) -> tuple[Callable, TryData]:
    """Return what makes the specification of a try of a framework, and its data."""
    request, settings = arguments.request, arguments.request["settings"]
    weights = str(arguments.weights.with_suffix(".safetensors"))
    own = {key: arguments.launch.get(key) for key in MODEL_PATH_KEYS}
    work = TryData(
        image_shape=tuple(request["image_shape"]),
        num_classes=request["num_classes"],
        multi_label=request["multi_label"],
        images=step.batch * settings.get("accumulate", 1),
        num_test=settings.get("eval_batch_size") or step.batch,
    )

    def make_spec(data_dir: str) -> dict:
        return complete_try(request, step.batch, step.is_confirmation, data_dir, weights, own)

    return make_spec, work


def plan_program_try(arguments: argparse.Namespace, step: NextTry) -> tuple[Launcher, Callable, TryData | None]:
    """Return what starts a try of a program, and what makes its specification."""
    # Imported here because most searches are for no program.
    from howmanygpus.study.program.study import complete_program_try

    spec = complete_program_try(arguments.request, step.batch, step.is_confirmation)
    prefer_interpreter(resolve_python(arguments.environment) if arguments.environment else spec["program"]["python"])
    return Launcher(sys.executable, PROGRAM, os.environ), lambda data_dir: spec, None


def compute_memory_bytes(launch: dict, kind: str | None) -> int | None:
    """Return the bytes of memory of a device of cores: the request of its job, or its share of this machine.

    The framework finds the memory of other devices by itself. kind: None for the usual kind of the device's name.
    """
    if (kind or launch["usual_kind"]) != "cpu":
        return None
    if launch["memory_mb"] is not None:
        return launch["memory_mb"] * 10**6
    return read_memory_bytes() // launch["devices_of_host"]


def fail(arguments: argparse.Namespace, reason: str, tries: list[dict]) -> NoReturn:
    """Write the reason for the further passes of this call, and end. A later call searches again."""
    call = {"call": os.environ.get(STARTED, "")}
    record = {**describe(arguments), **call, "largest": 0, "limit": GAVE_UP, "reason": reason, "tries": tries}
    write_json_atomic(arguments.record.with_suffix(FAILED), record)
    sys.exit(f"{arguments.record}: {reason}")


def describe(arguments: argparse.Namespace) -> dict:
    return arguments.request | ({"weights": str(arguments.weights)} if arguments.weights else {})


def search(arguments: argparse.Namespace, notebook: TryLog) -> SearchResult:
    deadline = time.monotonic() + 60 * arguments.time_limit_min
    request = arguments.request
    grid = {"step": request.get("step", 1), "of_program": "program" in request["settings"]}
    while isinstance(step := bisecting.choose_next(notebook.tries, request["bound"], **grid), NextTry):
        notebook.add(do_try(arguments, step, deadline, notebook.rows))
    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--request", type=json.loads, required=True, help="JSON: see howmanygpus.study.largest.search")
    parser.add_argument("--studies", nargs="+", required=True, help="studies that share the bill of the search")
    parser.add_argument(
        "--launch",
        type=json.loads,
        required=True,
        help="JSON: `parity` (required, report or off), `placement` (see measure.host.placement), where the model is, "
        "and `usual_kind`, `memory_mb` and `devices_of_host`, which give the memory of a device of cores",
    )
    parser.add_argument("--code", required=True, help="hash of the code that a try executes")
    parser.add_argument("--weights", type=Path, nargs="?", help="record of the initial weights, beside them")
    parser.add_argument("--environment", type=Path, nargs="?", help="record of the framework's environment")
    parser.add_argument("--verdict", type=Path, nargs="?", help="the parity gate's verdict on the framework")
    parser.add_argument("--time-limit-min", type=float, required=True, help="minutes after which the search is stopped")
    parser.add_argument("--record", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    request, failed = arguments.request, arguments.record.with_suffix(FAILED)
    if not arguments.record.exists() and (known := read_found(str(arguments.record))):
        sys.exit(f"{arguments.record}: it failed in this call: {known['reason']}")
    verdict = json.loads(arguments.verdict.read_text()) if arguments.verdict else None
    if verdict and is_refused(verdict["status"], arguments.launch["parity"]):
        reason = f"{verdict['reason']}; see {arguments.verdict}"
        found, tries = {"largest": 0, "limit": REFUSED, "reason": reason}, []
    else:
        size = {"device": request["device"], "num_gpus": 1, "num_nodes": 1}
        packed, name = is_packed(arguments.launch["placement"]), arguments.record.stem
        notebook = TryLog(
            arguments.record.parent / "tries" / f"{request['name']}.json", arguments.code, request["bound"]
        )
        try:
            shares = share_equally(arguments.studies)
            with recorded(STUDY, name, size, packed, framework=request["framework"], shares=shares):
                found = asdict(search(arguments, notebook))
        except SearchError as error:
            fail(arguments, str(error), notebook.rows)
        except TimeoutError as error:
            sys.exit(f"{arguments.record}: {error}")
        notebook.end()
        tries = notebook.rows
    write_json_atomic(arguments.record, {**describe(arguments), **found, "tries": tries})
    failed.unlink(missing_ok=True)


if __name__ == "__main__":
    main()

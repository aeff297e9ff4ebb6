"""
Start the processes of one run, wait for them, and publish their files.

The processes write to the folder of this attempt. After an expected outcome its files move to the run's folder,
run.json last, and the exit status is 0. After a crash, a signal or the deadline the folder stays, and the exit
status is not 0. Its attempt.json then has what the launcher knows, which site.jobs.completing explains.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from howmanygpus.base.environment import LEFT_OUT
from howmanygpus.base.machine_lock import take_turn
from howmanygpus.base.stderr_log import tee_stderr
from howmanygpus.files import hold_lock, sha256_of_file
from howmanygpus.measure.around.health import try_to_read_health
from howmanygpus.measure.around.reference import ReferencePlan, find_rates
from howmanygpus.measure.around.schema import RecordError, write_record
from howmanygpus.measure.host import slurm
from howmanygpus.measure.host.devices import (
    assign_devices,
    describe_host,
    describe_topology,
    share_among_devices,
)
from howmanygpus.measure.host.gpus import list_gpu_uuids
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.host.processes import (
    die_with_parent,
    list_cores,
    start_processes,
    stop_descendants,
    wait_for_end,
)
from howmanygpus.measure.host.telemetry import (
    Telemetry,
    Watched,
    check_frozen,
    describe_samples,
    get_node_path,
    get_start_path,
    merge_nodes,
)
from howmanygpus.measure.input.description import read_description, verify_data, verify_hashes
from howmanygpus.measure.launch.environment import build_environment, describe_environment
from howmanygpus.measure.launch.independent import join_runs
from howmanygpus.measure.launch.launchers import build_command, has_process_each
from howmanygpus.measure.launch.rendezvous import open_rendezvous, read_all
from howmanygpus.measure.loop.predictions import PredictionStore, merge_predictions
from howmanygpus.measure.records import AttemptFolder, now
from howmanygpus.measure.spec import INDEPENDENT, LaunchSpec, RunSpec

GRACE_S = 10.0
"""How long processes may take to end after SIGTERM, in seconds."""

LOCK_FOLDER = "HOWMANYGPUS_LOCK_FOLDER"
"""Environment variable with another folder for the machine's lock, with which tests do not wait for other sessions."""
KEPT = ("spec", "status", "reason", "pid", "started_at", "finished_at", "parity")
"""Keys of the record of every attempt that has ended."""


@dataclass(frozen=True)
class RunModule:
    """The work of a run's processes.

    module: each process runs it. verify: checks the inputs before the start and returns their hashes for the record.
    collect: merges into one file what the processes have written to an attempt's folder.
    """

    module: str
    verify: Callable[[Any], dict[str, Any]]
    collect: Callable[[Any, AttemptFolder], None]


class Interrupted(Exception):
    """A signal asked the launcher to stop."""

    def __init__(self, signum: int):
        super().__init__(signal.Signals(signum).name)
        self.signum = signum


def raise_interrupted(signum: int, _frame) -> None:
    raise Interrupted(signum)


def ignore_signals() -> None:
    """Ignore Ctrl-C from now on, because the launcher cleans up or publishes."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)


@contextmanager
def lock_machine(placement: Placement, purpose: str):
    """Wait until no other run of this user is being measured on this host; a scheduler gives each its own devices.

    TMPDIR does not matter, because calls from shells with another one use the same cores. purpose: what the machine is
    needed for, for those who wait.
    """
    if placement.scheduler != "none":
        yield
        return
    with take_turn(Path(os.environ.get(LOCK_FOLDER, "/tmp")) / f"howmanygpus-{os.getuid()}.lock", purpose):
        yield


def verify_inputs(spec: RunSpec) -> dict:
    """Compare data and weights with their records, and return their hashes."""
    description = read_description(Path(spec.data_dir))
    verify_data(Path(spec.data_dir), description)
    weights = Path(spec.weights_file)
    verify_hashes(weights.parent, {weights.name: json.loads(weights.with_suffix(".json").read_text())["sha256"]})
    return {"manifest_sha256": description["sha256"]["manifest.tsv"], "weights_sha256": sha256_of_file(weights)}


def collect_predictions(spec: RunSpec, attempt: AttemptFolder) -> None:
    """Merge the predictions of all processes. A run that was not trained has none."""
    if not list(attempt.path.glob("predictions.rank*.npz")):
        PredictionStore().write(attempt.predictions_of(0))
    num_test = read_description(Path(spec.data_dir))["num_test"]
    merge_predictions(sorted(attempt.path.glob("predictions.rank*.npz")), num_test, attempt.predictions)


TRAINING = RunModule("howmanygpus.measure.loop.train", verify_inputs, collect_predictions)


def run_processes(
    spec: LaunchSpec,
    placement: Placement,
    attempt: AttemptFolder,
    module: str,
    options: list[str],
    deadline_s: float,
    started_at: float | None = None,
) -> int:
    """Run a module's processes to the end, write their telemetry, and return the exit status.

    started_at: when the times of events begin, in seconds since 1970; None for now. Those of samples begin then too.

    Raises TimeoutError at the deadline, Interrupted at a signal, and ValueError if devices or cores are missing.
    """
    meeting = open_rendezvous(attempt.path, spec, placement)
    started_at = time.time() if started_at is None else started_at
    get_start_path(meeting).write_text(repr(started_at))
    command, environment = build_command(spec, placement, meeting, module, options), build_environment(spec, placement)
    if left_out := environment.get(LEFT_OUT):
        print(f"Environment variables that this run does not get: {left_out}", file=sys.stderr, flush=True)
    telemetry: AbstractContextManager = nullcontext()
    if placement.scheduler == "none":
        assignment = assign_devices(spec, placement.bind_cores)
        environment |= assignment.variables
        child = start_processes(command, environment, assignment.cores)
        cores = share_among_devices(spec, assignment.cores_by_device)
        watched = Watched(child.pid, assignment.gpu_uuids, cores, has_process_each(spec))
        interval_s = placement.telemetry_interval_s
        telemetry = Telemetry(get_node_path(meeting, 0), watched.create_sources, started_at, interval_s)
    else:
        # The processes of each node take their cores and devices and start the telemetry themselves.
        environment |= slurm.restore_environment(spec, placement)
        child = start_processes(command, environment, list_cores())
    said = tee_stderr(child.stderr, attempt.said)
    try:
        with telemetry:
            return child.wait(timeout=0.0 if wait_for_end(child.pid, deadline_s) is False else deadline_s)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"not done after {deadline_s:.0f} s, the time limit of this run") from None
    finally:
        if child.returncode is None:
            ignore_signals()
        # Also what a user's program has left behind, because it would disturb the next run.
        stop_descendants(GRACE_S)
        child.wait()
        said.join(GRACE_S)
        merge_telemetry(meeting, spec, placement, attempt)


def run_and_join(spec: LaunchSpec, placement: Placement, attempt: AttemptFolder, *arguments: Any) -> int:
    """Do the same as run_processes, and leave one outcome of independent runs, however their processes ended."""
    try:
        return run_processes(spec, placement, attempt, *arguments)
    finally:
        if spec.launcher == INDEPENDENT:
            join_runs(attempt, spec.num_gpus)


def merge_telemetry(meeting: Path, spec: LaunchSpec, placement: Placement, attempt: AttemptFolder) -> None:
    """Merge what the samplers wrote, and leave beside it what they lack."""
    merge_nodes(meeting, attempt.telemetry)
    facts = describe_samples(meeting, spec.num_nodes, time.time(), placement.telemetry_interval_s)
    if facts["problem"]:
        print(f"telemetry: {facts['problem']}", file=sys.stderr)
    attempt.telemetry_facts.write_text(json.dumps(facts))


@contextmanager
def lock_publishing(attempt: AttemptFolder):
    """Let one attempt of a run publish at a time, so that the files of a run are those of one attempt."""
    with hold_lock(attempt.path.parent / ".publishing.lock"):
        yield


def publish(spec: LaunchSpec, attempt: AttemptFolder, run_dir: Path, record: dict, work: RunModule) -> None:
    """Move the attempt's files to the run's folder; run.json appears last.

    Raises RecordError, before anything has moved, if `record` violates its schema.
    """
    work.collect(spec, attempt)
    attempt.events.touch()
    write_record(attempt.run, record)
    weights = (attempt.initial_weights, attempt.final_weights)
    files = (attempt.events, attempt.telemetry, attempt.predictions, attempt.trace, *weights, attempt.run)
    with lock_publishing(attempt):
        run_dir.mkdir(parents=True, exist_ok=True)
        # A folder replaces only an empty one, and the trace of an earlier attempt is none of this one.
        shutil.rmtree(run_dir / attempt.trace.name, ignore_errors=True)
        for file in filter(Path.exists, files):
            os.replace(file, run_dir / file.name)
    # What cannot be removed, as a file that is still open on NFS, is no failed attempt without its record.
    attempt.record.unlink(missing_ok=True)
    shutil.rmtree(attempt.path, ignore_errors=True)


def run_attempt(
    spec: LaunchSpec,
    placement: Placement,
    attempt: AttemptFolder,
    options: argparse.Namespace,
    record: dict,
    work: RunModule,
) -> int:
    """Verify the inputs, run and publish; return the exit status. What becomes known is added to `record`."""
    gpu_uuids = list_gpu_uuids()[: spec.devices_per_node] if spec.device_kind == "cuda" else []
    record |= {"host": describe_host(gpu_uuids)} | describe_environment(spec, placement)
    if placement.python_version:
        record["host"]["python_version"] = placement.python_version
    if job := slurm.read_job():
        record |= {"job": job}
    write_record(attempt.record, record)
    module_options = ["--attempt", str(attempt.path), *(["--save-weights"] if options.save_weights else [])]
    if placement.scheduler == "none":
        record |= {"topology": describe_topology(assign_devices(spec, placement.bind_cores))}
    with lock_machine(placement, str(options.run_dir)):
        record |= {"held_at": now()}
        record |= work.verify(spec)  # reading all data would disturb another run
        if options.reference:
            plan = ReferencePlan(**options.reference)
            record |= {"reference_kernel": find_rates(spec, placement, attempt, plan)}
        if placement.scheduler == "none":
            # On a cluster, the first process of each node reads it.
            assignment = assign_devices(spec, placement.bind_cores)
            record |= try_to_read_health(assignment.gpu_uuids, assignment.cores)
        started_at = time.time()
        module_options += ["--started-at", repr(started_at)]
        try:
            processes = (spec, placement, attempt, work.module, module_options)
            exit_status = run_and_join(*processes, options.deadline_s, started_at)
        except (TimeoutError, Interrupted):
            # What hangs or is traced after the run is done, for example in MPI_Finalize, does not undo it.
            if not attempt.outcome.exists():
                raise
        finally:
            record |= {"processes": read_processes(attempt)}
            if attempt.telemetry_facts.exists():
                record |= {"telemetry": json.loads(attempt.telemetry_facts.read_text())}
            if staged := [process["staging_s"] for process in record["processes"] if "staging_s" in process]:
                record |= {"staging_s": max(staged)}
        # A step in which a process was killed for its memory may end with status 0.
        if attempt.outcome.exists() and not slurm.find_out_of_memory(attempt.said):
            ignore_signals()  # a run that is done is not lost to a late Ctrl-C
            outcome = check_frozen(json.loads(attempt.outcome.read_text()), attempt.path, started_at)
            publish(spec, attempt, options.run_dir, record | outcome | {"finished_at": now()}, work)
            return 0
    record |= {"status": "crashed", "reason": f"exit status {exit_status}", "exit_status": exit_status}
    return exit_status if exit_status > 0 else 1


def read_processes(attempt: AttemptFolder) -> list[dict]:
    """Return by rank where the run's processes were, which devices they saw, and the seconds that each measured.

    Processes that did not need to meet have only what they measured.
    """
    met = [process for meeting in attempt.path.glob("processes-*") for process in read_all(meeting)]
    measured = [json.loads(path.read_text()) for path in attempt.path.glob("times.rank*.json")]
    found: dict[int, dict] = {}
    for process in (*met, *measured):
        found[process["rank"]] = found.get(process["rank"], {}) | process
    return [found[rank] for rank in sorted(found)]


def refuse(spec: RunSpec, run_dir: Path, attempt: AttemptFolder, record: dict, reason: str) -> int:
    """Publish that a run was not started: its framework failed the parity gate or does not support the device."""
    description = read_description(Path(spec.data_dir))
    record |= {"host": describe_host([]), "manifest_sha256": description["sha256"]["manifest.tsv"]}
    status = "unsupported" if record["parity"] == "unsupported" else "failed_parity"
    record |= {"status": status, "reason": reason, "finished_at": now()}
    attempt.telemetry.touch()
    publish(spec, attempt, run_dir, record, TRAINING)
    return 0


def launch(
    spec: LaunchSpec, run_dir: Path, attempt: AttemptFolder, options: argparse.Namespace, work: RunModule = TRAINING
) -> int:
    """Do one attempt and return the exit status. However an attempt fails, its record says how."""
    record = {"spec": spec.to_dict(), "status": "running", "reason": "", "pid": os.getpid(), "started_at": now()}
    record |= {"parity": options.parity, "held_at": None}
    try:
        if options.refuse and isinstance(spec, RunSpec):
            return refuse(spec, run_dir, attempt, record, options.refuse)
        placement = Placement.read(attempt.placement)
        exit_status = run_attempt(spec, placement, attempt, options, record, work)
        if exit_status == 0:
            return 0
    except TimeoutError as error:
        exit_status = 1
        record |= {"status": "time_limit", "reason": str(error)}
    except Interrupted as error:
        exit_status = 128 + error.signum
        record |= {"status": "interrupted", "reason": f"stopped by {error}"}
    except Exception as error:
        exit_status = 1
        record |= {"status": "crashed", "reason": f"{type(error).__name__}: {error}"}
        traceback.print_exc()
    write_end(attempt, record | {"finished_at": now()})
    print(f"{run_dir}: {record['status']}: {record['reason']}; the attempt is kept in {attempt.path}", file=sys.stderr)
    return exit_status


def write_end(attempt: AttemptFolder, record: dict) -> None:
    """Write how the attempt ended; on a full disk, nothing, and whoever settles the attempt sees the disk.

    A record that violates its schema is an internal error. Then only the keys that every record has are written, with
    the violation as the reason.
    """
    try:
        try:
            write_record(attempt.record, record)
        except RecordError as error:
            reason = f"{error}; the attempt had ended with {record['status']}: {record['reason']}"
            kept = {key: record[key] for key in KEPT}
            write_record(attempt.record, kept | {"status": "crashed", "reason": reason})
    except OSError:
        traceback.print_exc()


def main(read_spec: Callable[[Path], LaunchSpec] = RunSpec.read, work: RunModule = TRAINING) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempt", required=True, help="folder of this attempt, with its spec.json")
    parser.add_argument("--run-dir", type=Path, required=True, help="where the run's files go when it is done")
    parser.add_argument("--deadline-s", type=float, required=True, help="seconds after which the run is stopped")
    parser.add_argument("--save-weights", action="store_true", help="store the weights before and after training")
    parser.add_argument("--parity", default="not_checked", help="status of the framework in the parity gate")
    parser.add_argument("--refuse", default="", help="do not train, and record this as the reason")
    parser.add_argument("--reference", type=json.loads, help="JSON: see howmanygpus.measure.around.reference")
    parser.add_argument("--parent", type=int, help="process id of the caller, with whose death this process ends")
    arguments = parser.parse_args()
    die_with_parent(signal.SIGTERM, arguments.parent)
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, raise_interrupted)
    attempt = AttemptFolder(arguments.attempt)
    sys.exit(launch(read_spec(attempt.spec), arguments.run_dir, attempt, arguments, work))


if __name__ == "__main__":
    main()

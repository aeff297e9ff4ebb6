"""One process of one run: sets up a backend, runs the loop, and leaves its part of the record in the attempt folder."""

import argparse
import dataclasses
import hashlib
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from howmanygpus.base.variables import list_variables
from howmanygpus.files import write_json_atomic
from howmanygpus.measure.host.gpus import list_gpu_uuids
from howmanygpus.measure.host.other_work import OtherWork
from howmanygpus.measure.host.processes import (
    Suspensions,
    die_with_parent,
    end_without_collecting,
    is_first_on_node,
    read_rank,
)
from howmanygpus.measure.input.loaders import SHARED
from howmanygpus.measure.input.prepared import PreparedData, normalize_by, open_data
from howmanygpus.measure.input.reading import read_images
from howmanygpus.measure.launch.launchers import count_processes
from howmanygpus.measure.launch.staging import STAGED
from howmanygpus.measure.loop.backend import Backend, UnsupportedError, load_backend
from howmanygpus.measure.loop.clocks import ClockFaults
from howmanygpus.measure.loop.loop import DivergedError, TrainingLoop
from howmanygpus.measure.loop.prefetch import measure_host_to_device
from howmanygpus.measure.loop.schedule import count_steps_per_epoch, learning_rates
from howmanygpus.measure.loop.tracing import UNFINISHED, explain, trace_run
from howmanygpus.measure.models.own import LOADED
from howmanygpus.measure.models.saving import save_arrays
from howmanygpus.measure.records import AttemptFolder, EventLog
from howmanygpus.measure.spec import RESIDENT, RunSpec


def hash_loaded_code() -> dict[str, str]:
    """Return the SHA-256 of every file of this package that this process imported, by path inside workflow/lib.

    The files of a user's own model are named from the folder in which the workflow runs.
    """
    library = Path(__file__).resolve().parents[3]
    files = {
        Path(file).resolve()
        for name, module in list(sys.modules.items())
        if name.split(".")[0] == "howmanygpus" and (file := getattr(module, "__file__", None))
    } | {Path(__file__).resolve()}
    named = {
        str(file.relative_to(library)) if file.is_relative_to(library) else os.path.relpath(file): file
        for file in sorted(files)
    }
    if (own := sys.modules.get(LOADED)) is not None and own.__file__:
        named[os.path.relpath(own.__file__)] = Path(own.__file__)
    return {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in named.items()}


def describe_training(loop: TrainingLoop, started_at: float) -> dict[str, Any]:
    """Return the entries of the record that the loop and its backend know after training.

    Every process must call it.
    """
    spec, backend, clocks = loop.spec, loop.backend, loop.clocks
    peak_bytes = backend.peak_memory_bytes()
    described = {
        "compile_s": clocks.compile_s,
        "warmup_s": clocks.warmup_s,
        "measured_s": clocks.measured_s,
        "measured_steps": clocks.measured_steps,
        "data_wait_s": clocks.data_wait_s,
        "train_s": clocks.train_s,
        "eval_s": clocks.eval_s,
        "phases_s": {phase: backend.max_over_ranks(seconds) for phase, seconds in loop.laps.seconds.items()},
        "batches_ahead": loop.batches_ahead,
        "loader_s_per_image": describe_loader(loop),
        "cold_first_epoch": loop.is_cold,
        "disturbance": describe_disturbance(backend, loop.others),
        "wall_time_s": time.time() - started_at,
        "steps": loop.steps_done,
        "images_seen": loop.steps_done * spec.global_batch_size,
        "peak_memory_bytes": None if peak_bytes is None else int(backend.max_over_ranks(float(peak_bytes))),
        "num_processes": backend.num_processes,
        "versions": backend.versions(),
        "settings": backend.settings() | list_variables(),
        "device_model": backend.device_model(),
        **({"loss_scaling": dataclasses.asdict(loop.loss_scale)} if loop.loss_scale else {}),
    }
    # Measured last, so that a batch that does not fit changes neither times nor the peak memory.
    rate, problem = measure_host_to_device(backend, spec, loop.data)
    return described | {"host_to_device_gib_per_s": rate} | ({"host_to_device_problem": problem} if problem else {})


def describe_loader(loop: TrainingLoop) -> float | None:
    """Return the seconds that a worker of the shared loader takes for an image, in the process with the slowest ones.

    None for other loaders, and for a batch that stays on the devices. Every process must call it.
    """
    is_timed = loop.spec.loader == SHARED and loop.spec.input != RESIDENT
    own = loop.training_batches.worker_clock.s_per_image if is_timed else None
    return loop.backend.max_over_ranks(own or 0.0) or None


def read_before_training(backend: Backend, spec: RunSpec, data: PreparedData, num_threads: int) -> bool:
    """Read the images once on each node; return whether any node cannot keep them, so that the first epoch is cold."""
    is_kept = read_images(spec, data, num_threads) if is_first_on_node() else True
    return backend.max_over_ranks(float(not is_kept)) > 0


def describe_disturbance(backend: Backend, others: OtherWork | None) -> dict[str, float | int | None]:
    """Return the largest amount of other work on any node. Every process must call it."""
    unknown = -1.0
    found = (others.cpu_frac, others.gpu_processes) if others else (None, None)
    frac, processes = (backend.max_over_ranks(unknown if value is None else float(value)) for value in found)
    return {
        "other_cpu_frac": None if frac < 0 else frac,
        "other_gpu_processes": None if processes < 0 else round(processes),
    }


def find_doubts(loop: TrainingLoop, suspensions: Suspensions) -> ClockFaults:
    """Return the signs that clocks are wrong, over all processes. Every process must call it."""
    checks, suspended = loop.checks, (suspensions.stops, suspensions.slept_s)
    own = ClockFaults(loop.laps.apart_s, checks.impossible, checks.compute_early_s(), *suspended)
    return own.over_ranks(loop.backend.max_over_ranks)


def trace_completed(loop: TrainingLoop, attempt: AttemptFolder, outcome: dict[str, Any]) -> None:
    """Trace a run whose outcome is written, and add to the outcome what became of it. Every process must call it."""
    failed = False
    try:
        traced = trace_run(loop, attempt.trace)
    except Exception as error:
        traced, failed = {"problem": explain(error)}, True
        traceback.print_exc()
    if loop.backend.rank == 0:
        write_json_atomic(attempt.outcome, outcome | {"trace": traced, "code": hash_loaded_code()})
    if failed and loop.backend.num_processes > 1:
        # The other processes wait for this one in a collective. The run is done, whatever their ends.
        sys.stderr.flush()
        os._exit(1)


def run(spec: RunSpec, attempt: AttemptFolder, started_at: float, save_weights: bool) -> None:
    """Train and write the outcome. Expected failures are outcomes; all other exceptions propagate."""
    num_threads = spec.loader_workers * (spec.num_gpus // count_processes(spec))
    data = open_data(os.environ.get(STAGED) or spec.data_dir, num_threads, spec.crop_size)
    data = normalize_by(data, spec.normalization)
    rates = learning_rates(spec, count_steps_per_epoch(len(data.train_labels), spec.global_batch_size))
    backend_class = load_backend(spec)
    backend, loop, suspensions, status, reason = None, None, Suspensions(), "completed", ""
    try:
        backend = backend_class(spec, data, load_file(spec.weights_file), rates)
        events = EventLog(attempt.events, started_at) if backend.rank == 0 else None
        if save_weights and backend.rank == 0:
            save_arrays(backend.weights(), attempt.initial_weights)
        is_cold = read_before_training(backend, spec, data, num_threads)
        others = OtherWork(str(attempt.path), list_gpu_uuids()) if is_first_on_node() else None
        loop = TrainingLoop(spec, data, backend, rates, events, others, is_cold=is_cold)
        init_s = time.time() - started_at
        with loop, suspensions:
            backend.train(loop)
    except UnsupportedError as error:
        status, reason = "unsupported", str(error)
    except DivergedError as error:
        status, reason = "diverged", str(error)
    except Exception as error:
        if not (reason := backend_class.explain_out_of_memory(error)):
            raise
        # The other ranks wait for this one in a collective, so it must leave without starting a collective.
        write_json_atomic(attempt.outcome, {"status": "out_of_memory", "reason": reason, "code": hash_loaded_code()})
        os._exit(1)
    outcome: dict[str, Any] = {"status": status, "reason": reason, "code": hash_loaded_code()}
    if loop is not None:
        loop.evaluation.predictions.write(attempt.predictions_of(loop.backend.rank))
        own = {"measured_s": loop.clocks.own_measured_s, "data_wait_s": loop.clocks.own_data_wait_s}
        # The first process describes the training with all others, so that theirs are written before the outcome is.
        write_json_atomic(attempt.times_of(loop.backend.rank), {"rank": loop.backend.rank, **own})
        outcome |= {"init_s": init_s, **describe_training(loop, started_at)}
        judged = find_doubts(loop, suspensions).judge()
        if status == "completed":
            outcome |= judged
        if save_weights and loop.backend.rank == 0:
            save_arrays(loop.backend.weights(), attempt.final_weights)
    if spec.trace and outcome["status"] == "completed":
        outcome |= {"trace": {"problem": UNFINISHED}}
    if backend is None or backend.rank == 0:
        write_json_atomic(attempt.outcome, outcome)
    if loop is not None and "trace" in outcome:
        trace_completed(loop, attempt, outcome)
    if backend is not None:
        backend.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempt", required=True, help="folder of this attempt, holding spec.json")
    parser.add_argument("--started-at", type=float, required=True, help="when the launcher started, seconds since 1970")
    parser.add_argument("--save-weights", action="store_true", help="store the weights before and after training")
    arguments = parser.parse_args()
    die_with_parent()
    attempt = AttemptFolder(arguments.attempt)
    try:
        run(RunSpec.read(attempt.spec), attempt, arguments.started_at, arguments.save_weights)
    except Exception:
        attempt.error_of(read_rank()).write_text(traceback.format_exc())
        raise
    end_without_collecting()


if __name__ == "__main__":
    main()

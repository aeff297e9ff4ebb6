"""
Do the gate's tasks in one process of a framework, each with its optimizer, and store the observations.

The steps use the backend's own training, the same training loop and the same learning rates as real runs, and the
evaluations are those of real runs.
"""

import argparse
import gc
import hashlib
import importlib
import json
import os
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from howmanygpus.files import write_json_atomic
from howmanygpus.gate.task import (
    LOSS_SCALE,
    NUM_STEPS,
    OVERFLOWING,
    SKIPPED_STEP,
    UNSUPPORTED,
    compute_rates,
    has_skipped_step,
)
from howmanygpus.measure.frameworks.number_formats import NumberFormats
from howmanygpus.measure.host.processes import die_with_parent, end_without_collecting, read_rank
from howmanygpus.measure.input.prepared import PreparedData, open_data
from howmanygpus.measure.loop.backend import Backend, UnsupportedError, load_backend
from howmanygpus.measure.loop.loop import DivergedError, TrainingLoop
from howmanygpus.measure.models.saving import save_arrays
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.measure.spec import RunSpec

ROUNDING = 2.0**-24
"""The largest relative error of one rounding to float32."""
DROPPED_BITS = 13
"""Low bits of a float32 that both float16 and bfloat16 lack."""
FIRST_DEVICE = "first device"
"""See Backend.running_statistics."""
MIN_VALUES = 4
"""Smallest number of values from which the format of an array is concluded."""


def hash_batch(images: np.ndarray, labels: np.ndarray) -> str:
    """Return the SHA-256 of the bytes of one process's share of a batch."""
    return hashlib.sha256(np.ascontiguousarray(images).tobytes() + np.ascontiguousarray(labels).tobytes()).hexdigest()


class LossRecorder:
    """Record the mean loss of each window; this object replaces the event log."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def write(self, event: str, **values: Any) -> None:
        if event == "window":
            self.values.append(values["loss"])


class ObservedLoop(TrainingLoop):
    """A training loop that records each batch's hash as it goes to the device, and the weights after the first step.

    first_batch: (images, targets) of this process in the first step. own_losses: loss of each window in this process,
    before the average over all processes. first_kept: the arrays that the framework keeps, after the first step, as in
    NumberFormats. numbers: formats of numbers in the last step, read before an evaluation averages running statistics.
    """

    first_batch: tuple[np.ndarray, np.ndarray]
    first_kept: dict[str, dict[str, np.ndarray]]
    numbers: NumberFormats | None = None
    _end_observation: Callable[[], NumberFormats]

    def __init__(self, spec: RunSpec, data: PreparedData, backend: Backend, *arguments: Any):
        self.own_losses: list[float] = []
        take_loss = backend.read_window_loss

        def read_and_record_loss(num_steps: int) -> float:
            self.own_losses.append(take_loss(num_steps))
            return self.own_losses[-1]

        backend.read_window_loss = read_and_record_loss  # type: ignore[method-assign]
        super().__init__(spec, data, backend, *arguments)

    def host_batches(self):
        self.hashes = []
        for images, labels in super().host_batches():
            if not self.hashes:
                self.first_batch = images.copy(), labels.copy()
            self.hashes.append(hash_batch(images, labels))
            yield images, labels

    def after_step(self) -> None:
        if self.steps_done == 0:
            # Before the window closes, which ends the training if the loss is not finite.
            self.first_weights = self.backend.weights()
            kept = self.begin_observation()().kept
            # A family's arrays may be views of what the next steps write to.
            self.first_kept = {kind: {name: array.copy() for name, array in kept[kind].items()} for kind in kept}
        if self.steps_done == NUM_STEPS - 1:
            self.numbers = self._end_observation()
        super().after_step()
        if self.steps_done == NUM_STEPS - 1:
            self._end_observation = self.begin_observation()
        if has_skipped_step(self.spec) and self.steps_done in (SKIPPED_STEP - 1, SKIPPED_STEP):
            self._scale_losses(OVERFLOWING if self.steps_done == SKIPPED_STEP - 1 else LOSS_SCALE)

    def begin_observation(self) -> Callable[[], NumberFormats]:
        """Begin to observe the next step. The function that is returned ends it and returns what was seen."""
        family = importlib.import_module(f"howmanygpus.measure.frameworks.{self.spec.family}.number_formats")
        return family.begin(self.backend, self.first_batch)

    def _scale_losses(self, scale_of_last: float) -> None:
        """Set the loss scale of the run's last device, and that of the others to the task's."""
        scales = [LOSS_SCALE] * (self.spec.num_gpus // self.backend.num_processes)
        if self.backend.rank == self.backend.num_processes - 1:
            scales[-1] = scale_of_last
        self.backend.set_loss_scales(scales)


def predict(backend: Backend, images: np.ndarray) -> np.ndarray:
    return backend.predict(backend.put_for_prediction(images))


def observe_evaluation(backend: Backend, images: np.ndarray, num_devices: int) -> dict[str, np.ndarray]:
    """Compute the logits of this process's images twice, and once more in batches with other images.

    The other images replace the second half of every device's share.
    """
    backend.prepare_evaluation()
    first, again = predict(backend, images), predict(backend, images)
    company = images.copy()
    shares = np.array_split(np.arange(len(images)), num_devices)
    replaced = np.concatenate([share[len(share) // 2 :] for share in shares])
    company[replaced] = 255 - company[replaced]
    kept = np.setdiff1d(np.arange(len(images)), replaced)
    return {"logits": first, "logits_again": again, "kept": kept, "logits_in_company": predict(backend, company)[kept]}


def count_differing_replicas(replicas: list[dict[str, np.ndarray]]) -> list[str]:
    """Return the names of arrays that differ between this process's devices by more than the rounding of updates."""
    first, *others = replicas
    return sorted({name for replica in others for name in first if has_drifted(replica[name], first[name])})


def has_drifted(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether float32 arrays that had the same updates differ by more than one rounding in each.

    On a busy CPU, TensorFlow may divide the update of a large kernel among threads differently on each device, so that
    a few elements are rounded differently.
    """
    return not np.allclose(one, other, rtol=0.0, atol=NUM_STEPS * ROUNDING * float(np.abs(other).max()))


def observe_before(backend: Backend, spec: RunSpec, data: PreparedData) -> dict[str, np.ndarray]:
    """Return the weights after loading, and the logits of this process's share of the first global batch of images."""
    arrays = {f"initial/{name}": array for name, array in backend.weights().items()}
    share = spec.global_batch_size // backend.num_processes
    images = data.test_images[np.arange(backend.rank * share, (backend.rank + 1) * share)]
    return arrays | observe_evaluation(backend, images, spec.num_gpus // backend.num_processes)


def observe_devices(backend: Backend, spec: RunSpec, data: PreparedData) -> dict[str, np.ndarray]:
    """Compute the logits of the same images on each device after training, (devices, images, classes)."""
    num_devices = spec.num_gpus // backend.num_processes
    images = np.asarray(data.test_images[np.arange(spec.global_batch_size // spec.num_gpus)])
    logits = predict(backend, np.concatenate([images] * num_devices))
    return {"logits_of_devices": logits.reshape(num_devices, len(images), -1)}


def observe_after(backend: Backend, loop: ObservedLoop) -> dict[str, np.ndarray]:
    """Return the weights after the first step and after the last, and the scores of this process's evaluations."""
    backend.prepare_evaluation()
    arrays = {f"first/{name}": array for name, array in loop.first_weights.items()}
    arrays |= {f"final/{name}": array for name, array in backend.weights().items()}
    stored = loop.evaluation.predictions.collect()
    evaluations = stored["score" if loop.data.multi_label else "loss"]
    return arrays | {"samples": stored["sample"], "evaluation_epochs": stored["epoch"], "evaluations": evaluations}


def is_coarse(array: np.ndarray, before: np.ndarray | None = None) -> bool:
    """Whether every value of an array would fit into bfloat16 or float16, so that it was kept in such a format.

    before: the array at an earlier step. Values that have not changed since prove nothing, because initial values such
    as 1 fit by nature. Neither do zeros and values that are not finite. One float32 value in 2**13 fits by chance.
    """
    proves = np.isfinite(array) & (array != 0)
    if before is not None:
        proves &= array != before
    values = array[proves].astype(np.float32)
    return values.size >= MIN_VALUES and not np.any(values.view(np.uint32) & (2**DROPPED_BITS - 1))


def describe_numbers(
    numbers: NumberFormats, first_kept: dict[str, dict[str, np.ndarray]], own_losses: list[float]
) -> dict[str, Any]:
    """Return the formats of numbers by kind, and by kind the names of arrays whose values fit a coarser format.

    first_kept: see ObservedLoop. own_losses: losses of the windows, before the average over processes.
    """
    coarse = {
        kind: sorted(name for name, array in arrays.items() if is_coarse(array, first_kept[kind].get(name)))
        for kind, arrays in numbers.kept.items()
    }
    coarse["loss"] = ["loss"] * is_coarse(np.array(own_losses))
    formats = {"activations": numbers.activations, "backward": numbers.backward, **numbers.formats}
    return {
        "formats": {kind: sorted(names) for kind, names in formats.items()},
        "coarse": coarse,
        "exchanged": numbers.exchanged,
        "remembered": numbers.remembered,
    }


def name_statistics(spec: RunSpec, backend: Backend) -> str:
    """Return whose running statistics evaluation uses."""
    return FIRST_DEVICE if spec.eval_batchnorm == "first" else backend.running_statistics


def observe(
    spec: RunSpec, optimizer: str, make_loop: Callable[..., ObservedLoop] = ObservedLoop, seed: int | None = None
) -> tuple[Backend, dict[str, np.ndarray], dict]:
    """Do the task with one optimizer; return the backend, and the arrays and facts that this process observed.

    seed: of the random numbers that a user's model draws in training, if it is not the run's.
    """
    data = open_data(spec.data_dir, crop_size=spec.crop_size)
    rates = compute_rates(spec)
    backend = load_backend(spec)(spec, data, load_file(spec.weights_file), rates)
    if seed is not None:
        backend.seed_draws(seed)
    arrays = observe_before(backend, spec, data) if optimizer == "sgd" else {}
    losses = LossRecorder()
    # A loss that is not finite is a result to judge, not a crash. All processes stop at the same step.
    with make_loop(spec, data, backend, rates, losses) as loop, suppress(DivergedError):
        backend.train(loop)
    arrays |= observe_after(backend, loop)
    arrays |= observe_devices(backend, spec, data) if optimizer == "sgd" else {}
    # A training that diverged has not reached the last step.
    numbers = loop.numbers or loop.begin_observation()()
    replicas = backend.replicas()
    facts = {
        **{"rank": backend.rank, "num_processes": backend.num_processes, "losses": losses.values},
        **{"hashes": loop.hashes, "differing_replicas": count_differing_replicas(replicas)},
        "num_replicas": len(replicas),
        **{"running_statistics": name_statistics(spec, backend), "versions": backend.versions()},
        "numbers": describe_numbers(numbers, loop.first_kept, loop.own_losses),
    }
    if loop.loss_scale:
        facts["skipped_steps"] = loop.loss_scale.skipped_steps
    return backend, {name: np.asarray(array) for name, array in arrays.items()}, facts


def do_task(spec: RunSpec, optimizer: str, folder: Path) -> Backend | None:
    """Do one task and store the observations in `folder`. Return None if the framework does not support the task."""
    try:
        backend, arrays, facts = observe(spec, optimizer)
    except UnsupportedError as error:
        write_json_atomic(folder / UNSUPPORTED, {"reason": str(error)})
        return None
    stem = f"{optimizer}.rank{facts['rank']}"
    save_arrays(arrays, folder / f"{stem}.safetensors")
    write_json_atomic(folder / f"{stem}.json", facts)
    return backend


def do_tasks(tasks: list[dict], prepare: Callable[[dict], None] = lambda task: None) -> None:
    """Do all tasks, each with a backend of its own. The last backend closes the process group for all of them.

    The first process prints which task it begins, and when, for the log of the job.

    prepare: called before each task.
    """
    cores, backend = os.sched_getaffinity(0), None
    for task in tasks:
        if read_rank() == 0:
            print(f"{time.time() - task['started_at']:6.1f} s: {task['name']}", flush=True)
        # A backend binds the process to its device's share of the cores that the process has.
        os.sched_setaffinity(0, cores)
        prepare(task)
        done = do_task(RunSpec.read(task["spec"]), task["optimizer"], Path(task["folder"]))
        backend = done or backend
        gc.collect()
    if backend is not None:
        backend.close()


def do_all(tasks: list[dict], errors: Path, prepare: Callable[[dict], None] = lambda task: None) -> None:
    """Do all tasks, the last work of this process, and store the traceback of a crash in the folder `errors`."""
    try:
        do_tasks(tasks, prepare)
    except Exception:
        AttemptFolder(errors).error_of(read_rank()).write_text(traceback.format_exc())
        raise
    end_without_collecting()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, required=True, help="JSON: the tasks, see gate.observe")
    parser.add_argument("--errors", type=Path, required=True, help="folder for the traceback of a crash")
    arguments = parser.parse_args()
    die_with_parent()
    do_all(json.loads(arguments.tasks.read_text())["tasks"], arguments.errors)


if __name__ == "__main__":
    main()

"""
Faults that look alike in every framework, for tests of the parity gate. PLANTED_FAULT names the one that is planted.

The tests copy this file into measure/frameworks/, and the families' own faults beside their strategies.
"""

import dataclasses
import os

import numpy as np

from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.models.networks import import_network

FACTORS = {"zero": 0.0, "flipped": -1.0, "tripled": 3.0, "unscaled_rate": 0.5}
"""Factors on the learning rate, which act as those on the gradient."""
BATCHNORM_FAULTS = {"batchnorm_epsilon": {"epsilon": 1e-3}, "batchnorm_momentum": {"momentum": 0.89}}
OPTIMIZER_FAULTS = {
    "no_decay": {"weight_decay": 0.0},
    "decay_of_all": {"weight_decay_on": "all"},
    "adam_epsilon": {"epsilon": 2e-3},
    "adamw_as_adam": {"name": "adam"},
    "momentum_kept": {"momentum": 0.85},
    "decay_kept": {"weight_decay": 0.1},
}
ROUNDED = {"weights_in_bf16": "weights", "moments_in_bf16": "moments", "statistics_in_bf16": "statistics"}
"""Kinds of arrays that are rounded after each step."""
KEPT_PARTS = {"first_part_again": 1, "third_part_lost": 2}
"""Number of the batches of a step that are kept; the last of them takes the place of the others."""
EARLIER_STEPS = {1: (), 2: (3, 5)}
"""Steps that are not the last of their window, by window_steps."""
DEEPEST_PIXELS = 4
"""The value belongs to an image of 8 by 8 pixels in the last stage of resnet44."""


def round_to_bf16(values) -> np.ndarray:
    """Return float32 values with the significant bits of bf16."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + np.uint32(2**15)) & np.uint32(0xFFFF0000)).view(np.float32)


def change_rates(fault: str, rates: np.ndarray, steps_per_epoch: int) -> np.ndarray:
    if fault == "schedule_by_epoch":
        return rates[np.arange(len(rates)) // steps_per_epoch * steps_per_epoch]
    if fault == "schedule_ignored":
        return np.full_like(rates, rates[0])
    if fault == "schedule_floor":
        return np.maximum(rates, rates.max() * np.float32(0.01))
    return rates * np.float32(FACTORS.get(fault, 1.0))


def delay_one_replica(batches, rank: int, num_processes: int, num_gpus: int):
    """Give the second device the images of the step before."""
    rows = slice(None) if num_processes > 1 else None
    last = None
    for images, labels in batches:
        if rows is None:
            share = len(labels) // num_gpus
            rows = slice(share, 2 * share)
        if rank == (1 if num_processes > 1 else 0) and last is not None:
            delayed = images.copy(), labels.copy()
            delayed[0][rows], delayed[1][rows] = last[0][rows], last[1][rows]
            yield delayed
        else:
            yield images, labels
        last = images, labels


def roll_labels(batches, first_step: int):
    for step, (images, labels) in enumerate(batches, start=1):
        yield images, np.roll(labels, 1) if step >= first_step else labels


def repeat_part(batches, num_devices: int, accumulate: int, count: int):
    """Give each device the last of the first `count` batches of a step in place of those after it."""
    taken = np.minimum(np.arange(accumulate), count - 1)
    for batch in batches:
        shares = (array.reshape(num_devices, accumulate, -1, *array.shape[1:]) for array in batch)
        yield tuple(share[:, taken].reshape(array.shape) for share, array in zip(shares, batch, strict=True))


def weigh_by_device(targets: np.ndarray, num_devices: int) -> np.ndarray:
    """Weigh the labels of each device's images by how many it knows."""
    shares = [np.sign(share) for share in np.split(targets, num_devices)]
    return np.concatenate([share * np.float32(len(share) / np.count_nonzero(share)) for share in shares])


LABEL_FAULTS = {
    "missing_label_is_absent": lambda targets, _: np.where(targets == 0, -np.abs(targets).max(), targets),
    "labels_unweighted": lambda targets, _: np.sign(targets),
    "labels_weighed_by_device": weigh_by_device,
}
"""From the targets of a process's images and the number of its devices to faulty targets."""


class Planted:
    """Put before a backend's class. Families define what is different in them."""

    def __init__(self, spec, data, weights, learning_rates):
        self.fault, self.task_weights, self.planted_spec = os.environ["PLANTED_FAULT"], weights, spec
        if self.fault == "stale_weights":
            weights = {name: array * np.float32(1.01) for name, array in weights.items()}
        steps_per_epoch = len(data.train_labels) // spec.global_batch_size
        self.planted_rates = change_rates(self.fault, learning_rates, steps_per_epoch)
        seed = 2 if self.fault == "other_units_dropped" else spec.seed
        changed = dataclasses.replace(spec.optimizer, **OPTIMIZER_FAULTS.get(self.fault, {}))
        # A user's file has its own BatchNorm.
        batchnorm = {} if spec.model_file else getattr(import_network(spec.model), "BATCHNORM", {})
        usual = dict(batchnorm)
        batchnorm |= BATCHNORM_FAULTS.get(self.fault, {})
        try:
            super().__init__(dataclasses.replace(spec, optimizer=changed, seed=seed), data, weights, self.planted_rates)
        finally:
            batchnorm |= usual

    def train(self, loop):
        loop.learning_rates, given, evaluated = self.planted_rates, loop.host_batches, loop.evaluation._batches
        place = (self.rank, self.num_processes)
        if self.fault == "other_batches":
            loop.training_batches = TrainingBatches(dataclasses.replace(loop.spec, seed=2), loop.data, *place)
        if self.fault == "labels_rolled":
            loop.host_batches = lambda: roll_labels(given(), 1)
        if self.fault == "labels_rolled_from_second_step":
            loop.host_batches = lambda: roll_labels(given(), 2)
        if spoil := LABEL_FAULTS.get(self.fault):
            num_devices = loop.spec.num_gpus // self.num_processes
            loop.host_batches = lambda: ((images, spoil(targets, num_devices)) for images, targets in given())
        if self.fault == "one_replica_one_step_behind":
            loop.host_batches = lambda: delay_one_replica(given(), *place, loop.spec.num_gpus)
        if count := KEPT_PARTS.get(self.fault):
            num_devices = loop.spec.num_gpus // self.num_processes
            loop.host_batches = lambda: repeat_part(given(), num_devices, loop.spec.accumulate, count)
        if self.fault == "window_loss_of_last_step":
            end_step = loop.after_step

            def forget_earlier_steps() -> None:
                end_step()
                if loop.steps_done in EARLIER_STEPS[loop.spec.window_steps]:
                    Planted.read_window_loss(self, 1)

            loop.after_step = forget_earlier_steps
        if kind := ROUNDED.get(self.fault):
            after_step = loop.after_step

            def round_and_go_on() -> None:
                self.round_kept(kind)
                after_step()

            loop.after_step = round_and_go_on
        if self.fault == "last_batch_lost":
            loop.evaluation._batches = lambda: iter(list(evaluated())[:-1])
        if self.fault in ("evaluated_images_misplaced", "evaluated_on_first_misplaced"):
            loop.evaluation._batches = lambda: ((np.roll(images, 1, 0), samples) for images, samples in evaluated())
        super().train(loop)
        self.trained_steps = loop.steps_done
        if self.fault == "one_replica_drifting":
            self.drift()

    def read_window_loss(self, num_steps):
        loss = super().read_window_loss(num_steps)
        if self.fault == "window_loss_of_last_step":
            loss *= num_steps
        return float(round_to_bf16(loss)) if self.fault == "loss_in_bf16" else loss

    def weights(self):
        weights = dict(super().weights())
        if self.fault == "unbiased_variance" and hasattr(self, "trained_steps"):
            # What a framework has accumulated that takes n / (n - 1) times the variance of each batch.
            count = self.planted_spec.global_batch_size // self.planted_spec.num_gpus * DEEPEST_PIXELS
            for name in weights:
                if name.startswith("stage3") and name.endswith(".variance"):
                    accumulated = weights[name] - self.task_weights[name] * np.float32(0.9**self.trained_steps)
                    weights[name] = weights[name] + accumulated / np.float32(count - 1)
        return weights

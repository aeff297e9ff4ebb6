"""Steps and learning rates of a run, computed in the same way for every framework."""

import math

import numpy as np

from howmanygpus.measure.spec import OptimizerSpec, RunSpec


def count_steps_per_epoch(num_train: int, global_batch_size: int) -> int:
    """Count the full global batches in one epoch; the last incomplete one is dropped.

    Raises ValueError if the training split is smaller than one global batch.
    """
    steps = num_train // global_batch_size
    if steps == 0:
        raise ValueError(
            f"global batch of {global_batch_size} images exceeds the {num_train} training images; "
            "lower per_device_batch_size or num_gpus"
        )
    return steps


def count_steps(spec: RunSpec, steps_per_epoch: int) -> int:
    """Count the optimizer updates of the whole run."""
    if spec.steps is not None:
        return spec.steps
    assert spec.epochs is not None, "a run has either epochs or steps"
    return spec.epochs * steps_per_epoch


def scaling_factor(spec: RunSpec) -> float:
    """Return the multiplier of the learning rate for a larger global batch.

    `linear` is Goyal et al. 2017 (arXiv:1706.02677), shown there for SGD; `sqrt` is Krizhevsky 2014
    (arXiv:1404.5997). The reference is lr_reference_batch_size or, without one, one device's batch.
    """
    reference = spec.optimizer.lr_reference_batch_size or spec.per_device_batch_size
    ratio = spec.global_batch_size / reference
    return {"none": 1.0, "linear": ratio, "sqrt": math.sqrt(ratio)}[spec.optimizer.lr_scaling]


def count_whole_steps(epochs: float, steps_per_epoch: int) -> int:
    """Return the number of steps in a number of epochs, rounded; half a step counts as a whole one."""
    # 1.005 epochs of 100 steps are 100.5 steps, and 100.49999999999999 in floating point.
    return math.floor(epochs * steps_per_epoch + 0.5 + 1e-9)


def learning_rates(spec: RunSpec, steps_per_epoch: int) -> np.ndarray:
    """Return the learning rate of every step: float32, (num_steps,).

    The rate rises linearly to the scaled rate over lr_warmup_epochs. Then it stays (`constant`), is multiplied by
    lr_step_factor after each of lr_step_epochs (`step`), or falls to zero at the end of the run, along half a cosine
    (`cosine`, Loshchilov & Hutter 2017, arXiv:1608.03983) or a line (`linear`). Epochs are rounded to whole steps.
    """
    num_steps = count_steps(spec, steps_per_epoch)
    peak = spec.optimizer.learning_rate * scaling_factor(spec)
    num_warmup = count_whole_steps(spec.optimizer.lr_warmup_epochs, steps_per_epoch)
    step = np.arange(num_steps)
    progress = np.clip((step - num_warmup) / max(num_steps - num_warmup, 1), 0.0, 1.0)
    rates = peak * _shape_schedule(spec.optimizer, progress, step, steps_per_epoch)
    rates[:num_warmup] = peak * (step[:num_warmup] + 1) / max(num_warmup, 1)
    return rates.astype(np.float32)


def _shape_schedule(
    optimizer: OptimizerSpec, progress: np.ndarray, step: np.ndarray, steps_per_epoch: int
) -> np.ndarray:
    """Return each step's rate after the warm-up as a fraction of the peak.

    progress: position of each step after the warm-up, from 0 to 1.
    """
    if optimizer.lr_schedule == "cosine":
        return 0.5 * (1.0 + np.cos(np.pi * progress))
    if optimizer.lr_schedule == "linear":
        return 1.0 - progress
    if optimizer.lr_schedule == "step":
        drops = [count_whole_steps(epochs, steps_per_epoch) for epochs in optimizer.lr_step_epochs]
        return optimizer.lr_step_factor ** np.searchsorted(drops, step, side="right").astype(np.float64)
    return np.ones(len(step))

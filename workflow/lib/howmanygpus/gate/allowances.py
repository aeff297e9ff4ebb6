"""
The checks of the parity gate, and how far a correct framework may be off in each, with reasons.

In fp32 the limits are fixed numbers. They are widened by two effects that the reference measures: ReLU inputs so near
to zero that rounding decides, and the growth of rounding, as in deep networks that normalise few values. In reduced
precision they are multiples of the noise that the reference measures for each model, layout and array
(gate.rounding_noise). TF32 and fp16 have the same number of significant bits. Compressed gradients widen the limits by
the loss of the compression.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from howmanygpus.gate.task import DRAWS, FLOAT32, NOISES, compute_rates
from howmanygpus.gate.task_forms import OWN, SGD
from howmanygpus.measure.models.initialization import is_trainable
from howmanygpus.measure.spec import RunSpec

CHECKS = {
    "weights": "parameter count, shapes and values after loading, relative difference of the worst array",
    "repeatable": "logits of the same images twice, relative difference; dropout left on makes them differ",
    "independent": "logits of an image in the company of others; batch statistics left on make them differ",
    "numbers": "kinds of numbers (weights, running statistics, moments of the optimizer, losses, products of "
    "the forward and the backward pass of a training step) that a framework keeps or computes in another format than "
    "the precision says, observed in a step",
    "exchange": "on several devices: processes that exchange gradients in another format or in other numbers of bytes "
    "than the compression says, or PowerSGD that forgets the errors of earlier steps, observed in a step",
    "evaluation": "logits with running statistics drawn at random, before training",
    "noise": "in reduced precision: the least difference of these logits and of the first gradient that it must leave, "
    "over the difference that it left; above 1 the framework computed in more digits than it says",
    "batches": "batches whose bytes are not those that this process should have got",
    "skipped": "in fp16: tasks with other skips than of the one step whose gradients overflow, on the last device",
    "loss": "training loss of the first step",
    "averaging": "component of the gradient along the reference's, over its norm, less one; a sum over two devices: 1",
    "direction": "one minus the cosine between whole gradients or updates and the reference's; the worst of the three",
    "norm": "norm of the whole gradient or update over the reference's, less one; the worst of the three",
    "gradients": "gradient of the worst array after one step",
    "losses": "training losses of all steps, the worst",
    "updates_sgd": "change of the worst array over six steps of sgd with momentum, weight decay and a schedule",
    "updates_own": "the same with the optimizer and the schedule of the runs",
    "statistics": "BatchNorm's running statistics after six steps, of the worst array",
    "united": "on several devices: logits of the same images on each device after training; running statistics of its "
    "own make them differ",
    "evaluated": "test images that were not evaluated exactly once at the end of epochs 2 and 3",
    "evaluation_after": "losses of the test images in these evaluations, on all devices, with a short last batch; with "
    "any number of labels an image, the scores of each label",
    "evaluation_first": "the same on the first device, after the steps of the runs' optimizer",
    "replicas": "parameters of the devices after six steps, the same but for the rounding of six updates",
}
EVALUATIONS = {SGD: "evaluation_after", OWN: "evaluation_first"}
"""The check of the evaluations of each optimizer's task."""


FLOAT32_ULP = 2.0**-23
RELU_FACTOR_ALL_STEPS = 3.0
"""Factor on the effect of ReLU inputs near zero: rounding grows over the steps, the observed range does not."""
SIMULATED = {"tf32": "fp16", "bf16": "bf16", "fp16": "fp16"}
"""Simulated precision whose noise stands for that of a precision. fp32 has none."""
FP16_NOISE_RATIO = 2.0**-1.5
"""Smallest ratio of the noise of fp16 to that of bf16. Rounding eight times as fine moves an eighth of the ReLU inputs
to the other side of zero. In a small network simulations may by chance move none, and a framework some."""
MIN_NOISE_RATIO = 0.1
"""Smallest ratio of a framework's noise in logits to the simulated one, or to the unit roundoff for a user's model.

Measured on CPUs, in small_cnn on one device: 0.66 in JAX, 0.80 in PyTorch, TensorFlow and Keras in bf16, and 0.71 to
0.78 in fp16."""
UNIT_ROUNDOFF = {"tf32": 2.0**-11, "bf16": 2.0**-8, "fp16": 2.0**-11}
FEW, MANY = 4.0, 2.5
"""Ratio of limits to the simulated noise: for arrays with few elements, and for others and all arrays together.

Measured on CPUs: PyTorch's noise in resnet44 is 0.94 to 0.99 times the simulated one in whole gradients and updates,
1.05 times at most in arrays with many elements and 1.7 times in others. In small_cnn, Keras's is up to 2.5 times and
JAX's up to 3.2 times in arrays with few elements.
"""
COARSE = {("keras", "cpu", "bf16"): 4.0}
"""The ratio for arrays with many elements, by family, kind of device and precision, where kernels round more often.

Measured in resnet44 on a CPU without AVX-512, where TensorFlow's noise is 3.2 times the simulated one in one of the
kernels of early layers, whose gradients are sums over many pixels, and 2.2 times in the whole gradient.
"""
FLOAT32_FACTOR = 4.0
"""Ratio of limits in fp32 to the change by PyTorch's float32, which includes growth in the network; some kernels round
more."""
DRAWS_FACTOR = 6.0
"""Ratio of limits to the standard deviation that a user's model causes by other random numbers, known from NUM_DRAWS
computations; dropout may also draw the same numbers on all devices, which adds a factor of up to the square root of
their number."""
LARGE_ARRAY_ELEMENTS = 1000
MAX_JUDGED_LIMIT = 0.9
"""Arrays with a larger limit are not judged alone: an array without its gradient would only be off by 1."""
MAX_DIRECTION, MAX_NORM_RATIO = 0.5, 0.5
"""Largest limits of the whole, whatever the noise: a zero, flipped or tripled gradient is off by 1 or 2."""


@dataclass(frozen=True)
class Compression:
    """Allowed changes by the compression of gradients in a correct framework.

    relative: change of an array or of the whole, relative to its norm. absolute: change of each element of a gradient.
    kernels: change of an array with more than one axis, relative to its norm. state: change of losses, statistics and
    evaluations.
    """

    relative: float = 0.0
    absolute: float = 0.0
    kernels: float = 0.0
    state: float = 0.0


COMPRESSIONS = {
    "none": Compression(),
    # Each process rounds to 11 significant bits, and so does each sum; below 2**-14 the spacing is 2**-24. Adam doubles
    # a relative error, since its two moments take part in it.
    "fp16": Compression(relative=2.0**-9, absolute=2.0**-24, state=2.0**-9),
    # PowerSGD replaces the gradient of each kernel by its projection on a few directions, which is never longer and
    # never turned by more than a right angle, and adds the remainder to the next step's gradient. A kernel by itself
    # therefore tells nothing. The gradients of vectors are exact, at weights that differ slightly.
    "powersgd": Compression(relative=0.25, kernels=1.0, state=0.1),
}


@dataclass(frozen=True)
class Tolerances:
    """Relative differences that rounding can cause between two correct results, besides the measured effects.

    weights: the rounding of a division and a multiplication by n / (n - 1). The other differences grow with the depth
    of the network and from one step to the next.
    """

    logits: float
    loss: float
    later_losses: float
    whole: float
    gradients: float
    updates: float
    statistics: float
    evaluations: float
    weights: float = 2.0**-22


# In every short network frameworks on one device stayed within 0.28 of twice these limits for gradients and updates.
FP32 = Tolerances(
    **{"logits": 1e-5, "loss": 5e-6, "later_losses": 1e-4, "whole": 5e-4, "gradients": 5e-4, "updates": 5e-4},
    **{"statistics": 1e-4, "evaluations": 5e-4},
)
# Every framework stayed within 0.8 times these values and the simulated noise.
REDUCED = Tolerances(
    **{"logits": 1e-4, "loss": 2e-5, "later_losses": 1e-3, "whole": 1e-3, "gradients": 1e-3, "updates": 5e-3},
    **{"statistics": 1e-3, "evaluations": 5e-3},
)


@dataclass(frozen=True)
class WholeLimits:
    """Limits of all arrays together.

    direction: limit of one minus the cosine. norm: limit of the ratio of norms, less one.
    """

    direction: float
    norm: float


def norm(array: np.ndarray) -> float:
    return math.sqrt(dot(array, array))


def dot(one: np.ndarray, other: np.ndarray) -> float:
    """Return the inner product in float64. BLAS would start a thread on each core, which is slow for small arrays."""
    with np.errstate(invalid="ignore"):
        return float(np.multiply(one, other, dtype=np.float64).sum())


def norm_of_all(arrays: dict[str, np.ndarray]) -> float:
    """Return the norm of all arrays together."""
    return math.hypot(*map(norm, arrays.values()))


class Allowances:
    """The limits for one optimizer's steps. expected: the reference's arrays, with the measured effects of rounding."""

    weights = FP32.weights

    def __init__(self, spec: RunSpec, expected: dict[str, np.ndarray]):
        self.expected = expected
        self.rates = compute_rates(spec)
        self.fixed = FP32 if spec.precision == "fp32" else REDUCED
        self.noise = NOISES[SIMULATED[spec.precision]] if spec.precision in SIMULATED else None
        self.many = COARSE.get((spec.family, spec.device_kind, spec.precision), MANY)
        self.compression = COMPRESSIONS[spec.gradient_compression]
        self.is_wide = spec.precision != "fp32" or spec.gradient_compression != "none"

    def of(self, key: str) -> float:
        """Return the limit of the relative difference of the array `logits` or `evaluations_...`."""
        scale = norm(self.expected[key])
        fixed = self.fixed.logits if key == "logits" else self.fixed.evaluations + self.compression.state
        rounding = RELU_FACTOR_ALL_STEPS * norm(self._rounding(key))
        rounding += DRAWS_FACTOR * norm(np.atleast_1d(self.expected.get(f"{DRAWS}/{key}", 0.0)))
        return fixed + (rounding + self._float32([key]) + FEW * self._noise([key])) / scale

    def get_loss_limit(self, window: int) -> float:
        """Return the limit of the relative difference of one window's mean loss; window counts from 1.

        The noise of one loss is that of all together, since a single one may happen to be exact.
        """
        losses = self.expected["losses"]
        shift = self._rounding("losses")[window - 1]
        fixed = self.fixed.loss if window == 1 else self.fixed.later_losses + self.compression.state
        change = RELU_FACTOR_ALL_STEPS * abs(shift) + self._float32(["losses"], window) + FEW * self._noise(["losses"])
        return fixed + change / abs(losses[window - 1])

    def _rounding(self, key: str) -> np.ndarray:
        """Return the change of an array by ReLU inputs near zero, which is only stored if there are any."""
        return self.expected.get(f"rounding/{key}", np.zeros(len(self.rates)))

    def _widen(self, key: str, name: str) -> float:
        """Return how much float32 may change one array."""
        is_gradient = key == "gradient"
        factor = 1.0 if is_gradient else RELU_FACTOR_ALL_STEPS
        # A gradient is read from a difference of weights, which float32 rounds.
        ulps = 1.0 / float(self.rates[0]) if is_gradient else float(len(self.rates))
        weights = self.expected[f"final_mean/{name}" if is_gradient else f"{key}/{name}"]
        return factor * norm(self._rounding(f"{key}/{name}")) + ulps * FLOAT32_ULP * norm(weights)

    def _noise(self, keys: Iterable[str]) -> float:
        """Return the norm of the noise of reduced precision in some arrays together."""
        if self.noise is None:
            return 0.0
        of_bf16 = FP16_NOISE_RATIO if self.noise != NOISES["bf16"] else 1.0
        return math.hypot(
            *(
                max(
                    self.expected[f"{self.noise}/{key}"].item(),
                    of_bf16 * self.expected[f"{NOISES['bf16']}/{key}"].item(),
                )
                for key in keys
            )
        )

    def compute_logits_noise(self) -> float:
        """Return the relative difference of the logits that the simulated rounding alone causes."""
        return self.expected[f"{self.noise}/logits"].item() / norm(self.expected["logits"])

    def compute_gradient_noise(self) -> float:
        """Return the norm of the difference of the first gradient that the simulated rounding alone causes."""
        prefix = f"{self.noise}/gradient/"
        return math.hypot(*(array.item() for name, array in self.expected.items() if name.startswith(prefix)))

    def _float32(self, keys: Iterable[str], num_losses: int | None = None) -> float:
        """Return the change of some arrays together by float32.

        num_losses: number of losses to include. The reference of a user's model in one file measures this change
        differently.
        """
        changes = (norm(np.atleast_1d(self.expected.get(f"{FLOAT32}/{key}", 0.0))[:num_losses]) for key in keys)
        return FLOAT32_FACTOR * math.hypot(*changes)

    def get_whole_limits(self, key: str, expected: dict[str, np.ndarray]) -> WholeLimits:
        """Return the limits of a gradient or a change of weights as a whole.

        An error of relative size e, orthogonal to a vector, turns it by the angle e, whose cosine is 1 - e**2 / 2.
        """
        rounding = math.hypot(*(self._widen(key, name) for name in expected))
        rounding += self._float32(f"{key}/{name}" for name in expected)
        rounding += MANY * self._noise(f"{key}/{name}" for name in expected)
        error = self.fixed.whole + self.compression.relative + rounding / norm_of_all(expected)
        return WholeLimits(min(self.fixed.whole + error**2 / 2, MAX_DIRECTION), min(error, MAX_NORM_RATIO))

    def find_worst(self, key: str, found: dict, expected: dict) -> tuple[tuple[float, float, str] | None, int]:
        """Find the array whose relative difference is largest compared with its limit.

        Returns (relative difference, its limit, name of the array), None if no array is judged by itself, and the
        number of those that are not. The differences of arrays with a very small norm are relative to a thousandth of
        the mean norm. Arrays whose limit exceeds MAX_JUDGED_LIMIT are left out. The noise of one array is at least
        that of all together, because a draw for a small array may happen to be small.
        """
        floor = 1e-3 * np.sqrt(np.mean([norm(array) ** 2 for array in expected.values()]))
        float32_of_all = self._float32(f"{key}/{name}" for name in expected) / norm_of_all(expected)
        noise_of_all = self._noise(f"{key}/{name}" for name in expected) / norm_of_all(expected)
        rows = []
        for name, array in expected.items():
            scale = max(norm(array), floor, 1e-12)
            noise = max(noise_of_all, self._noise([f"{key}/{name}"]) / scale)
            noise *= self.many if array.size >= LARGE_ARRAY_ELEMENTS else FEW
            noise += max(float32_of_all, self._float32([f"{key}/{name}"]) / scale)
            limit = self._fixed(key, array, name) + self._widen(key, name) / scale + noise
            if limit > MAX_JUDGED_LIMIT and self.is_wide:
                continue
            finite = found[name].shape == array.shape and np.isfinite(found[name]).all()
            rows.append((norm(found[name] - array) / scale if finite else float("inf"), limit, name))
        return max(rows, key=lambda row: row[0] / row[1], default=None), len(expected) - len(rows)

    def _fixed(self, key: str, array: np.ndarray, name: str) -> float:
        if not is_trainable(name):
            return self.fixed.statistics + self.compression.state
        lost = self.compression.relative + (self.compression.kernels if array.ndim > 1 else 0.0)
        lost += self.compression.absolute * np.sqrt(array.size) / max(norm(array), 1e-12)
        return lost + (self.fixed.gradients if key == "gradient" else self.fixed.updates)

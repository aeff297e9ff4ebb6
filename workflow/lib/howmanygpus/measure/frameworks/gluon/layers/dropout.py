"""
Dropout of the MXNet Gluon family, by the draws of measure.models.dropout_draws.

A hybridised network is the same for training and evaluation. In evaluation the keys are therefore negative, and a layer
then keeps all units.
"""

import mxnet as mx
from mxnet.gluon import nn

from howmanygpus.measure.frameworks.gluon.layers.context import LayerContext
from howmanygpus.measure.frameworks.gluon.layers.operators import Tensor
from howmanygpus.measure.models.dropout_draws import PRIME, compute_drop_threshold, factors_of_image, factors_of_units

EVALUATION = -1
"""Used instead of the number of steps in evaluation."""


def as_constant(block: nn.HybridBlock, name: str, array) -> None:
    """Keep an array of integers on every context."""
    setattr(block, name, block.params.get_constant(name, mx.nd.array(array, dtype="int64")))


class ImageKeys(nn.HybridBlock):
    """Maps uint8 images (batch, height, width, channels) to their keys."""

    def __init__(self, seed: int, image_shape: tuple[int, int, int]):
        super().__init__()
        self._steps_done = 0
        factors = factors_of_image(seed, image_shape)
        with self.name_scope():
            as_constant(self, "factors", factors[:, 1:].reshape(1, *factors[:, 1:].shape))
            as_constant(self, "factors_of_seed", factors[:, :1].T)
            as_constant(self, "steps", [EVALUATION])

    def begin_step(self) -> None:
        self.prepare_step()
        self._steps_done += 1

    def prepare_step(self) -> None:
        """Draw as the next step will."""
        self.steps.set_data(mx.nd.array([self._steps_done], dtype="int64"))

    def begin_evaluation(self) -> None:
        self.steps.set_data(mx.nd.array([EVALUATION], dtype="int64"))

    def hybrid_forward(self, F, images: Tensor, factors: Tensor, factors_of_seed: Tensor, steps: Tensor) -> Tensor:
        pixels = F.cast(images, "float32")
        # In float32 the sums of so few bytes are exact.
        sums = F.concat(F.sum(pixels, axis=(2, 3)), F.reshape(F.sum(pixels, axis=1), (0, -1)), dim=1)
        products = F.broadcast_mul(F.expand_dims(F.cast(sums, "int64") % PRIME, 1), factors) % PRIME
        mixed = F.broadcast_add(F.sum(products, axis=2), factors_of_seed)
        mixed = F.broadcast_add(mixed, F.reshape(steps, (1, 1))) % PRIME
        is_training = F.reshape(steps > EVALUATION, (1, 1))
        return F.broadcast_mul(mixed * mixed % PRIME * mixed % PRIME + 1, is_training) - 1


class Dropout(nn.HybridBlock):
    def __init__(self, name: str, num_units: int, rate: float):
        super().__init__()
        self._rate = rate
        with self.name_scope():
            as_constant(self, "factors", factors_of_units(name, num_units))

    def hybrid_forward(self, F, x: Tensor, keys: Tensor, factors: Tensor) -> Tensor:
        first, second, last = (F.slice_axis(factors, axis=0, begin=row, end=row + 1) for row in range(3))
        draws = F.broadcast_mul(F.slice_axis(keys, axis=1, begin=0, end=1), first) % PRIME
        draws = draws + F.broadcast_mul(F.slice_axis(keys, axis=1, begin=1, end=2), second) % PRIME
        draws = F.broadcast_add(draws, last) % PRIME
        is_kept = F.cast(draws >= compute_drop_threshold(self._rate), "float32") / (1.0 - self._rate)
        is_evaluation = F.cast(F.slice_axis(keys, axis=1, begin=0, end=1) < 0, "float32")
        is_training = 1.0 - is_evaluation
        return x * F.broadcast_add(F.broadcast_mul(is_kept, is_training), is_evaluation)


def image_keys(context: LayerContext, image_shape: tuple[int, int, int]) -> nn.HybridBlock:
    """Return the layer that computes the keys of images. image_shape: (height, width, channels)."""
    return ImageKeys(context.seed, image_shape)


def dropout(context: LayerContext, name: str, num_units: int, *, rate: float) -> nn.HybridBlock:
    """Return a layer of (batch, num_units) and the images' keys, negative in evaluation. Layers draw by `name`."""
    return Dropout(name, num_units, rate)

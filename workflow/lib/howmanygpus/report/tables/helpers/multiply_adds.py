"""Multiply-adds of the workflow's networks for an image: in convolutions, dense layers and attention of layouts."""

import importlib.util
import math
from collections.abc import Sequence

from howmanygpus.measure.frameworks.geometry import as_pair
from howmanygpus.measure.models.layers.attention import Attend
from howmanygpus.measure.models.layers.conv import Conv
from howmanygpus.measure.models.layers.dense import Dense
from howmanygpus.measure.models.layout import Layer, Shape
from howmanygpus.measure.models.networks import lay_out

TRAINING_FACTOR = 3
"""Passes through the network of a training step, in units of the forward pass: the backward pass computes the gradients
of inputs and of weights (Kaplan et al. 2020, arXiv:2001.08361, section 2.1)."""
FLOPS = 2
"""Operations of a multiply-add, as in the published peaks of devices."""


def count_multiply_adds(spec: dict, image_shape: Sequence[int], num_classes: int) -> int | None:
    """Return the multiply-adds of a run's network for one image; None if they are not known.

    spec: of the run. image_shape: height, width and channels of the prepared images, which the run may crop. Those of a
    user's own network are not known, because its file may have changed or gone since.
    """
    module = f"howmanygpus.measure.networks.{spec['model']}"
    if spec.get("model_file") or spec.get("model_folder") or importlib.util.find_spec(module) is None:
        return None
    height, width, channels = image_shape
    if size := (spec.get("random_resized_crop") or {}).get("size") or spec.get("crop"):
        height, width = size
    layout = lay_out(spec["model"], num_classes, **(spec.get("model_options") or {}))
    return sum(_count(layer, shape) for layer, shape in layout.body.walk((height, width, channels)))


def _count(layer: Layer, shape: Shape) -> int:
    """Return the multiply-adds of one layer. shape: shape of its inputs."""
    outputs = math.prod(layer.infer(shape))
    if isinstance(layer, Conv):
        return outputs * math.prod(as_pair(layer.kernel)) * shape[2] // layer.groups
    if isinstance(layer, Dense):
        return outputs * shape[-1]
    if isinstance(layer, Attend):
        # Both products take as many: queries with keys, and the result with values.
        return 2 * outputs * shape[0]
    return 0


def compute_flops_per_image(multiply_adds: float) -> float:
    """Return the floating-point operations of training with one image."""
    return FLOPS * TRAINING_FACTOR * multiply_adds

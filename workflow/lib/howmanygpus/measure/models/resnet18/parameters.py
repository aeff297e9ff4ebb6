"""Options, layers and canonical parameters of ResNet-18."""

from howmanygpus.measure.models.initialization import Draw
from howmanygpus.measure.models.residual.layout import (
    Layout,
    compute_smallest_map,
    list_basic,
    list_parameters,
    make_layout,
    make_options,
)

OPTIONS = make_options(blocks=[2, 2, 2, 2])


def lay_out(image_channels: int, **options) -> Layout:
    return make_layout(list_basic, OPTIONS, image_channels, options)


def parameters(image_shape: tuple[int, int, int], num_classes: int, **options) -> dict[str, Draw]:
    """Return the initial draw of every array, by its canonical name. image_shape: (height, width, channels)."""
    return list_parameters(lay_out(image_shape[2], **options), num_classes)


def smallest_map(size: int, **options) -> int:
    """Return the height or width of the last stage's feature maps. size: height or width of the network's images."""
    return compute_smallest_map(size, OPTIONS, options)

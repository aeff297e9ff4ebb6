"""Options and canonical parameters of Inception v3."""

from howmanygpus.measure.models.inception_v3.layout import lay_out
from howmanygpus.measure.models.initialization import Draw, batchnorm, constant, he_normal
from howmanygpus.measure.models.options import fraction, integer

OPTIONS: dict[str, dict] = {
    "blocks": {
        "description": "Blocks before the first reduction, between the reductions and after the second one.",
        "type": "array",
        "items": {"type": "integer", "minimum": 1, "maximum": 100},
        "minItems": 3,
        "maxItems": 3,
        "default": [3, 4, 2],
    },
    "width": integer(
        "Channels of which all convolutions have a multiple, such as 2 in the stem and 20 at the end.",
        1,
        256,
        default=16,
    ),
    "stem": {
        "description": "`small` keeps the size of the images; `full` makes 35x35 pixels of 299x299.",
        "enum": ["full", "small"],
        "default": "full",
    },
    "dropout": fraction("Fraction of the units before the last layer that is dropped in training.", default=0.5),
}


def parameters(image_shape: tuple[int, int, int], num_classes: int, **options) -> dict[str, Draw]:
    """Return the initial draw of every array, by its canonical name. image_shape: (height, width, channels)."""
    layout, draws = lay_out(image_shape[2], OPTIONS, options), {}
    for each in layout.convolutions:
        draws[f"{each.name}.kernel"] = he_normal(*each.kernel, each.in_channels, each.out_channels)
        draws |= batchnorm(each.batchnorm, each.out_channels)
    draws["dense.kernel"] = he_normal(layout.out_channels, num_classes)
    draws["dense.bias"] = constant(0.0, num_classes)
    return draws


def smallest_map(size: int, **options) -> int:
    """Return the height or width of the last feature maps. size: height or width of the network's images."""
    for (step, *others), *_ in lay_out(1, OPTIONS, options).blocks:
        for each in (step, *others):
            size = each.shrink(size)
    return size

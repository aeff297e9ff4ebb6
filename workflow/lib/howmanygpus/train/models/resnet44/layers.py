"""The layers of ResNet-44 for every family whose models hold them as attributes."""

from collections.abc import Iterator

from howmanygpus.train.models.resnet44.parameters import BATCHNORM_EPSILON, BATCHNORM_MOMENTUM, WIDTHS, blocks


def create_layers(layers, in_channels: int, num_classes: int) -> Iterator[tuple[str, object]]:
    """(canonical name, layer) of every layer; `layers` is the family's Layers."""

    def conv_bn(prefix: str, suffix: str, channels: int, width: int, stride: int):
        yield f"{prefix}_conv{suffix}", layers.conv3x3(channels, width, stride, use_bias=False)
        yield f"{prefix}_bn{suffix}", layers.batchnorm(width, BATCHNORM_EPSILON, BATCHNORM_MOMENTUM)

    yield from conv_bn("stem", "", in_channels, WIDTHS[0], stride=1)
    channels = WIDTHS[0]
    for name, width, stride in blocks():
        yield from conv_bn(name, "1", channels, width, stride)
        yield from conv_bn(name, "2", width, width, stride=1)
        channels = width
    yield "dense", layers.dense(channels, num_classes)

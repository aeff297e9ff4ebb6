"""Three 3x3 convolutions, global average pooling, one dense layer; no BatchNorm, any input size."""

from howmanygpus.measure.models.layers.conv import Conv
from howmanygpus.measure.models.layers.dense import Dense
from howmanygpus.measure.models.layers.global_pooling import GlobalAveragePool
from howmanygpus.measure.models.layers.relu import Relu
from howmanygpus.measure.models.layout import Layout, chain


def lay_out(num_classes: int) -> Layout:
    widths_and_strides = ((32, 1), (64, 1), (64, 2))
    convolutions = [
        chain(Conv(f"conv{number}", width, 3, stride=stride, padding=1, use_bias=True), Relu())
        for number, (width, stride) in enumerate(widths_and_strides, start=1)
    ]
    return Layout(chain(*convolutions, GlobalAveragePool(), Dense("dense", num_classes)))

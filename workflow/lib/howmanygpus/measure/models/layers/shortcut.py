"""Declares a shortcut without parameters (option A of He et al. 2016, arXiv:1512.03385)."""

from dataclasses import KW_ONLY, dataclass

from howmanygpus.measure.models.layout import Layer, Shape


@dataclass(frozen=True)
class Shortcut(Layer):
    """Takes every `stride`-th pixel of the rows and columns, and appends `new_channels` channels of zeros."""

    FUNCTION = "shortcut"
    _: KW_ONLY
    stride: int
    new_channels: int

    def infer(self, shape: Shape) -> Shape:
        height, width, channels = shape
        return -(-height // self.stride), -(-width // self.stride), channels + self.new_channels

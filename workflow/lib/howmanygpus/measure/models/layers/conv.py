"""Declares convolution."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from howmanygpus.measure.frameworks.geometry import Padding, Size, as_pair, count_windows
from howmanygpus.measure.models.initialization import Draw, constant, he_normal
from howmanygpus.measure.models.layout import NamedLayer, Shape


@dataclass(frozen=True)
class Conv(NamedLayer):
    """Pads with zeros. draw: from the shape of the kernel (height, width, in, out) to its initial draw."""

    FUNCTION = "conv"
    out_channels: int
    kernel: Size
    _: KW_ONLY
    stride: int
    padding: Padding
    use_bias: bool
    groups: int = 1
    draw: Callable[..., Draw] = he_normal

    def infer(self, shape: Shape) -> Shape:
        return (*count_windows(shape, self.kernel, self.stride, self.padding), self.out_channels)

    def sizes(self, shape: Shape) -> dict[str, Any]:
        return {"in_channels": shape[2]}

    def draws(self, shape: Shape) -> dict[str, Draw]:
        kernel = (*as_pair(self.kernel), shape[2] // self.groups, self.out_channels)
        draws = {f"{self.name}.kernel": self.draw(*kernel)}
        return draws | ({f"{self.name}.bias": constant(0.0, self.out_channels)} if self.use_bias else {})

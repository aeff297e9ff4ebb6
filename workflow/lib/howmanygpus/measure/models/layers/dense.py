"""Declares the fully connected layer, with a bias."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from howmanygpus.measure.models.initialization import Draw, constant, he_normal
from howmanygpus.measure.models.layout import NamedLayer, Shape


@dataclass(frozen=True)
class Dense(NamedLayer):
    """Acts on the last axis. draw: from the shape of the kernel (in, out) to its initial draw."""

    FUNCTION = "dense"
    out_features: int
    _: KW_ONLY
    draw: Callable[..., Draw] = he_normal

    def infer(self, shape: Shape) -> Shape:
        return (*shape[:-1], self.out_features)

    def sizes(self, shape: Shape) -> dict[str, Any]:
        return {"in_features": shape[-1]}

    def draws(self, shape: Shape) -> dict[str, Draw]:
        kernel = self.draw(shape[-1], self.out_features)
        return {f"{self.name}.kernel": kernel, f"{self.name}.bias": constant(0.0, self.out_features)}

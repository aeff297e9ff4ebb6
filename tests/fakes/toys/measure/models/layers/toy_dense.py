"""Declares a fully connected layer of whole images, without a bias."""

import math
from dataclasses import dataclass

from howmanygpus.measure.models.initialization import Draw, he_normal
from howmanygpus.measure.models.layout import NamedLayer, Shape


@dataclass(frozen=True)
class ToyDense(NamedLayer):
    FUNCTION = "toy_dense"
    out_features: int

    def infer(self, shape: Shape) -> Shape:
        return (self.out_features,)

    def draws(self, shape: Shape) -> dict[str, Draw]:
        return {f"{self.name}.kernel": he_normal(math.prod(shape), self.out_features)}

"""Declares batch normalisation."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

from howmanygpus.measure.models.initialization import Draw, batchnorm
from howmanygpus.measure.models.layout import NamedLayer, Shape


@dataclass(frozen=True)
class BatchNorm(NamedLayer):
    """momentum: weight of the old running statistic; PyTorch's `momentum` is one minus this."""

    FUNCTION = "batchnorm"
    _: KW_ONLY
    epsilon: float
    momentum: float

    def sizes(self, shape: Shape) -> dict[str, Any]:
        return {"channels": shape[2]}

    def draws(self, shape: Shape) -> dict[str, Draw]:
        return batchnorm(self.name, shape[2])

"""Declares layer normalisation."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

from howmanygpus.measure.models.initialization import Draw, constant
from howmanygpus.measure.models.layout import NamedLayer, Shape


@dataclass(frozen=True)
class LayerNorm(NamedLayer):
    """Normalises the last axis by its mean and its biased variance."""

    FUNCTION = "layernorm"
    _: KW_ONLY
    epsilon: float

    def sizes(self, shape: Shape) -> dict[str, Any]:
        return {"features": shape[-1]}

    def draws(self, shape: Shape) -> dict[str, Draw]:
        return {f"{self.name}.scale": constant(1.0, shape[-1]), f"{self.name}.offset": constant(0.0, shape[-1])}

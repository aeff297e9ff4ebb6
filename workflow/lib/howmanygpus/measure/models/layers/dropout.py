"""Declares dropout."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

from howmanygpus.measure.models.layout import NamedLayer, Shape


@dataclass(frozen=True)
class Dropout(NamedLayer):
    """Drops units of vectors in training, by draws that depend on the layer's name. rate: fraction of the units."""

    FUNCTION = "dropout"
    TAKES_KEYS = True
    _: KW_ONLY
    rate: float

    def sizes(self, shape: Shape) -> dict[str, Any]:
        (num_units,) = shape
        return {"name": self.name, "num_units": num_units}

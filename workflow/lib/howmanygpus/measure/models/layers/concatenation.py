"""Declares concatenation."""

from dataclasses import dataclass

from howmanygpus.measure.models.layout import Branches, Shape


@dataclass(frozen=True)
class Concatenation(Branches):
    """Joins images of the same size along their channels, in the order of the branches."""

    FUNCTION = "concatenate"

    def infer(self, shape: Shape) -> Shape:
        *size, _ = self.branches[0].infer(shape)
        return (*size, sum(branch.infer(shape)[-1] for branch in self.branches))

"""Differences between the gate's tasks of one network: the loss, how batches are taken, and the runs' optimizer."""

from dataclasses import dataclass

from howmanygpus.train.parity.optimizers import SGD_FORM

ACCUMULATED = 2
"""Batches for one step in the task, for runs that take any number of them."""
MULTI_LABEL, SMOOTHING, ACCUMULATES, RESIZES = "multilabel", "smoothing", "accumulated", "resized"


@dataclass(frozen=True)
class Variation:
    """A variation of the task; as text, it is the end of the name of the task's folder.

    multi_label: an image has any number of labels, not one. accumulates: a step takes ACCUMULATED batches of each
    device. resizes: training images are random parts of the stored ones, resized. optimizer: form of the runs'
    optimizer (train.parity.optimizers).
    """

    multi_label: bool = False
    label_smoothing: float = 0.0
    accumulates: bool = False
    resizes: bool = False
    optimizer: str = SGD_FORM

    def __str__(self) -> str:
        words = [MULTI_LABEL] if self.multi_label else []
        words += [f"{SMOOTHING}{self.label_smoothing:g}"] if self.label_smoothing else []
        words += [ACCUMULATES] if self.accumulates else []
        words += [RESIZES] if self.resizes else []
        return "".join(f"_{word}" for word in [*words, self.optimizer])

    @classmethod
    def read(cls, text: str) -> "Variation":
        """Read a variation from its text."""
        *words, optimizer = text.removeprefix("_").split("_")
        smoothing = [float(word.removeprefix(SMOOTHING)) for word in words if word.startswith(SMOOTHING)]
        return cls(
            multi_label=MULTI_LABEL in words,
            label_smoothing=smoothing[0] if smoothing else 0.0,
            accumulates=ACCUMULATES in words,
            resizes=RESIZES in words,
            optimizer=optimizer,
        )

    @property
    def accumulate(self) -> int:
        """Batches for one step in the task."""
        return ACCUMULATED if self.accumulates else 1

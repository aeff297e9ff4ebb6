"""Layers of Inception v3, in order."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from howmanygpus.measure.models.options import fill_options

BATCHNORM = {"epsilon": 1e-3, "momentum": 0.9}
"""momentum: weight of the old running statistic; PyTorch's `momentum` is one minus this."""


class Convolution(NamedTuple):
    """A convolution, then batch normalisation and ReLU.

    kernel: (height, width). padding: padding of rows and columns.
    """

    name: str
    in_channels: int
    out_channels: int
    kernel: tuple[int, int]
    stride: int
    padding: tuple[tuple[int, int], tuple[int, int]]

    @property
    def batchnorm(self) -> str:
        return f"{self.name}_bn"

    def shrink(self, size: int) -> int:
        """Return the height of the outputs. size: height of the inputs. Widths shrink in the same way."""
        return max(0, (size + sum(self.padding[0]) - self.kernel[0]) // self.stride + 1)


class Pooling(NamedTuple):
    """3x3 max or average pooling. Padding counts as zeros."""

    takes_maximum: bool
    stride: int
    padding: int

    def shrink(self, size: int) -> int:
        return max(0, (size + 2 * self.padding - 3) // self.stride + 1)


class Split(NamedTuple):
    """Convolutions of the same input, whose outputs are concatenated."""

    convolutions: tuple[Convolution, ...]

    def shrink(self, size: int) -> int:
        return size


Step: TypeAlias = Convolution | Pooling | Split
Branch: TypeAlias = tuple[Step, ...]
MEAN, REDUCTION = Pooling(False, 1, 1), Pooling(True, 2, 0)


@dataclass(frozen=True)
class Layout:
    """Layers of the network.

    blocks: each concatenates the outputs of its branches. rate: dropout rate before the last layer.
    """

    blocks: tuple[tuple[Branch, ...], ...]
    out_channels: int
    rate: float

    @property
    def convolutions(self) -> Iterator[Convolution]:
        """Every convolution, in order."""
        for step in (step for branches in self.blocks for branch in branches for step in branch):
            if isinstance(step, Split):
                yield from step.convolutions
            elif isinstance(step, Convolution):
                yield step


class Sketch(NamedTuple):
    """A convolution, padded to keep the size of its images unless is_open. units: channels, in units of the width."""

    units: int
    height: int = 1
    width: int = 1
    stride: int = 1
    is_open: bool = False


Sketched: TypeAlias = Sketch | Pooling | tuple[Sketch, ...]
KERNEL_1X7, KERNEL_7X1 = (1, 7), (7, 1)
OPEN: dict[str, Any] = {"is_open": True}
HALVING: dict[str, Any] = {"stride": 2, "is_open": True}
STEMS: dict[str, list[Sketched]] = {
    "full": [
        *(Sketch(2, 3, 3, **HALVING), Sketch(2, 3, 3, **OPEN), Sketch(4, 3, 3), REDUCTION),
        *(Sketch(5), Sketch(12, 3, 3, **OPEN), REDUCTION),
    ],
    "small": [Sketch(2, 3, 3), Sketch(2, 3, 3), Sketch(4, 3, 3), Sketch(5), Sketch(12, 3, 3)],
}


def sketch_first(pooled: int) -> list[list[Sketched]]:
    """Return the block of figure 5, with a 5x5 convolution in one branch. pooled: units after the average pooling."""
    double = [Sketch(4), Sketch(6, 3, 3), Sketch(6, 3, 3)]
    return [[Sketch(4)], [Sketch(3), Sketch(4, 5, 5)], [*double], [MEAN, Sketch(pooled)]]


def sketch_second(units: int) -> list[list[Sketched]]:
    """Return the block of figure 6. units: units of the 1x7 and 7x1 convolutions except the last one of each branch."""
    single = [Sketch(units), Sketch(units, *KERNEL_1X7), Sketch(12, *KERNEL_7X1)]
    double = [Sketch(units), Sketch(units, *KERNEL_7X1), Sketch(units, *KERNEL_1X7)]
    double += [Sketch(units, *KERNEL_7X1), Sketch(12, *KERNEL_1X7)]
    return [[Sketch(12)], [*single], [*double], [MEAN, Sketch(12)]]


def sketch_third() -> list[list[Sketched]]:
    """Return the block of figure 7."""
    split = (Sketch(24, 1, 3), Sketch(24, 3, 1))
    return [[Sketch(20)], [Sketch(24), split], [Sketch(28), Sketch(24, 3, 3), split], [MEAN, Sketch(12)]]


FIRST_REDUCTION: list[list[Sketched]] = [
    [Sketch(24, 3, 3, **HALVING)],
    [Sketch(4), Sketch(6, 3, 3), Sketch(6, 3, 3, **HALVING)],
    [REDUCTION],
]
SECOND_REDUCTION: list[list[Sketched]] = [
    [Sketch(12), Sketch(20, 3, 3, **HALVING)],
    [Sketch(12), Sketch(12, *KERNEL_1X7), Sketch(12, *KERNEL_7X1), Sketch(12, 3, 3, **HALVING)],
    [REDUCTION],
]


def sketch(options: dict[str, Any]) -> dict[str, list[list[Sketched]]]:
    """Return the branches of every block, by the block's name."""
    num_first, num_second, num_third = options["blocks"]
    # 128, 160, 160 and 192 channels with the model's own number of blocks and width.
    units = [8] + [10] * (num_second - 2) + [12] * (num_second > 1)
    sketched = {"stem": [STEMS[options["stem"]]]}
    sketched |= {f"first{number}": sketch_first(4 if number > 1 else 2) for number in range(1, num_first + 1)}
    sketched["reduction1"] = FIRST_REDUCTION
    sketched |= {f"second{number}": sketch_second(each) for number, each in enumerate(units, start=1)}
    sketched["reduction2"] = SECOND_REDUCTION
    return sketched | {f"third{number}": sketch_third() for number in range(1, num_third + 1)}


def lay_out_convolution(name: str, channels: int, given: Sketch, width: int) -> Convolution:
    rows, columns = (0, 0) if given.is_open else (given.height // 2, given.width // 2)
    sizes = ((given.height, given.width), given.stride, ((rows, rows), (columns, columns)))
    return Convolution(name, channels, given.units * width, *sizes)


def lay_out_branch(name: str, channels: int, sketched: list[Sketched], width: int) -> tuple[Branch, int]:
    """Return the steps of a branch and the channels of its output. channels: channels of its input."""
    steps: list[Step] = []
    for number, given in enumerate(sketched, start=1):
        if isinstance(given, Pooling):
            steps.append(given)
        elif isinstance(given, Sketch):
            convolution = lay_out_convolution(f"{name}_conv{number}", channels, given, width)
            steps.append(convolution)
            channels = convolution.out_channels
        else:
            parts = zip("ab", given, strict=True)
            split = [lay_out_convolution(f"{name}_conv{number}{part}", channels, each, width) for part, each in parts]
            steps.append(Split(tuple(split)))
            channels = sum(each.out_channels for each in split)
    return tuple(steps), channels


def lay_out(image_channels: int, rules: dict[str, dict], given: dict[str, Any]) -> Layout:
    """Lay out the network. rules: OPTIONS; given: options of the study."""
    options, channels, blocks = fill_options(rules, given), image_channels, []
    for name, sketched in sketch(options).items():
        numbered = enumerate(sketched, start=1)
        laid_out = [lay_out_branch(f"{name}_{number}", channels, each, options["width"]) for number, each in numbered]
        blocks.append(tuple(branch for branch, _ in laid_out))
        channels = sum(out_channels for _, out_channels in laid_out)
    return Layout(tuple(blocks), channels, options["dropout"])

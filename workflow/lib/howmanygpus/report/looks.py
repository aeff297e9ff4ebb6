"""
Colour, marker and line of each series. A framework has its own colour in every figure of every study.

The variants, inputs, precisions and devices of a framework share its colour and differ in markers and lines.
"""

import zlib
from collections.abc import Iterable

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
"""Okabe and Ito 2008, with a brown instead of its yellow, which is too pale for lines."""
MARKERS = "osD^vPX*"
SOLID, DASHED, MIXED = "-", (0, (5, 2)), (0, (4, 1.5, 1, 1.5))
LINES = (SOLID, DASHED, MIXED)
"""Dotted lines are left to what guides the eye."""
FRAMEWORKS = {
    "pytorch_ddp": ("#0072B2", "o"),
    "pytorch_dp": ("#56B4E9", "s"),
    "horovod_pytorch": ("#332288", "D"),
    "keras_mirrored": ("#D55E00", "^"),
    "tensorflow_mirrored": ("#E69F00", "v"),
    "tensorflow_multiworker": ("#8C6D31", "P"),
    "horovod_tensorflow": ("#882255", "X"),
    "horovod_keras": ("#CC79A7", "*"),
    "jax_sharding": ("#009E73", "o"),
    "mxnet_gluon": ("#000000", "s"),
    "chainer_mn": ("#999933", "D"),
}
"""Colour and marker of each framework: PyTorch in blues, TensorFlow and Keras in warm colours; three are Tol's."""


def look_of(framework: str) -> tuple[str, str]:
    """Return the colour and the marker of a framework. One without an entry has those that follow from its name."""
    number = zlib.crc32(framework.encode())
    drawn = COLOURS[number % len(COLOURS)], MARKERS[number // len(COLOURS) % len(MARKERS)]
    return FRAMEWORKS.get(framework, drawn)


def style_of(names: Iterable[str]) -> dict[str, dict]:
    """Return colour, marker and line of each series by its name, which begins with its framework.

    The first series of a framework has the framework's marker and a solid line. No two series look the same.
    """
    styles: dict[str, dict] = {}
    for name in sorted(set(names)):
        framework = name.split(" ")[0]
        colour, marker = look_of(framework)
        taken = {style["marker"] for style in styles.values() if style["color"] == colour}
        first = MARKERS.index(marker)
        free = [each for each in MARKERS[first:] + MARKERS[:first] if each not in taken] or [marker]
        own = sum(other.split(" ")[0] == framework for other in styles)
        styles[name] = {"color": colour, "marker": free[0], "linestyle": LINES[own % len(LINES)]}
    return styles

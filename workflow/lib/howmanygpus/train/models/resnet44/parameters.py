"""Canonical parameters of ResNet-44."""

from howmanygpus.train.models.initialization import Draw, batchnorm, constant, he_normal

WIDTHS = (16, 32, 64)
BLOCKS_PER_STAGE = 7
BATCHNORM_EPSILON = 1e-5
BATCHNORM_MOMENTUM = 0.9
"""Weight of the old running statistic; PyTorch's `momentum` is one minus this."""


def blocks() -> list[tuple[str, int, int]]:
    """(name, output channels, stride) of every residual block, in order."""
    return [
        (f"stage{stage}_block{block}", width, 2 if stage > 1 and block == 1 else 1)
        for stage, width in enumerate(WIDTHS, start=1)
        for block in range(1, BLOCKS_PER_STAGE + 1)
    ]


def parameters(image_shape: tuple[int, int, int], num_classes: int) -> dict[str, Draw]:
    """image_shape: (height, width, channels)."""
    draws = {"stem_conv.kernel": he_normal(3, 3, image_shape[2], WIDTHS[0]), **batchnorm("stem_bn", WIDTHS[0])}
    channels = WIDTHS[0]
    for name, width, _ in blocks():
        for index, fan_in in ((1, channels), (2, width)):
            draws[f"{name}_conv{index}.kernel"] = he_normal(3, 3, fan_in, width)
            draws.update(batchnorm(f"{name}_bn{index}", width))
        channels = width
    draws["dense.kernel"] = he_normal(channels, num_classes)
    draws["dense.bias"] = constant(0.0, num_classes)
    return draws

"""
ResNet-44 for small images (He et al. 2016, arXiv:1512.03385, section 4.2).

It has three stages of seven blocks with 16, 32 and 64 channels. Shortcuts have no parameters: if the shape changes,
they take every second pixel and pad the new channels with zeros. On 32x32 RGB with ten classes the network has 658,586
trainable parameters.
"""

from howmanygpus.measure.models.layers.batchnorm import BatchNorm
from howmanygpus.measure.models.layers.conv import Conv
from howmanygpus.measure.models.layers.dense import Dense
from howmanygpus.measure.models.layers.global_pooling import GlobalAveragePool
from howmanygpus.measure.models.layers.relu import Relu
from howmanygpus.measure.models.layers.shortcut import Shortcut
from howmanygpus.measure.models.layout import Chain, Layout, Node, Sum, chain
from howmanygpus.measure.models.options import integer

OPTIONS = {
    "blocks": integer("Residual blocks of each of the three stages; n blocks make 6 n + 2 layers.", 1, 200, default=7),
    "width": integer(
        "Channels of the first stage; each later stage has twice as many as the one before.", 1, 1024, default=16
    ),
}
STAGES = 3
BATCHNORM = {"epsilon": 1e-5, "momentum": 0.9}


def lay_out(num_classes: int, blocks: int, width: int) -> Layout:
    parts: list[Node] = [convolve("stem", "", width, stride=1), Relu()]
    for stage in range(STAGES):
        channels = width * 2**stage
        for block in range(1, blocks + 1):
            name, stride = f"stage{stage + 1}_block{block}", 2 if stage > 0 and block == 1 else 1
            shortcut = chain() if stride == 1 else Shortcut(stride=stride, new_channels=channels // 2)
            body = chain(convolve(name, "1", channels, stride), Relu(), convolve(name, "2", channels, stride=1))
            parts += [Sum(body, shortcut), Relu()]
    return Layout(chain(*parts, GlobalAveragePool(), Dense("dense", num_classes)))


def convolve(block: str, number: str, channels: int, stride: int) -> Chain:
    """Return a 3x3 convolution, and the batch normalisation that follows it."""
    convolution = Conv(f"{block}_conv{number}", channels, 3, stride=stride, padding=1, use_bias=False)
    return chain(convolution, BatchNorm(f"{block}_bn{number}", **BATCHNORM))

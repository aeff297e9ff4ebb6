"""ViT-B/16 for the PyTorch family."""

import torch
from torch import nn

from howmanygpus.measure.frameworks.torch.layers.attention import attend
from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
from howmanygpus.measure.frameworks.torch.layers.conv import conv
from howmanygpus.measure.frameworks.torch.layers.dense import dense
from howmanygpus.measure.frameworks.torch.layers.gelu import gelu
from howmanygpus.measure.frameworks.torch.layers.layernorm import layernorm
from howmanygpus.measure.frameworks.torch.layers.tokens import tokens
from howmanygpus.measure.models.vit_b16.parameters import LAYERNORM, lay_out


class VisionTransformer(nn.Module):
    def __init__(self, context: LayerContext, image_shape: tuple[int, int, int], num_classes: int, **options):
        super().__init__()
        layout = self._layout = lay_out(image_shape, **options)
        strides = {"stride": layout.patch, "padding": 0}
        self.patches = conv(context, image_shape[2], layout.width, layout.patch, **strides, use_bias=True)
        self.tokens = tokens(context, layout.num_patches, layout.width)
        for name, sizes in layout.dense.items():
            self.add_module(name, dense(context, *sizes))
        for name in layout.norms:
            self.add_module(name, layernorm(context, layout.width, **LAYERNORM))
        self.dense = dense(context, layout.width, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.tokens(self.patches(x))
        for block in self._layout.blocks:
            attended = attend(self._layer(block, "qkv", self._layer(block, "norm1", x)), heads=self._layout.heads)
            x = x + self._layer(block, "out", attended)
            between = gelu(self._layer(block, "mlp1", self._layer(block, "norm2", x)))
            x = x + self._layer(block, "mlp2", between)
        return self.dense(self.norm(x)[:, 0])

    def _layer(self, block: str, layer: str, x: torch.Tensor) -> torch.Tensor:
        return getattr(self, f"{block}_{layer}")(x)


def build(image_shape: tuple[int, int, int], num_classes: int, context: LayerContext, **options) -> nn.Module:
    """Return a module from normalised images (batch, channels, height, width) to logits. options: see parameters.py."""
    return VisionTransformer(context, image_shape, num_classes, **options)

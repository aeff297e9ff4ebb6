"""ViT-B/16 for the Keras family."""

from keras import KerasTensor

from howmanygpus.measure.frameworks.keras.layers.attention import attend
from howmanygpus.measure.frameworks.keras.layers.context import LayerContext
from howmanygpus.measure.frameworks.keras.layers.conv import conv
from howmanygpus.measure.frameworks.keras.layers.dense import dense
from howmanygpus.measure.frameworks.keras.layers.gelu import gelu
from howmanygpus.measure.frameworks.keras.layers.layernorm import layernorm
from howmanygpus.measure.frameworks.keras.layers.tokens import tokens
from howmanygpus.measure.models.vit_b16.parameters import LAYERNORM, lay_out


def build(x: KerasTensor, num_classes: int, context: LayerContext, **options) -> KerasTensor:
    """Map normalised images (batch, height, width, channels) to logits. options: see parameters.py."""
    layout = lay_out(tuple(x.shape[1:]), **options)
    strides = {"stride": layout.patch, "padding": 0}
    x = tokens(context, conv(context, x, "patches", layout.width, layout.patch, **strides, use_bias=True), "tokens")

    def transform(x: KerasTensor, name: str) -> KerasTensor:
        return dense(context, x, name, layout.dense[name][1])

    for block in layout.blocks:
        normalised = layernorm(context, x, f"{block}_norm1", **LAYERNORM)
        attended = attend(transform(normalised, f"{block}_qkv"), heads=layout.heads)
        x = x + transform(attended, f"{block}_out")
        normalised = layernorm(context, x, f"{block}_norm2", **LAYERNORM)
        x = x + transform(gelu(transform(normalised, f"{block}_mlp1")), f"{block}_mlp2")
    return dense(context, layernorm(context, x, "norm", **LAYERNORM)[:, 0], "dense", num_classes)

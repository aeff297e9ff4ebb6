"""
ViT-B/16 (Dosovitskiy et al. 2021, arXiv:2010.11929, table 1, row "ViT-Base"), in the form of torchvision's `vit_b_16`.

A convolution makes a token of every patch of 16x16 pixels; pixels at the right and lower edges that make no whole patch
are left out. A class token precedes the others, and a learned position embedding is added to each. Twelve blocks
follow. Each has two residual branches: layer normalisation and attention with 12 heads, then layer normalisation and
two dense layers with GELU between them. The last layer classifies the normalised class token. GELU is exact, and layer
normalisation has an epsilon of 1e-6. There is no dropout, as by torchvision's default.

With 1000 classes and images of 224x224 pixels it has 86,567,656 parameters, and takes 1.756e10 multiply-adds per image.
"""

import math
import re

import numpy as np

from howmanygpus.measure.models.initialization import Draw
from howmanygpus.measure.models.layers.attention import Attend
from howmanygpus.measure.models.layers.conv import Conv
from howmanygpus.measure.models.layers.dense import Dense
from howmanygpus.measure.models.layers.gelu import Gelu
from howmanygpus.measure.models.layers.layernorm import LayerNorm
from howmanygpus.measure.models.layers.tokens import ClassToken, Tokens
from howmanygpus.measure.models.layout import Layout, NamedLayer, Sum, chain
from howmanygpus.measure.models.options import integer
from howmanygpus.measure.models.published import Published, name_role

OPTIONS = {
    "patch": integer("Height and width of a patch, in pixels.", 1, 64, default=16),
    "depth": integer("Number of blocks.", 1, 100, default=12),
    "heads": integer("Heads of the attention.", 1, 64, default=12),
    "head_width": integer("Units of each head; a token has as many as all heads together.", 1, 256, default=64),
    "mlp": integer("Units between the two dense layers of a block.", 1, 16384, default=3072),
}
LAYERNORM = {"epsilon": 1e-6}
POSITION_DEVIATION = 0.02


def lay_out(num_classes: int, patch: int, depth: int, heads: int, head_width: int, mlp: int) -> Layout:
    """
    The variance of a dense kernel is that of Glorot & Bengio 2010, as in torchvision, which draws it uniformly, adds
    noise of 1e-6 to biases and sets the last kernel to zero. Here all are normal, and biases zero.
    """
    width = heads * head_width
    patches = Conv("patches", width, patch, stride=patch, padding=0, use_bias=True, draw=draw_patches)
    blocks = []
    for block in (f"block{number}" for number in range(1, depth + 1)):
        queries = Dense(f"{block}_qkv", 3 * width, draw=draw_dense)
        attention = chain(queries, Attend(heads=heads), Dense(f"{block}_out", width, draw=draw_dense))
        between = chain(Dense(f"{block}_mlp1", mlp, draw=draw_dense), Gelu())
        transformed = chain(between, Dense(f"{block}_mlp2", width, draw=draw_dense))
        blocks.append(Sum(chain(LayerNorm(f"{block}_norm1", **LAYERNORM), attention)))
        blocks.append(Sum(chain(LayerNorm(f"{block}_norm2", **LAYERNORM), transformed)))
    last = chain(LayerNorm("norm", **LAYERNORM), ClassToken(), Dense("dense", num_classes, draw=draw_dense))
    return Layout(chain(patches, Tokens("tokens", draw=draw_positions), *blocks, last), order)


def order(layer: NamedLayer) -> int:
    """Place the normalisations after the layers of the blocks, and the last layer last."""
    return 2 if layer.name == "dense" else int(isinstance(layer, LayerNorm))


def draw_patches(*shape: int) -> Draw:
    return normal(math.sqrt(1 / math.prod(shape[:3])), *shape)


def draw_dense(*shape: int) -> Draw:
    return normal(math.sqrt(2 / sum(shape)), *shape)


def draw_positions(*shape: int) -> Draw:
    return normal(POSITION_DEVIATION, *shape)


def normal(deviation: float, *shape: int) -> Draw:
    return lambda generator: (generator.standard_normal(shape) * deviation).astype(np.float32)


PUBLISHED_NAMES = {
    **{"tokens.token": "class_token", "tokens.position": "encoder.pos_embedding"},
    **{"patches": "conv_proj", "norm": "encoder.ln", "dense": "heads.head"},
}
PUBLISHED_LAYERS = {
    **{"norm1": "ln_1.", "norm2": "ln_2.", "mlp1": "mlp.0.", "mlp2": "mlp.3."},
    # Queries, keys and values are one array in both, in this order.
    **{"qkv": "self_attention.in_proj_", "out": "self_attention.out_proj."},
}


def to_published_name(name: str) -> str:
    if name in PUBLISHED_NAMES:
        return PUBLISHED_NAMES[name]
    layer, _, role = name.rpartition(".")
    if found := re.fullmatch(r"block(\d+)_(\w+)", layer):
        return f"encoder.layers.encoder_layer_{int(found[1]) - 1}.{PUBLISHED_LAYERS[found[2]]}{name_role(role)}"
    return f"{PUBLISHED_NAMES[layer]}.{name_role(role)}"


# The published file may be older than the present names, which torchvision replaces when it loads it.
OLD_NAMES = ((r"\.mlp\.linear_1\.", ".mlp.0."), (r"\.mlp\.linear_2\.", ".mlp.3."))
PUBLISHED = Published("vit_b_16-c867db91.pth", "imagenet", to_published_name, old_names=OLD_NAMES)
"""torchvision's `ViT_B_16_Weights.IMAGENET1K_V1`."""

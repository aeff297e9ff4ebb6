"""torchvision's `ViT_B_16_Weights.IMAGENET1K_V1`. The name of the file has the beginning of its SHA-256."""

import re

from howmanygpus.measure.models.conversion import name_role

FILE = "vit_b_16-c867db91.pth"
NORMALIZATION = "imagenet"
OLD_NAMES = ((r"\.mlp\.linear_1\.", ".mlp.0."), (r"\.mlp\.linear_2\.", ".mlp.3."))
"""The published file may be older than the present names, which torchvision replaces when it loads it."""
NAMES = {
    **{"tokens.token": "class_token", "tokens.position": "encoder.pos_embedding"},
    **{"patches": "conv_proj", "norm": "encoder.ln", "dense": "heads.head"},
}
LAYERS = {
    **{"norm1": "ln_1.", "norm2": "ln_2.", "mlp1": "mlp.0.", "mlp2": "mlp.3."},
    # Queries, keys and values are one array in both, in this order.
    **{"qkv": "self_attention.in_proj_", "out": "self_attention.out_proj."},
}


def to_published_name(name: str) -> str:
    if name in NAMES:
        return NAMES[name]
    layer, _, role = name.rpartition(".")
    if found := re.fullmatch(r"block(\d+)_(\w+)", layer):
        return f"encoder.layers.encoder_layer_{int(found[1]) - 1}.{LAYERS[found[2]]}{name_role(role)}"
    return f"{NAMES[layer]}.{name_role(role)}"

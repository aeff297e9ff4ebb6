"""torchvision's `DenseNet121_Weights.IMAGENET1K_V1`. The name of the file has the beginning of its SHA-256."""

import re

from howmanygpus.measure.models.conversion import name_role

FILE = "densenet121-a639ec97.pth"
NORMALIZATION = "imagenet"
OLD_NAMES = ((r"\.(norm|conv)\.([12])\.", r".\1\2."),)
"""The published file is older than the present names: `denselayer1.norm.1.weight` is `denselayer1.norm1.weight`."""
NAMES = {
    **{"stem_conv": "features.conv0", "stem_bn": "features.norm0"},
    **{"final_bn": "features.norm5", "dense": "classifier"},
}


def to_published_name(name: str) -> str:
    layer, _, role = name.rpartition(".")
    layer = re.sub(r"^block(\d+)_layer(\d+)_", r"features.denseblock\1.denselayer\2.", layer)
    layer = re.sub(r"^transition(\d+)_", r"features.transition\1.", layer)
    return f"{NAMES.get(layer) or re.sub(r'[.]bn', '.norm', layer)}.{name_role(role)}"

"""Names of torchvision's residual networks."""

import re

from howmanygpus.measure.models.conversion import name_role

STEM = {"stem_conv": "conv1", "stem_bn": "bn1", "dense": "fc"}
SHORTCUT = {"shortcut_conv": "downsample.0", "shortcut_bn": "downsample.1"}


def to_published_residual_name(name: str) -> str:
    """Return torchvision's name of an array, for example `layer1.0.bn2.weight` for `stage1_block1_bn2.scale`."""
    layer, _, role = name.rpartition(".")
    if found := re.fullmatch(r"stage(\d+)_block(\d+)_(\w+)", layer):
        stage, block, part = found.groups()
        return f"layer{stage}.{int(block) - 1}.{SHORTCUT.get(part, part)}.{name_role(role)}"
    return f"{STEM[layer]}.{name_role(role)}"

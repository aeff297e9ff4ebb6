#!/usr/bin/env bash
# Finding:  PyTorch's FlopCounterMode ignores the groups of a convolution in the gradient of its weights: the backward
#           pass of a depthwise convolution of 32 channels counts as 33 forward passes. It is 2, as without groups.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    counting work
# Source:   torch/utils/flop_counter.py: conv_backward_flop takes the channels from the gradient and the input.
# Guess:    forward and backward know the groups; the shape of the weights has them.
# Hurts:    FLOP/s and model FLOP utilisation of MobileNet, EfficientNet, ConvNeXt and ResNeXt, too high by several
#           times.
# Here:     multiply-adds are computed from the layers' shapes and groups, not counted by a tool
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > count.py <<'P'
import sys

import torch
from torch.utils.flop_counter import FlopCounterMode

ratios = {}
for groups in (1, 4, 32):
    layer = torch.nn.Conv2d(32, 32, 3, padding=1, groups=groups, bias=False)
    with FlopCounterMode(display=False) as forward:
        outputs = layer(torch.randn(2, 32, 8, 8, requires_grad=True))
    with FlopCounterMode(display=False) as backward:
        outputs.sum().backward()
    assert forward.get_total_flops() == 2 * 2 * 8 * 8 * 32 * 32 // groups * 9
    ratios[groups] = backward.get_total_flops() / forward.get_total_flops()
print(f"torch {torch.__version__}: operations of backward / forward by groups: {ratios}")
sys.exit(ratios != {1: 2, 4: 5, 32: 33})
P
"$python" count.py 2>/dev/null

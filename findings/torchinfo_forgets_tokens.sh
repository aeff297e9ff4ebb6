#!/usr/bin/env bash
# Finding:  torchinfo counts the multiply-adds of a linear layer on (batch, tokens, channels) as if there were one token,
#           and none for MultiheadAttention.
# Packages: torch==2.13.0 numpy==2.4.6 torchinfo==1.8.0
# Topic:    counting work
# Source:   torchinfo/layer_info.py multiplies the parameters of all layers but convolutions by the first dimension.
# Guess:    every token counts, as every pixel of a convolution does.
# Hurts:    whoever takes a transformer's cost from it: too small by the number of tokens.
# Here:     multiply-adds are computed from the layers' shapes
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P'
import sys

import torch
from torchinfo import summary


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(64, 4, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)[0]


linear = summary(torch.nn.Linear(64, 32, bias=False), (8, 128, 64), verbose=0).total_mult_adds
attention = summary(Attention(), (8, 128, 64), verbose=0).total_mult_adds
print(f"linear layer: {linear}, right: {8 * 128 * 64 * 32}; attention: {attention}")
sys.exit((linear, attention) != (8 * 64 * 32, 0))
P

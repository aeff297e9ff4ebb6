#!/usr/bin/env bash
# Finding:  On a CPU, PyTorch's FlopCounterMode counts 0 operations for scaled_dot_product_attention, forward and
#           backward, unless the math backend is chosen: the fused kernel of the CPU is not in its registry.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    counting work
# Source:   torch/utils/flop_counter.py registers the attention kernels of CUDA alone.
# Guess:    the same number for every backend, since it stands for the operator and not for its kernel.
# Hurts:    whoever counts a transformer's operations on a login node, for the model FLOPs utilisation on GPUs.
# Here:     multiply-adds are computed from the layers' shapes, not counted by a tool
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P'
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode


def count(*backends):
    query = torch.randn(2, 4, 64, 32, requires_grad=True)
    with sdpa_kernel(list(backends)), FlopCounterMode(display=False) as counter:
        F.scaled_dot_product_attention(query, query, query).sum().backward()
    return counter.get_total_flops()


usual, math = count(SDPBackend.FLASH_ATTENTION, SDPBackend.MATH), count(SDPBackend.MATH)
expected = 6 * 2 * (2 * 4 * 64 * 64 * 32)
print(f"torch {torch.__version__}: counted {usual} as usual, {math} with the math backend; by hand {expected}")
sys.exit((usual, math) != (0, expected))
P

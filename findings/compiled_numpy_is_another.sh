#!/usr/bin/env bash
# Finding:  NumPy calls in a function of torch.compile run as PyTorch's, with other results: cumsum of bytes wraps at
#           256, the sign of NaN is 0, and np.random draws from PyTorch's generator, so that np.random.seed has no
#           effect.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    programs
# Source:   torch/_numpy; torch._dynamo.config.use_numpy_random_stream is off by default.
# Guess:    NumPy's values, or a graph break.
# Hurts:    augmentation and metrics in NumPy inside a compiled step.
# Here:     the network and its loss alone are compiled
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > compiled.py <<'P'
import sys

import numpy as np
import torch


def compute(levels, values):
    return np.cumsum(levels), np.sign(values), np.random.rand(3)


def run(function):
    np.random.seed(0)
    total, sign, random = function(np.array([200, 100, 50], np.uint8), np.array([-2, np.nan], np.float32))
    return total.tolist(), str(sign.tolist()), np.round(random, 4).tolist()


plain, compiled = run(compute), run(torch.compile(compute, backend="aot_eager"))
again = run(torch.compile(compute, backend="aot_eager"))
print(f"cumsum of bytes, sign of -2 and NaN, random numbers of seed 0: {plain} plain, {compiled} and {again} compiled")
sys.exit(not (plain[:2] == ([200, 300, 350], "[-1.0, nan]") and compiled[:2] == ([200, 44, 94], "[-1.0, 0.0]")
              and plain[2] != compiled[2] != again[2]))
P
"$python" compiled.py 2>/dev/null

#!/usr/bin/env bash
# Finding:  torchao's AdamWFp8 moves a weight whose gradients are a thousandth of the largest in its block of 256 more
#           than 20 times as far in 100 steps as AdamW, and AdamW8bit one whose are a 30,000th; AdamW4bit moves both
#           less than a fifth as far. Weights with the largest gradients agree to 5 %.
# Packages: torch==2.13.0 numpy==2.4.6 torchao==0.18.0
# Topic:    what frameworks do differently
# Source:   torchao/optim: a block of the second moment has one scale, and its range is that of the gradients squared;
#           what rounds to 0 is divided by little more than eps.
# Guess:    all weights follow AdamW within some percent (confidence 70 %), as its step does not depend on the size of
#           gradients.
# Hurts:    layers whose inputs have different units or rare features: the weights of the small ones are thrown far off.
# Here:     optimizers keep their state in float32
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > adam.py <<'P'
import sys

import torch

if "compiled" not in sys.argv:
    # The same operations without a C++ compiler.
    torch.compile = lambda function=None, **options: function or (lambda inner: inner)
from torchao.optim import AdamW4bit, AdamW8bit, AdamWFp8  # noqa: E402

scales = torch.logspace(-6, 0, 128)
columns = {"1": 127, "1/1,000": 64, "1/30,000": 32}


def train(kind):
    """Return how far weights move whose gradients have these sizes, in a layer of 64 outputs and 128 inputs."""
    generator = torch.Generator().manual_seed(1)
    weight = torch.nn.Parameter(torch.zeros(64, 128))
    optimizer = kind([weight], lr=1e-2, weight_decay=0.0)
    for _ in range(100):
        weight.grad = (torch.randn(64, 128, generator=generator) + 0.3) * scales
        optimizer.step()
    moved = weight.detach().abs().mean(0)
    return [moved[column].item() for column in columns.values()]


full = train(torch.optim.AdamW)
found = {kind.__name__: [round(moved / reference, 2) for moved, reference in zip(train(kind), full)]
         for kind in (AdamW8bit, AdamWFp8, AdamW4bit)}
print(f"distance over that of AdamW, for gradients of relative size {', '.join(columns)}: {found}")
sys.exit(not (all(0.95 < large < 1.05 for large, *_ in found.values()) and found["AdamWFp8"][1] > 20
              and found["AdamW8bit"][2] > 10 and max(found["AdamW4bit"][1:]) < 0.2))
P
OMP_NUM_THREADS=1 "$python" adam.py "$@" 2>/dev/null

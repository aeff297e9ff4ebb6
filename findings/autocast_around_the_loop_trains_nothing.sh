#!/usr/bin/env bash
# Finding:  A training loop that is inside one torch.autocast computes every forward pass with the weights of the first
#           step: the optimizer changes the weights, and the loss stays the same. No warning says so.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    programs
# Source:   autocast keeps the reduced copies of weights until the outermost context ends, whatever an optimizer does.
# Guess:    the same training, only not recommended.
# Hurts:    loops that enter autocast once, outside: a rate is measured and nothing is learned.
# Here:     measure/frameworks/torch/family.py enters autocast in each forward pass; docs/program.md names it
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > loop.py <<'P'
import contextlib
import sys

import torch


def train(around_loop):
    torch.manual_seed(0)
    network, images = torch.nn.Linear(4, 1), torch.randn(64, 4)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    first = network.weight.detach().clone()
    losses = []
    reduced = lambda: torch.autocast("cpu", torch.bfloat16)
    with reduced() if around_loop else contextlib.nullcontext():
        for _ in range(6):
            with contextlib.nullcontext() if around_loop else reduced():
                loss = (network(images).float() - images.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(round(loss.item(), 4))
    return losses, bool((network.weight != first).all())


(outside, moved), (inside, _) = train(True), train(False)
print(f"torch {torch.__version__}: losses with autocast around the loop {outside} (weights changed: {moved}), "
      f"in each step {inside}")
sys.exit(not (moved and len(set(outside)) == 1 and inside[-1] < inside[0] / 2))
P
"$python" loop.py 2>/dev/null

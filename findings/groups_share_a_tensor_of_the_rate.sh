#!/usr/bin/env bash
# Finding:  If the learning rate of a PyTorch optimizer is a tensor, as compiled and captured steps want it, all groups
#           of weights without a rate of their own have that one tensor: under a LambdaLR with a function for each
#           group, all have the rate of the last group. With a number each has its own.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    what frameworks do differently
# Source:   torch/optim/optimizer.py: add_param_group gives each group the default itself; lr_scheduler.py fills a
#           tensor in place.
# Guess:    each group has its own rate, as each has its own entry "lr" (confidence 60 %; an engineer's 95 %).
# Hurts:    layer-wise rates, a frozen or slow first stage, warm-up of a new head alone: after lr=1e-3 became
#           lr=torch.tensor(1e-3) to avoid recompilation, another task is trained.
# Here:     measure/frameworks/torch/family.py sets a number, the same for all weights, before each step
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P' 2>/dev/null
import sys

import torch


def train(rate, own=False):
    """Return the rates of two groups, a tenth and a half of the base, and their weights after two steps."""
    weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    groups = [{"params": [weight]} | ({"lr": torch.as_tensor(rate).clone()} if own else {}) for weight in weights]
    optimizer = torch.optim.SGD(groups, lr=rate)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda step: 0.1, lambda step: 0.5])
    for _ in range(2):
        for weight in weights:
            weight.grad = torch.ones(1)
        optimizer.step()
        scheduler.step()
    return ([round(float(group["lr"]), 3) for group in optimizer.param_groups],
            [round(weight.item(), 3) for weight in weights])


number, tensor, own = train(1.0), train(torch.tensor(1.0)), train(torch.tensor(1.0), own=True)
print(f"rates and weights of two groups: number {number}, tensor {tensor}, a tensor for each group {own}")
sys.exit(not (number == own == ([0.1, 0.5], [-0.2, -1.0]) and tensor == ([0.5, 0.5], [-1.0, -1.0])))
P

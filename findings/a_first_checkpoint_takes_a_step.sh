#!/usr/bin/env bash
# Finding:  get_optimizer_state_dict() and get_state_dict(), with which torch.distributed.checkpoint saves, take a step
#           of an optimizer that has taken none, with gradients of 0 and a learning rate of 0. A run that saves a
#           checkpoint before its first step trains otherwise: the first step of AdamW is 0.75 of its size, that of
#           RAdam half, that of ASGD none, and Rprop begins with steps of 1e-6 for 1e-2. SGD, RMSprop and Adagrad are
#           equal.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    programs
# Source:   torch/distributed/checkpoint/state_dict.py: _init_optim_state() calls optim.step(), so that there is a state
#           to load into; the count of steps is 1 afterwards, and what the optimizer derived from the rate is of 0.
# Guess:    reading the state for a checkpoint changes nothing (confidence 95 %).
# Hurts:    comparisons of runs with and without a checkpoint of step 0, and programs that call get_state_dict() before
#           they see that there is no checkpoint to load.
# Here:     torch.distributed.checkpoint is not used
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > first.py <<'P'
import sys
import warnings

import torch
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

warnings.filterwarnings("ignore")
MAKE = {
    "AdamW": lambda weights: torch.optim.AdamW(weights, 0.01, weight_decay=0.0),
    "RAdam": lambda weights: torch.optim.RAdam(weights, 0.01),
    "ASGD": lambda weights: torch.optim.ASGD(weights, 0.01),
    "Rprop": lambda weights: torch.optim.Rprop(weights, 0.01),
    "SGD": lambda weights: torch.optim.SGD(weights, 0.01, momentum=0.9),
    "RMSprop": lambda weights: torch.optim.RMSprop(weights, 0.01),
    "Adagrad": lambda weights: torch.optim.Adagrad(weights, 0.01),
}


def steps(name, saved_after):
    """Return the size of each of three steps if the state is read after a number of steps."""
    network = torch.nn.Linear(4, 1)
    optimizer, sizes = MAKE[name](network.parameters()), []
    for count in range(3):
        if count == saved_after:
            get_optimizer_state_dict(network, optimizer)
        optimizer.zero_grad()
        network(torch.ones(2, 4)).mean().backward()
        before = network.weight.detach().double().clone()
        optimizer.step()
        sizes.append((network.weight.double() - before).abs().max().item())
    return torch.tensor(sizes)


usual, saved, later = ({name: steps(name, after) for name in MAKE} for after in (None, 0, 1))
ratio = {name: (saved[name][0] / usual[name][0]).item() for name in MAKE}
same_later = all(torch.allclose(later[name], usual[name], rtol=1e-4, atol=1e-6) for name in MAKE)
print(f"torch {torch.__version__}: first step after a checkpoint, as a share of that without: "
      f"{', '.join(f'{name} {share:.4g}' for name, share in ratio.items())}; after a checkpoint of step 1 equal: "
      f"{same_later}")
wanted = {"AdamW": 0.744, "RAdam": 0.526, "ASGD": 0.0, "Rprop": 1e-4, "SGD": 1.0, "RMSprop": 1.0, "Adagrad": 1.0}
sys.exit(not (same_later and all(abs(ratio[name] - share) < 0.005 for name, share in wanted.items())
              and ratio["Rprop"] < 0.001))
P
"$python" first.py 2>/dev/null

#!/usr/bin/env bash
# Finding:  load_state_dict of a PyTorch optimizer gives its state the number format of the weights: the float32 state
#           that the Adafactor of transformers has for bfloat16 weights is bfloat16 after loading, and a run that was
#           resumed has other weights than one that was not. With float32 weights the two are equal to the bit.
# Packages: torch==2.13.0 numpy==2.4.6 transformers==5.24.0 accelerate==1.15.0
# Topic:    what frameworks do differently
# Source:   torch/optim/optimizer.py: _process_value_according_to_param_policy assumes that state has the format of its
#           weights; all but "step" is converted.
# Guess:    a resumed run continues as if it had not stopped (confidence 40 %; an engineer's 90 %).
# Hurts:    resumed training of bfloat16 weights with any optimizer that keeps its state in float32: rounded to 8 bits,
#           without a word.
# Here:     weights and the state of optimizers are float32 in every precision, and no run is resumed
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > resume.py <<'P'
import sys

import torch
from transformers.optimization import Adafactor


def make(weight):
    return Adafactor([weight], lr=1e-2, relative_step=False, scale_parameter=False)


def train(kind, resumes):
    """Return the weights after twenty steps, and the format of the state at the tenth."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(64, 64, generator=generator).to(kind))
    optimizer = make(weight)
    for step in range(20):
        if step == 10:
            if resumes:
                saved = optimizer.state_dict()
                optimizer = make(weight)
                optimizer.load_state_dict(saved)
            state = optimizer.state[weight]["exp_avg_sq_row"].dtype
        weight.grad = torch.randn(64, 64, generator=generator).to(kind)
        optimizer.step()
    return weight.detach(), str(state).removeprefix("torch.")


found = {}
for kind in (torch.float32, torch.bfloat16):
    (one, before), (two, after) = train(kind, False), train(kind, True)
    found[str(kind).removeprefix("torch.")] = (before, after, (one != two).sum().item())
print(f"torch {torch.__version__}: format of the state before and after loading, and how many of 4,096 weights differ ten "
      f"steps later, by format of the weights: {found}")
sys.exit(not (found["float32"] == ("float32", "float32", 0) and found["bfloat16"][:2] == ("float32", "bfloat16")
              and found["bfloat16"][2] > 20))
P
"$python" resume.py 2>/dev/null

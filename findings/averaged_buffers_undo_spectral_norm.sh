#!/usr/bin/env bash
# Finding:  With use_buffers=True, which Lightning's weight averaging sets by itself, PyTorch's AveragedModel averages
#           the singular vectors of spectral_norm too, whose mean is no unit vector: after 3,000 steps of Adam, a layer
#           of the averaged network has a spectral norm of 1.4 to 2.6, by seed, instead of 1; with other rates and
#           decays it was 12. Without it, all have 1.0.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    what frameworks do differently
# Source:   torch/optim/swa_utils.py averages all buffers of floating point; spectral_norm keeps _u and _v as buffers
#           and does not renew them in evaluation.
# Guess:    the norm of the averaged layers is near 1 (confidence 70 %).
# Hurts:    GANs, which have both: the averaged generator, the one that is shown, has layers with a gain that was never
#           trained, and use_buffers=True is the advice for BatchNorm.
# Here:     no run averages weights
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > spectral.py <<'P'
import sys

import torch
from torch.nn.utils.parametrizations import spectral_norm
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def measure(network):
    """Return the largest spectral norm of the layers, as they are in evaluation."""
    network.eval()
    return max(torch.linalg.matrix_norm(layer.weight, 2).item() for layer in network if hasattr(layer, "weight"))


def train(seed):
    """Return the norm of the trained network, of its average, and of that with buffers."""
    torch.manual_seed(seed)
    layers = [spectral_norm(torch.nn.Linear(64, size)) for size in (64, 64, 1)]
    network = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
    averages = [AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(0.999), use_buffers=choice)
                for choice in (False, True)]
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, betas=(0.0, 0.9))
    rule = torch.randn(64)
    for _ in range(3000):
        inputs = torch.randn(64, 64)
        optimizer.zero_grad()
        (3 * network(inputs).squeeze(1) - (inputs @ rule).tanh()).pow(2).mean().backward()
        optimizer.step()
        for average in averages:
            average.update_parameters(network)
    return [round(measure(each), 3) for each in (network, *(average.module for average in averages))]


found = [train(seed) for seed in range(4)]
print(f"largest spectral norm of the trained network, its average, the average with buffers, four seeds: {found}")
sys.exit(not (all(max(trained, plain) < 1.15 and buffers > 1.05 for trained, plain, buffers in found)
              and max(buffers for *_, buffers in found) > 1.3))
P
OMP_NUM_THREADS=1 "$python" spectral.py 2>/dev/null

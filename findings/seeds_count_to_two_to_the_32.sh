#!/usr/bin/env bash
# Finding:  Of a seed of 64 bits PyTorch on CPUs and JAX (without 64-bit mode) use the lower 32: seed 1 and seed 2**32 +
#           1 give the same weights and orders, though both take the seed and PyTorch's initial_seed() returns all of
#           it.
# Packages: torch==2.13.0 numpy==2.4.6 jax==0.10.2 optax==0.2.8
# Topic:    what frameworks do differently
# Source:   ATen/core/MT19937RNGEngine.h keeps seed & 0xffffffff; jax.random.key makes an array of 32 bits of it.
# Guess:    other numbers, as on a GPU, where PyTorch's generator uses all 64 bits.
# Hurts:    seeds made as (run << 32) + rank: all runs are one.
# Here:     the schema's largest seed is 2**32 - 1; orders are Philox streams keyed by seed and epoch
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > seeds.py <<'P'
import sys

import jax
import torch

small, large = 1, 2**32 + 1
generators = [torch.Generator().manual_seed(seed) for seed in (small, large)]
kept = [generator.initial_seed() for generator in generators]
orders = [torch.randperm(8, generator=generator).tolist() for generator in generators]
normal = [jax.random.normal(jax.random.key(seed), (3,)).tolist() for seed in (small, large)]
print(f"torch: seeds {kept}, orders {orders}; jax: {normal}")
sys.exit(not (kept == [small, large] and orders[0] == orders[1] and normal[0] == normal[1]))
P
"$python" seeds.py 2>/dev/null

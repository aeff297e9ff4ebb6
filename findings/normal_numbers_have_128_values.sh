#!/usr/bin/env bash
# Finding:  jax.random.normal in bfloat16 has 128 different values, of which none exceeds 2.9, among a million numbers
#           (1,024 and 3.5 in float16). torch.randn in bfloat16 has thousands, to 4.8, as float32 rounded to bfloat16
#           has.
# Packages: torch==2.13.0 numpy==2.4.6 jax==0.10.2 optax==0.2.8
# Topic:    what frameworks do differently
# Source:   jax.random draws as many uniform values as the type has bits of mantissa, and puts them through erf_inv.
# Guess:    numbers of float32, rounded.
# Hurts:    weights and noise drawn in the type of the parameters: no tails, and equal initial weights by the thousand.
# Here:     weights are drawn once, in float32, for all frameworks
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > draw.py <<'P'
import sys

import jax
import jax.numpy as jnp
import numpy as np
import torch

draws = {
    "jax bfloat16": jax.random.normal(jax.random.key(0), (1_000_000,), jnp.bfloat16).astype(jnp.float32),
    "jax float16": jax.random.normal(jax.random.key(0), (1_000_000,), jnp.float16).astype(jnp.float32),
    "torch bfloat16": torch.randn(1_000_000, dtype=torch.bfloat16, generator=torch.Generator().manual_seed(0)).float(),
}
found = {name: (len(np.unique(values)), round(float(np.abs(values).max()), 2)) for name, values in draws.items()}
print("different values and the largest:", found)
jax_16, jax_half, other = found.values()
sys.exit(not (jax_16[0] == 128 and jax_16[1] < 3 and jax_half[0] == 1024 and other[0] > 2000 and other[1] > 4))
P
"$python" draw.py 2>/dev/null

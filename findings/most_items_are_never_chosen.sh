#!/usr/bin/env bash
# Finding:  jax.random.choice(key, n, p=p) can choose at most 8.4 million items: of 50 million equal ones, one in six, and
#           all others never, whatever the key, so that two draws share almost five times as many as they should.
#           Without p it chooses among all.
# Packages: jax==0.10.2 numpy==2.4.6
# Topic:    loaders
# Source:   jax/_src/random.py looks up a uniform float32, which has 2**23 values, in the cumulative sum of p.
# Guess:    each item with its probability, to the rounding of p.
# Hurts:    weighted sampling of large data sets: most examples are never seen, and an epoch repeats the others.
# Here:     orders are permutations, drawn with NumPy in float64 or integers
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > choose.py <<'P'
import sys

import jax
import jax.numpy as jnp
import numpy as np

items, draws = 50_000_000, 2_000_000


def draw(seed, **given):
    return np.unique(np.asarray(jax.random.choice(jax.random.key(seed), items, (draws,), **given)))


expected = round(draws**2 / items)
shared = {}
for name, given in {"with p": {"p": jnp.full(items, 1 / items)}, "without": {}}.items():
    first, second = (draw(seed, **given) for seed in (0, 1))
    shared[name] = len(np.intersect1d(first, second)) / expected
print(f"jax {jax.__version__}: two draws of {draws:,} of {items:,} equal items share, over the {expected:,} that are "
      f"expected: {shared['with p']:.1f} with p, {shared['without']:.2f} without")
sys.exit(not (shared["with p"] > 4 and 0.9 < shared["without"] < 1.1))
P
JAX_PLATFORMS=cpu "$python" choose.py

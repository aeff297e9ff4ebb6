#!/usr/bin/env bash
# Finding:  A flax nnx model passed to a function of jax.jit works, and its state is lost without a word: Dropout draws
#           the same mask at each call and BatchNorm's running statistics stay at their start. With nnx.jit both move.
# Packages: jax==0.10.2 flax==0.12.8
# Topic:    what frameworks do differently
# Source:   nnx modules are pytrees, which jax.jit takes as values; what changes inside is a copy.
# Guess:    an error, as before modules were pytrees, or the same as nnx.jit.
# Hurts:    training steps written with jax.jit: a fixed dropout mask, and an evaluation with means of 0.
# Here:     the step takes parameters and statistics apart by nnx.split, and returns the statistics
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > jit.py <<'P'
import sys

import flax
import jax
import numpy as np
from flax import nnx


class Network(nnx.Module):
    def __init__(self):
        self.norm, self.dropout = nnx.BatchNorm(4, rngs=nnx.Rngs(0)), nnx.Dropout(0.5, rngs=nnx.Rngs(0))

    def __call__(self, images):
        return self.dropout(self.norm(images))


images, found = np.random.default_rng(0).normal(3, 1, (64, 4)).astype(np.float32), {}
for name, jit in (("jax.jit", jax.jit), ("nnx.jit", nnx.jit)):
    network = Network()
    network.train()
    forward = jit(lambda network, images: network(images))
    first, second = (np.asarray(forward(network, images)) == 0 for _ in range(2))
    found[name] = (bool((first == second).all()), bool((network.norm.mean[...] != 0).any()))
print(f"flax {flax.__version__}: is the mask the same twice, and do the means move: {found}")
sys.exit(found != {"jax.jit": (True, False), "nnx.jit": (False, True)})
P
"$python" jit.py 2>/dev/null

#!/usr/bin/env bash
# Finding:  cost_analysis() of a compiled JAX function counts the body of lax.scan once, whatever its length: 100 layers
#           in a scan have the operations of one, the same layers written out have all.
# Packages: jax==0.10.2
# Topic:    counting work
# Source:   XLA's HloCostAnalysis does not multiply the body of a while loop by its trip count.
# Guess:    the length is known when it compiles, so that it multiplies (expected with 60 %).
# Hurts:    model FLOPs utilisation of networks that scan over layers or accumulate in a scan: too small by its length.
# Here:     multiply-adds are computed from the layers' shapes
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P'
import sys

import jax
import jax.numpy as jnp

weight, images = jnp.ones((64, 64)), jnp.ones((32, 64))


def scan(images, weight, layers):
    return jax.lax.scan(lambda x, _: (jnp.tanh(x @ weight), None), images, None, length=layers)[0]


def write_out(images, weight, layers):
    for _ in range(layers):
        images = jnp.tanh(images @ weight)
    return images


def count(function, layers):
    compiled = jax.jit(function, static_argnums=2).lower(images, weight, layers).compile()
    return compiled.cost_analysis()["flops"] / (2 * 32 * 64 * 64)


found = {f"{function.__name__}, {layers}": round(count(function, layers), 1) for function in (scan, write_out) for layers in (1, 20)}
print("operations in layers:", found)
sys.exit(found != {"scan, 1": 1, "scan, 20": 1, "write_out, 1": 1, "write_out, 20": 20})
P

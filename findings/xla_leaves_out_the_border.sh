#!/usr/bin/env bash
# Finding:  cost_analysis() of JAX leaves out the products of a convolution with its zero padding: a 3x3 convolution of
#           7x7 images has 18 % fewer operations than by the formula of its shape, one of 56x56 images 2 % fewer.
# Packages: jax==0.10.2
# Topic:    counting work
# Source:   XLA's HloCostAnalysis counts the positions of a window that lie inside the image.
# Guess:    two operations for each output and weight, as every other counter has it.
# Hurts:    model FLOP utilisation that is compared between JAX and PyTorch: the same layer is counted differently.
# Here:     multiply-adds are computed from the layers' shapes, for all frameworks alike
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P' 2>/dev/null
import sys

import jax
import jax.numpy as jnp

convolve = jax.jit(
    lambda images, weights: jax.lax.conv_general_dilated(
        images, weights, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
)
found = {}
for size in (7, 56):
    compiled = convolve.lower(jnp.ones((2, size, size, 32)), jnp.ones((3, 3, 32, 32))).compile()
    found[size] = compiled.cost_analysis()["flops"] / (2 * 2 * size**2 * 9 * 32 * 32)
print(f"jax {jax.__version__}: operations by cost_analysis() / by shape, by image size: {found}")
sys.exit(any(abs(ratio - ((3 * size - 2) / (3 * size)) ** 2) > 1e-6 for size, ratio in found.items()))
P

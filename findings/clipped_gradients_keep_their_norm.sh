#!/usr/bin/env bash
# Finding:  The norm of bfloat16 gradients in optax adds up the tensors in bfloat16: of 1,024 tensors of norm 1 it is 16
#           instead of 32, so that clip_by_global_norm(1) leaves a norm of 2. In float16 a gradient of 300 has an infinite
#           norm and is clipped to 0. PyTorch's clip_grad_norm_ of the same tensors is right in both formats.
# Packages: torch==2.13.0 numpy==2.4.6 jax==0.10.2 optax==0.2.8
# Topic:    what frameworks do differently
# Source:   optax/tree_utils/_tree_math.py, tree_norm: squares and their sum over tensors have the gradients' format.
# Guess:    a norm is added up in float32, as jnp.sum does within a tensor and as PyTorch does.
# Hurts:    networks that are kept in bfloat16: the more tensors a network has, the less is clipped.
# Here:     no setting clips; gradients of the gate are compared in float32
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > clip.py <<'P'
import sys

import jax
import jax.numpy as jnp
import optax
import torch


def clip_optax(gradients):
    clip = optax.clip_by_global_norm(1.0)
    clipped, _ = clip.update(gradients, clip.init(gradients))
    norms = (optax.tree.norm(jax.tree.map(lambda g: g.astype(jnp.float32), tree)) for tree in (gradients, clipped))
    return float(optax.tree.norm(gradients)), *(round(float(norm), 2) for norm in norms)


def clip_torch(gradients):
    weights = [torch.nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients]
    for weight, gradient in zip(weights, gradients):
        weight.grad = gradient.clone()
    norm = torch.nn.utils.clip_grad_norm_(weights, 1.0)
    after = torch.cat([weight.grad.float().flatten() for weight in weights]).norm()
    return float(norm), round(float(after), 2)


optax_many = clip_optax([jnp.ones(1, jnp.bfloat16)] * 1024)
torch_many = clip_torch([torch.ones(1, dtype=torch.bfloat16)] * 1024)
optax_large = clip_optax([jnp.full(1, 300, jnp.float16)])
torch_large = clip_torch([torch.full((1,), 300, dtype=torch.float16)])
print(f"1,024 tensors of norm 1 in bfloat16: optax {optax.__version__} finds {optax_many[0]} and leaves {optax_many[2]}, "
      f"torch {torch.__version__} finds {torch_many[0]} and leaves {torch_many[1]}; a gradient of 300 in float16: optax "
      f"finds {optax_large[0]} and leaves {optax_large[2]}, torch finds {torch_large[0]} and leaves {torch_large[1]}")
sys.exit(not (optax_many == (16.0, 32.0, 2.0) and torch_many == (32.0, 1.0)
              and optax_large == (float("inf"), 300.0, 0.0) and torch_large == (300.0, 1.0)))
P
JAX_PLATFORMS=cpu "$python" clip.py 2>/dev/null

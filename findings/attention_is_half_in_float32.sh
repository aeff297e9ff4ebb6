#!/usr/bin/env bash
# Finding:  The backward pass of jax.nn.dot_product_attention in bfloat16 multiplies float32 by bfloat16 in two of its
#           four products, those for queries and keys, and gives none of the four float32 on both sides.
# Packages: jax==0.10.2
# Topic:    what frameworks do differently
# Source:   the softmax is in float32 with float32 scores, and its gradient is not cast back; the jaxpr shows it.
# Guess:    all products have bfloat16 operands, as in the forward pass.
# Hurts:    the speed of attention on the XLA path, and whoever computes a bound of it from the peak of bfloat16.
# Here:     measure/frameworks/flax/number_formats.py reports the formats of the products that the program has
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P' 2>/dev/null
import sys

import jax
import jax.numpy as jnp

part = jnp.ones((1, 8, 2, 16), jnp.bfloat16)


def list_products(program):
    for equation in program.eqns:
        if equation.primitive.name == "dot_general":
            yield tuple(str(each.aval.dtype) for each in equation.invars)
        for value in equation.params.values():
            for inner in value if isinstance(value, (list, tuple)) else [value]:
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from list_products(inner)


def attend(*parts):
    return jax.nn.dot_product_attention(*parts).astype(jnp.float32).sum()


forward = list(list_products(jax.make_jaxpr(attend)(part, part, part).jaxpr))
both = list(list_products(jax.make_jaxpr(jax.grad(attend, argnums=(0, 1, 2)))(part, part, part).jaxpr))
print(f"jax {jax.__version__}: products of the forward pass {forward}, of both passes {both}")
half, mixed = ("bfloat16", "bfloat16"), ("float32", "bfloat16")
sys.exit(forward != [half] * 2 or sorted(both) != [half] * 4 + [mixed] * 2)
P

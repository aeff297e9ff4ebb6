#!/usr/bin/env bash
# Finding:  Over eight CPU devices, JAX's psum adds bfloat16 in float32 and float16 in float16: 2,048 and seven ones are
#           2,048, where the sum() of the same array, on the same devices, is 2,056.
# Packages: jax==0.10.2
# Topic:    what frameworks do differently
# Source:   XLA promotes all-reduces of bfloat16 on CPUs, which have no additions for it, and leaves float16 as it is.
# Guess:    both formats are added alike, and psum as sum().
# Hurts:    gradients in float16 on many devices, checked on CPUs: the smaller ones vanish beside a large one.
# Here:     gradients are exchanged in float32 unless a study compresses them
source "$(dirname "$(realpath "$0")")/setup.sh"
XLA_FLAGS=--xla_force_host_platform_device_count=8 "$python" - <<'P' 2>/dev/null
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

mesh = Mesh(np.array(jax.devices()), ("device",))
split, whole = PartitionSpec("device"), PartitionSpec()
psum = jax.jit(jax.shard_map(lambda part: jax.lax.psum(part, "device"), mesh=mesh, in_specs=split, out_specs=whole))


def add(kind, large):
    values = jax.device_put(jnp.asarray([large] + [1] * 7, kind), NamedSharding(mesh, split))
    return float(psum(values)[0]), float(jax.jit(jnp.sum)(values))


sums = {"float16": add(jnp.float16, 2048), "bfloat16": add(jnp.bfloat16, 256)}
print("a large number and seven ones by psum and by sum():", sums)
sys.exit(sums != {"float16": (2048, 2056), "bfloat16": (264, 264)})
P

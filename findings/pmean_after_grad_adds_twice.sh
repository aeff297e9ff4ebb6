#!/usr/bin/env bash
# Finding:  Under jax.shard_map, jax.lax.pmean of the gradients of replicated weights, the idiom of pmap, gives the sum
#           of all devices and not their mean: grad has added them already. With check_vma=False, which reads as if it
#           dropped a check alone, it gives the mean.
# Packages: jax==0.10.2
# Topic:    what frameworks do differently
# Source:   with check_vma, the transpose of using a replicated value on each device is a psum.
# Guess:    the mean, with and without the check.
# Hurts:    training that moves from pmap: gradients and learning rate are as many times too large as there are devices.
# Here:     the step of measure/frameworks/flax/sharding.py computes on values marked as varying; the gate compares
#           gradients
source "$(dirname "$(realpath "$0")")/setup.sh"
XLA_FLAGS=--xla_force_host_platform_device_count=4 "$python" - <<'P' 2>/dev/null
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

mesh, images = Mesh(np.array(jax.devices()), ("device",)), jnp.arange(8.0)


def step(weight, part):
    return jax.lax.pmean(jax.grad(lambda weight: jnp.mean(weight * part))(weight), "device")


found = {}
for check in (True, False):
    on_devices = jax.shard_map(
        step, mesh=mesh, in_specs=(PartitionSpec(), PartitionSpec("device")), out_specs=PartitionSpec(), check_vma=check
    )
    found[check] = float(on_devices(jnp.float32(1), images))
alone = float(jax.grad(lambda weight: jnp.mean(weight * images))(1.0))
print(f"jax {jax.__version__}, gradient of one device: {alone}; of four, by check_vma: {found}")
sys.exit(found != {True: 4 * alone, False: alone})
P

#!/usr/bin/env bash
# Finding:  An all-reduce by MAX does not carry a NaN. In PyTorch with gloo it depends on the place in the tensor
#           whether the NaN of a process is seen by all or by none. JAX's pmax on CPUs drops it wherever it is, while
#           max() of the same array gives NaN.
# Packages: torch==2.13.0 numpy==2.4.6 jax==0.10.2 optax==0.2.8
# Topic:    what frameworks do differently
# Source:   gloo reduces each part of a tensor on another process by std::max, which keeps its first argument if they do
#           not compare.
# Guess:    NaN everywhere, as torch.max and jnp.max do it.
# Hurts:    loops that ask by MAX whether a loss or a norm on some process is not finite: half of the cases are missed.
# Here:     MAX over processes is for times and for yes or no, which are numbers
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > largest.py <<'P'
import sys

import torch
import torch.distributed as dist

rank, port = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
seen = []
for source in (0, 1):
    values = torch.full((4,), float("nan") if rank == source else 1.0)
    dist.all_reduce(values, dist.ReduceOp.MAX)
    seen.append(values.isnan().tolist())
print(f"process {rank}: is the largest of 1 and NaN a NaN, by place, if process 0 and if process 1 has it: {seen}")
dist.destroy_process_group()
sys.exit(not all(any(places) and not all(places) for places in seen))
P
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$python" largest.py 1 "$port" 2> other.log &
"$python" largest.py 0 "$port" 2> own.log
wait $!
XLA_FLAGS=--xla_force_host_platform_device_count=2 "$python" - <<'P' 2>/dev/null
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

mesh = Mesh(np.array(jax.devices()), ("device",))
largest = jax.shard_map(
    lambda part: jax.lax.pmax(part, "device"), mesh=mesh, in_specs=PartitionSpec("device"), out_specs=PartitionSpec()
)
pairs = [jnp.array(pair) for pair in ([jnp.nan, 1.0], [1.0, jnp.nan])]
across, within = [float(largest(pair)[0]) for pair in pairs], [float(pair.max()) for pair in pairs]
print("JAX, two devices, NaN on the first and on the second: pmax", across, "max()", within)
sys.exit(across != [1, 1] or not np.isnan(within).all())
P

#!/usr/bin/env bash
# Finding:  On a mesh of CPUs, dropout of a DTensor that is split over two processes draws the same mask for both parts;
#           a warning says that support is not complete, not what happens. On GPUs each part has its own.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    what frameworks do differently
# Source:   torch/distributed/tensor/_random.py keeps offsets of generators for devices that have them, which CPUs do not.
# Guess:    every element has its own draw, as if one process had the whole tensor.
# Hurts:    whoever checks sharded training on CPUs: half the masks, and another learning curve than on GPUs.
# Here:     no framework shards activations; in PyTorch every process seeds its generators by its rank
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > mask.py <<'P'
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

rank = int(sys.argv[1])
os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[2], "RANK": str(rank), "WORLD_SIZE": "2"}
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)
mask = F.dropout(distribute_tensor(torch.ones(64, 32), mesh, [Shard(0)]), 0.5).to_local()
parts = [torch.empty_like(mask) for _ in range(2)]
dist.all_gather(parts, mask)
same = torch.equal(*parts)
dist.destroy_process_group()
if rank == 0:
    print(f"torch {torch.__version__}: 64 rows split over two processes: masks of both halves equal: {same}")
sys.exit(not same)
P
port=$((20000 + RANDOM % 20000))
"$python" -W ignore mask.py 1 "$port" 2>/dev/null &
"$python" -W ignore mask.py 0 "$port" 2>/dev/null
wait $!

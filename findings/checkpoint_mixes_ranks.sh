#!/usr/bin/env bash
# Finding:  torch.distributed.checkpoint saves tensors that every process has, such as BatchNorm's running statistics
#           under data parallelism, from alternating processes: of one layer the mean of process 0 and the variance of
#           process 1. Where they differ by process, the checkpoint is a mixture that no process ever had.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    what frameworks do differently
# Source:   torch/distributed/checkpoint/_dedup_save_plans.py gives each duplicate to the plan with the fewest bytes,
#           unless the planner has dedup_save_to_lowest_rank=True.
# Guess:    process 0 writes them, as with torch.save.
# Hurts:    accuracy of a model that is loaded from such a checkpoint, and whoever saves counters or generators by
#           process.
# Here:     no checkpoint has parts; evaluation uses the mean of the statistics of all devices
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > save.py <<'P'
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint

rank, port, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
layers = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.BatchNorm1d(4))
kept = ("running_mean", "running_var")
own = {name: torch.full_like(value, rank) for name, value in layers.state_dict().items() if name.endswith(kept)}
checkpoint.save(own, checkpoint_id=folder)
loaded = {name: torch.full_like(value, -1) for name, value in own.items()}
checkpoint.load(loaded, checkpoint_id=folder)
if rank == 0:
    origins = {name: int(value[0]) for name, value in loaded.items()}
    print("process whose values the checkpoint has:", origins)
dist.barrier()
dist.destroy_process_group()
sys.exit(rank == 0 and set(origins.values()) != {0, 1})
P
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$python" save.py 1 "$port" "$folder/saved" 2> other.log &
"$python" save.py 0 "$port" "$folder/saved" 2> own.log
wait

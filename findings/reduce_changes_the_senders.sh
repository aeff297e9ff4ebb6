#!/usr/bin/env bash
# Finding:  torch.distributed.reduce to process 0 overwrites the tensors of the others too with gloo: with partial sums,
#           other ones in each half of the tensor.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    what frameworks do differently
# Source:   gloo reduces in place, in parts: torch/csrc/distributed/c10d/ProcessGroupGloo.cpp.
# Guess:    only the destination changes; the documentation says that it alone receives the result.
# Hurts:    losses that are reduced for the log and used afterwards: every process but the first goes on with a sum.
# Here:     no value is reduced to one process
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > reduce.py <<'P'
import sys

import torch
import torch.distributed as dist

rank, port = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=3)
values = torch.full((4,), 10.0**rank)
dist.reduce(values, dst=0)
everywhere = [None] * 3
dist.all_gather_object(everywhere, values.tolist())
if rank == 0:
    print("1, 10 and 100 reduced to process 0; what the processes have afterwards:", everywhere)
dist.destroy_process_group()
sys.exit(everywhere != [[111] * 4, [110, 110, 111, 111], [100, 100, 101, 101]])
P
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
for rank in 1 2; do "$python" reduce.py $rank "$port" 2> $rank.log & done
"$python" reduce.py 0 "$port" 2> 0.log
wait

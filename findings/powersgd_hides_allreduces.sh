#!/usr/bin/env bash
# Finding:  A TorchDispatchMode around backward() sees one of the three all-reduces of a DDP bucket under PowerSGD if the
#           other process is late, and all of a bucket without compression. The other two start in callbacks of futures,
#           which no mode covers, unless the all-reduce before has ended when its callback is added: a race.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    counting work
# Source:   torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py: the all-reduces of the factors P and Q are
#           in callbacks added by Future.then.
# Guess:    3 with PowerSGD, because the hook is Python and calls torch.distributed on the thread of backward().
# Hurts:    whoever counts the bytes of an exchange with a dispatch mode: a compressed exchange looks nearly free.
# Here:     measure/frameworks/torch/number_formats.py counts bytes where a process group is called
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > "$folder/count.py" <<'P'
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
from torch.utils._python_dispatch import TorchDispatchMode


class Count(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen += "allreduce" in str(function)
        return function(*args, **(kwargs or {}))


def count(rank, compressed):
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    wrapped = dist.all_reduce
    calls = []
    dist.all_reduce = lambda *args, **kwargs: (calls.append(1), wrapped(*args, **kwargs))[1]
    if compressed:
        state = powersgd.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        model.register_comm_hook(state, powersgd.powerSGD_hook)
    seen = []
    for step in range(12):
        mode = Count()
        calls.clear()
        time.sleep(0.1 * rank)  # process 1 is late, so that no all-reduce of process 0 has ended when it goes on
        with mode:
            model(torch.randn(8, 64)).square().sum().backward()
        seen.append(mode.seen)
    dist.all_reduce = wrapped
    return sorted(seen[4:])[len(seen[4:]) // 2], len(calls)


rank = int(sys.argv[1])
os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[2], "RANK": str(rank), "WORLD_SIZE": "2"}
dist.init_process_group("gloo")
plain, powered = count(rank, False), count(rank, True)
if rank == 0:
    print(f"torch {torch.__version__}: seen by the mode in most steps: {plain[0]} without compression, {powered[0]} with PowerSGD; "
          f"calls of all_reduce by the hook: {powered[1]}")
dist.destroy_process_group()
if rank == 0:
    sys.exit(0 if (plain[0], powered[0], powered[1]) == (1, 1, 3) else 1)
P
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$python" "$folder/count.py" 1 "$port" 2> "$folder/other.log" &
"$python" "$folder/count.py" 0 "$port" 2>&1 | grep -v Warning
wait

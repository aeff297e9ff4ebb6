#!/usr/bin/env bash
# Finding:  item() of a reduction of a sharded DTensor is the value of the process that asks, without an exchange or a
#           warning, for sum, mean, max, norm, any, all and count_nonzero; for std, var, median and logsumexp it is that of
#           the whole tensor. What is done before decides: mean() * 2 stays with the process and mean() + 1 does not,
#           mean().cpu() does and mean().clone() does not. In `if (x > 6).any():`, processes take different branches.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    programs
# Source:   own measurement; the reductions end as Partial placements, and item() reads the local tensor.
# Guess:    one value for all processes, or an error that asks for full_tensor() (confidence 75 %).
# Hurts:    programs with FSDP2 that log norms or means of weights, or skip a step that is not finite: one process skips
#           what the other does, and they wait for each other.
# Here:     no backend uses DTensors; a program's loss is taken as it is reported, and losses of variants of equal work are
#           compared at every step, where a mean of half of the batch shows
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > items.py <<'P'
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
numbers = torch.arange(8.0).reshape(4, 2)
sharded = distribute_tensor(numbers.clone(), mesh, [Shard(0)])
QUESTIONS = {
    "sum": torch.sum,
    "mean": torch.mean,
    "max": torch.max,
    "norm": torch.linalg.vector_norm,
    "any": lambda x: (x > 6).any(),
    "all": lambda x: (x < 6).all(),
    "count_nonzero": torch.count_nonzero,
    "std": torch.std,
    "median": torch.median,
    "logsumexp": lambda x: torch.logsumexp(x, (0, 1)),
    "mean*2": lambda x: x.mean() * 2,
    "mean+1": lambda x: x.mean() + 1,
    "mean.cpu": lambda x: x.mean().cpu(),
    "mean.clone": lambda x: x.mean().clone(),
}
for name, ask in QUESTIONS.items():
    answers = [None, None]
    dist.all_gather_object(answers, ask(sharded).item())
    torch.testing.assert_close(ask(sharded).full_tensor(), ask(numbers), check_dtype=False)
    if dist.get_rank() == 0:
        print(f"{name}:{'whole' if answers[0] == answers[1] == ask(numbers).item() else 'own'}", end=" ")
dist.destroy_process_group()
P
OMP_NUM_THREADS=1 "$python" -m torch.distributed.run --standalone --nproc-per-node=2 items.py 2>/dev/null > seen.txt
echo "item() of each of two processes: $(cat seen.txt)"
own="sum:own mean:own max:own norm:own any:own all:own count_nonzero:own"
[ "$(cat seen.txt)" = "$own std:whole median:whole logsumexp:whole mean*2:own mean+1:whole mean.cpu:own mean.clone:whole " ]

#!/usr/bin/env bash
# Finding:  A scheduler that Accelerate has prepared advances by the number of processes at each step: with two processes
#           a linear decay over 8 steps is at its half after two, while the gradients are averaged and not summed.
# Packages: torch==2.13.0 numpy==2.4.6 accelerate==1.15.0
# Topic:    programs
# Source:   accelerate/scheduler.py: without split_batches, step() is called num_processes times.
# Guess:    one step of the schedule for each step of the optimizer.
# Hurts:    comparisons over device counts with a schedule in steps: more devices train with other learning rates.
# Here:     a program's losses on 1 and 2 devices part; docs/program.md names it
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > schedule.py <<'P'
import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=8)
model, optimizer, schedule = accelerator.prepare(model, optimizer, schedule)
rates = []
for _ in range(4):
    rates.append(optimizer.param_groups[0]["lr"])
    accelerator.backward(model(torch.randn(8, 4)).mean())
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
accelerator.print(*rates)
P
for processes in 1 2; do
    OMP_NUM_THREADS=1 "$python" -m torch.distributed.run --standalone --nproc-per-node=$processes schedule.py \
        2>/dev/null > "$processes.txt"
done
echo "learning rates of four steps with 1 process: $(cat 1.txt); with 2: $(cat 2.txt)"
[ "$(cat 1.txt)" = "1.0 0.875 0.75 0.625" ] && [ "$(cat 2.txt)" = "1.0 0.75 0.5 0.25" ]

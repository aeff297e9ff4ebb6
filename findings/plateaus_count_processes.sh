#!/usr/bin/env bash
# Finding:  A ReduceLROnPlateau that accelerate has prepared is told each value once for each process: on 4 processes,
#           with patience=2, a loss that falls in every epoch halves the learning rate in every epoch. On 1 and 2
#           processes it is never lowered, and neither is one that was not prepared.
# Packages: torch==2.13.0 numpy==2.4.6 accelerate==1.15.0
# Topic:    programs
# Source:   accelerate/scheduler.py: AcceleratedScheduler.step calls the step of any scheduler num_processes times,
#           which is meant for schedules by batch. After the first call, a value is no better than itself.
# Guess:    each value counts once, as it is not a schedule by batch (confidence 50 %; an engineer's 95 %).
# Hurts:    training on a node of 4 or 8 devices with a patience that suited one: the rate is gone after some epochs.
# Here:     rates are a table by update, equal on every number of devices; docs/program.md names accelerate's factor
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > plateau.py <<'P'
import sys

import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
network = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(network.parameters(), lr=1.0)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2, factor=0.5)
network, optimizer = accelerator.prepare(network, optimizer)
if sys.argv[1] == "prepared":
    scheduler = accelerator.prepare(scheduler)
rates = []
for epoch in range(5):
    optimizer.zero_grad()
    accelerator.backward(network(torch.ones(4, 1)).mean())
    optimizer.step()
    scheduler.step(1 / (epoch + 1))
    rates.append(optimizer.param_groups[0]["lr"])
if accelerator.is_main_process:
    print(*rates)
accelerator.wait_for_everyone()
accelerator.end_training()
P
run() {
    OMP_NUM_THREADS=1 "$python" -m torch.distributed.run --standalone --nproc-per-node="$1" plateau.py "$2" 2>/dev/null || true
}
one=$(run 1 prepared)
two=$(run 2 prepared)
four=$(run 4 prepared)
bare=$(run 4 bare)
echo "rates after epochs with falling loss: 1 process $one; 2 processes $two; 4 processes $four; 4, not prepared, $bare"
kept="1.0 1.0 1.0 1.0 1.0"
[ "$one" = "$kept" ] && [ "$two" = "$kept" ] && [ "$bare" = "$kept" ] && [ "$four" = "0.5 0.25 0.125 0.0625 0.03125" ]

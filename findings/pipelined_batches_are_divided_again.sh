#!/usr/bin/env bash
# Finding:  Two calls of step() of a schedule of torch.distributed.pipelining before one step of the optimizer, to
#           accumulate gradients, do not add the gradients of the two batches: with 4 microbatches the first counts a
#           quarter of the second, and of three calls the first counts a sixteenth. With scale_grads=False and a loss
#           that is divided by 4, they add. GPipe and 1F1B are alike.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    programs
# Source:   torch/distributed/pipelining/stage.py: scale_grads() divides parameter.grad in place by the number of
#           microbatches after each call, with all that was in it before.
# Guess:    the gradient of each call is added to what is there, as backward() does it (confidence 85 %).
# Hurts:    gradient accumulation over several calls, as when memory limits the microbatches of one call: most of the
#           batch is all but ignored, and losses look as usual.
# Here:     no backend divides a network into stages; the gate compares the weights after accumulated batches
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > stages.py <<'P'
import sys
import warnings

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.nn.functional import mse_loss

warnings.filterwarnings("ignore")
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch.manual_seed(0)
network = torch.nn.Linear(3, 1, bias=False)
labels, batches = torch.randn(8, 1), torch.randn(3, 8, 3)
single = [torch.autograd.grad(mse_loss(network(batch), labels), network.weight)[0] for batch in batches]


def weigh(schedule, number, **settings):
    """Return the factors with which the gradients of single batches are in that of several calls."""
    network.zero_grad()
    stage = PipelineStage(network, 0, 1, torch.device("cpu"))
    loss = mse_loss if settings.get("scale_grads", True) else lambda output, label: mse_loss(output, label) / 4
    run = schedule(stage, 4, loss_fn=loss, **settings)
    for batch in batches[:number]:
        run.step(batch, target=labels)
    parts = torch.stack([part.flatten() for part in single[:number]], 1)
    return [round(value, 3) for value in torch.linalg.lstsq(parts, network.weight.grad.T).solution.flatten().tolist()]


SCHEDULES = ScheduleGPipe, Schedule1F1B
seen = {schedule.__name__: [weigh(schedule, number) for number in (1, 2, 3)] for schedule in SCHEDULES}
plain = weigh(ScheduleGPipe, 3, scale_grads=False)
print(f"torch {torch.__version__}: factors of the batches after one, two and three calls: {seen}; with "
      f"scale_grads=False {plain}")
dist.destroy_process_group()
wanted = [[1.0], [0.25, 1.0], [0.062, 0.25, 1.0]]
close = all(abs(a - b) < 0.005 for found in seen.values() for x, y in zip(found, wanted) for a, b in zip(x, y))
sys.exit(not (close and all(abs(value - 1) < 0.005 for value in plain)))
P
"$python" stages.py 2>/dev/null

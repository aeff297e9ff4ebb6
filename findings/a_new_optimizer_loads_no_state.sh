#!/usr/bin/env bash
# Finding:  torch.distributed.checkpoint.load({"network": network, "optimizer": optimizer}) restores the weights and the
#           learning rate, and nothing of the state of a new Adam: its moments and its count of steps stay empty, and
#           nothing says so. save() of the same dictionary had written them. Any dictionary that is empty in the new
#           object stays empty, too. After one step of the new optimizer, or with get_optimizer_state_dict() and
#           set_optimizer_state_dict(), all is restored.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    programs
# Source:   torch/distributed/checkpoint/state_dict_loader.py and default_planner.py: load() asks the object that it is
#           given for its state_dict() and reads those keys alone; what the file has beyond is left out.
# Guess:    all that was saved is restored: networks and optimizers satisfy the protocol Stateful, whose load_state_dict
#           load() calls (confidence 85 %).
# Hurts:    runs that are resumed: Adam begins anew in the middle of training, with steps of full size along single
#           gradients.
# Here:     no run is resumed, and torch.distributed.checkpoint is not used
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > load.py <<'P'
import sys
import warnings

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

warnings.filterwarnings("ignore")


class Best:
    """A record of the best metric, as programs keep it."""

    def __init__(self):
        self.of = {}

    def state_dict(self):
        return {"of": self.of}

    def load_state_dict(self, state):
        self.of = state["of"]


def make():
    torch.manual_seed(0)
    network = torch.nn.Linear(4, 1)
    return network, torch.optim.AdamW(network.parameters(), 0.01), Best()


def train(network, optimizer, gradient=1.0):
    for parameter in network.parameters():
        parameter.grad = torch.full_like(parameter, gradient)
    before = network.weight.detach().clone()
    optimizer.step()
    return (network.weight - before).mean().item()


def steps(optimizer):
    return [int(state["step"]) for state in optimizer.state_dict()["state"].values()]


network, optimizer, best = make()
for _ in range(50):
    train(network, optimizer)
optimizer.param_groups[0]["lr"], best.of["accuracy"] = 0.005, 0.9
dcp.save({"network": network, "optimizer": optimizer, "best": best}, checkpoint_id="objects")
dcp.save({"optimizer": get_optimizer_state_dict(network, optimizer)}, checkpoint_id="states")
new, fresh, empty = make()
dcp.load({"network": new, "optimizer": fresh, "best": empty}, checkpoint_id="objects")
stepped_network, stepped, _ = make()
train(stepped_network, stepped)
dcp.load({"network": stepped_network, "optimizer": stepped}, checkpoint_id="objects")
other, by_state, _ = make()
state = {"optimizer": get_optimizer_state_dict(other, by_state)}
dcp.load(state, checkpoint_id="states")
set_optimizer_state_dict(other, by_state, state["optimizer"])
found = steps(fresh), steps(stepped), steps(by_state)
rate, equal = fresh.param_groups[0]["lr"], torch.equal(new.weight, network.weight)
moves = train(network, optimizer, -0.1), train(new, fresh, -0.1)
print(f"torch {torch.__version__}: steps counted by Adam after 50, loaded: {found[0]} new, {found[1]} after a step, "
      f"{found[2]} by get_ and set_optimizer_state_dict; weights equal {equal}, rate {rate}, best {empty.of}; the next "
      f"step, at a small gradient of the other sign, is {moves[0]:.4f} if training goes on and {moves[1]:.4f} if "
      f"resumed")
sys.exit(not (found == ([], [50, 50], [50, 50]) and rate == 0.005 and equal and empty.of == {}
              and moves[0] < -0.003 and moves[1] > 0.004))
P
"$python" load.py 2>/dev/null

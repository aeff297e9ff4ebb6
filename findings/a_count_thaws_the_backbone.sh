#!/usr/bin/env bash
# Finding:  thop.profile() and torchinfo.summary() put each BatchNorm of a frozen backbone back into training, and
#           ptflops leaves the whole network in evaluation; fvcore and PyTorch's FlopCounterMode keep the modes and move
#           the running statistics by the input that they count with. thop leaves two entries in the state_dict as well.
#           Nothing warns: none leaves a network as it was that is fine-tuned on frozen statistics.
# Packages: torch==2.13.0 thop==0.1.1.post2209072238 torchinfo==1.8.0 ptflops==0.7.5 fvcore==0.1.5.post20221221
# Topic:    counting work
# Source:   thop/profile.py and torchinfo/torchinfo.py end with model.train(mode that the network had), which is for all
#           of its layers; ptflops/pytorch_engine.py and aten_engine.py call eval() and no train();
#           fvcore/nn/jit_analysis.py traces a forward pass in the mode that it finds.
# Guess:    a count leaves the network as it was (confidence 85 %).
# Hurts:    training after a count: statistics of a pre-trained network that were to stay change, or dropout and
#           BatchNorm are off if the loop does not call train() itself; and checkpoints with entries of the counter.
# Here:     multiply-adds are computed from the layers' shapes, without a forward pass of the network that is trained
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > count.py <<'P'
import logging
import sys
import warnings
from importlib.metadata import version

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
import ptflops
import thop
import torch
import torchinfo
from fvcore.nn import FlopCountAnalysis
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

torch.manual_seed(0)
INPUT = torch.randn(2, 3, 16, 16)


class FineTuned(nn.Module):
    """A network in training with a frozen backbone."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).requires_grad_(False)
        self.head = nn.Sequential(nn.Conv2d(8, 4, 3), nn.BatchNorm2d(4), nn.Dropout())
        self.backbone.eval()

    def forward(self, images):
        return self.head(self.backbone(images))


def look(network):
    """Return the modes of frozen and new layers, whether statistics moved, and the length of the state_dict."""
    frozen, new = network.backbone[1], network.head[1]
    return frozen.training, new.training, bool((new.running_var != 1).any()), len(network.state_dict())


def count_with_torch(network):
    with FlopCounterMode(display=False):
        network(INPUT)


COUNTS = {
    "nothing": lambda network: None,
    "thop": lambda network: thop.profile(network, (INPUT,), verbose=False),
    "torchinfo": lambda network: torchinfo.summary(network, input_data=INPUT, verbose=0),
    "ptflops": lambda network: ptflops.get_model_complexity_info(network, (3, 16, 16), print_per_layer_stat=False),
    "fvcore": lambda network: FlopCountAnalysis(network, INPUT).total(),
    "torch": count_with_torch,
}
EXPECTED = {"nothing": (False, True, False, 14), "thop": (True, True, False, 16), "torchinfo": (True, True, False, 14),
            "ptflops": (False, False, False, 14), "fvcore": (False, True, True, 14), "torch": (False, True, True, 14)}
seen = {}
for name, count in COUNTS.items():
    network = FineTuned()
    count(network)
    seen[name] = look(network)
    text = "" if name == "nothing" else " " + version(name)
    print(f"after {name}{text}: frozen BatchNorm in training {seen[name][0]}, new one in training {seen[name][1]}, its "
          f"statistics moved {seen[name][2]}, entries of the state_dict {seen[name][3]}")
sys.exit(seen != EXPECTED)
P
"$python" count.py

#!/usr/bin/env bash
# Finding:  thop.profile() finds neither the operations nor the parameters of nn.MultiheadAttention: of a layer of
#           nn.TransformerEncoderLayer as in ViT-B it reports 4.73 of 7.09 million parameters and 76 of 114 million
#           multiply-adds. ptflops counts all of both. Nothing warns.
# Packages: torch==2.13.0 thop==0.1.1.post2209072238 torchinfo==1.8.0 ptflops==0.7.5 fvcore==0.1.5.post20221221
# Topic:    counting work
# Source:   thop/profile.py adds up parameters and operations from hooks on layers of the types that it knows; the
#           weights of attention are in a layer of another type, which calls none of its own.
# Guess:    the parameters are right, whatever is thought of the operations (confidence 95 %; not written
#           before the run, which was about the operations).
# Hurts:    tables that compare networks by parameters and operations: a transformer is a third smaller than it is, and
#           a convolutional network is right.
# Here:     multiply-adds are computed from the layers' shapes, not counted by a tool
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > attention.py <<'P'
import logging
import sys
import warnings
from importlib.metadata import version

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
import ptflops
import thop
import torch
from torch import nn

LENGTH, WIDTH = 16, 768

layer = nn.TransformerEncoderLayer(WIDTH, 12, 4 * WIDTH, batch_first=True)
parameters = sum(weight.numel() for weight in layer.parameters())
products = LENGTH * 12 * WIDTH**2 + 2 * LENGTH**2 * WIDTH
counts = {
    "thop": thop.profile(layer.train(), (torch.rand(1, LENGTH, WIDTH),), verbose=False),
    "ptflops": ptflops.get_model_complexity_info(layer, (LENGTH, WIDTH), as_strings=False, print_per_layer_stat=False),
}
print(f"a layer of {parameters / 1e6:.2f} million parameters and {products / 1e6:.0f} million multiply-adds: "
      + ", ".join(f"{name} {version(name)} counts {weights / 1e6:.2f} and {operations / 1e6:.0f}"
                  for name, (operations, weights) in counts.items()))
shares = {name: (round(operations / products, 2), round(weights / parameters, 2))
          for name, (operations, weights) in counts.items()}
sys.exit(shares != {"thop": (0.67, 0.67), "ptflops": (1, 1)})
P
"$python" attention.py

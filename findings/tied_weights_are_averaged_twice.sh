#!/usr/bin/env bash
# Finding:  timm's ModelEmaV2 and ModelEmaV3 update the average of a weight that two layers share twice in each step:
#           with a decay of 0.9, one step from 0 to 1 makes it 0.19, and that of any other weight 0.1. PyTorch's
#           AveragedModel makes both 0.1, and so does ModelEmaV3 with exclude_buffers=True.
# Packages: torch==2.13.0 numpy==2.4.6 timm==1.0.31
# Topic:    what frameworks do differently
# Source:   timm/utils/model_ema.py goes over state_dict(), which has a shared tensor under each of its names.
# Guess:    one update for each weight (confidence 60 %; an engineer's 90 %).
# Hurts:    averages of networks with tied weights, of embeddings or shared heads: layers of one network are averaged
#           over other horizons, half as long for two names, and nothing is logged.
# Here:     no run averages weights
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P' 2>/dev/null
import importlib.metadata
import importlib.util
import sys
from pathlib import Path

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

# The file alone: all of timm imports torchvision, which has to be built for the same PyTorch.
path = Path(importlib.util.find_spec("timm").submodule_search_locations[0]) / "utils" / "model_ema.py"
spec = importlib.util.spec_from_file_location("model_ema", path)
model_ema = importlib.util.module_from_spec(spec)
spec.loader.exec_module(model_ema)


def average(make, update):
    """Return the averages of a shared weight and of another after one step from 0 to 1."""
    layers = [torch.nn.Linear(2, 2, bias=False) for _ in range(3)]
    layers[1].weight = layers[0].weight
    network = torch.nn.Sequential(*layers)
    for value, follow in ((0.0, lambda: make(network)), (1.0, lambda: update(averaged, network))):
        with torch.no_grad():
            for weight in network.parameters():
                weight.fill_(value)
        averaged = follow() or averaged
    assert averaged.module[0].weight is averaged.module[1].weight
    return [round(averaged.module[i].weight.mean().item(), 4) for i in (0, 2)]


def average_by_torch(network):
    averaged = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    averaged.update_parameters(network)
    return averaged


timm = [average(lambda network: maker(network, decay=0.9, **options), lambda ema, network: ema.update(network))
        for maker, options in ((model_ema.ModelEmaV2, {}), (model_ema.ModelEmaV3, {}),
                               (model_ema.ModelEmaV3, {"exclude_buffers": True}))]
plain = average(average_by_torch, lambda ema, network: ema.update_parameters(network))
print(f"timm {importlib.metadata.version('timm')}: averages of a shared weight and of another: ModelEmaV2 {timm[0]}, "
      f"ModelEmaV3 {timm[1]}, without buffers {timm[2]}; torch {plain}")
sys.exit(not (timm[0] == timm[1] == [0.19, 0.1] and timm[2] == plain == [0.1, 0.1]))
P

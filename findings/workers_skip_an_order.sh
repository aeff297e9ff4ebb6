#!/usr/bin/env bash
# Finding:  With the same seed, torchdata's StatefulDataLoader gives another order with worker processes than without:
#           with any number of them, the first epoch has the order that is the second without. PyTorch's DataLoader,
#           which it replaces, gives one order for all.
# Packages: torch==2.13.0 numpy==2.4.6 torchdata==0.11.0
# Topic:    loaders
# Source:   torchdata/stateful_dataloader/stateful_dataloader.py makes one more iterator of the sampler for workers.
# Guess:    workers change the speed and not the order, as in DataLoader.
# Hurts:    comparing losses or curves between settings of a loader.
# Here:     the batches are drawn by the workflow, and loaders get lists of images
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > order.py <<'P'
import sys

import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader


def list_epochs(loader, workers):
    torch.manual_seed(0)
    batches = loader(list(range(8)), batch_size=8, shuffle=True, num_workers=workers)
    return [next(iter(batches)).tolist() for _ in range(2)]


if __name__ == "__main__":
    plain = [list_epochs(DataLoader, workers) for workers in (0, 1, 2)]
    stateful = [list_epochs(StatefulDataLoader, workers) for workers in (0, 1, 2)]
    print("two epochs with 0, 1 and 2 workers: StatefulDataLoader", stateful, "DataLoader", plain)
    sys.exit(not (plain[0] == plain[1] == plain[2] and stateful[1] == stateful[2] and stateful[0][1] == stateful[1][0]
                  and stateful[0][0] != stateful[1][0]))
P
"$python" order.py 2>/dev/null

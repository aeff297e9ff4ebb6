#!/usr/bin/env bash
# Finding:  litdata's StreamingDataset(shuffle=True) in PyTorch's DataLoader gives the same order in each epoch if there are
#           worker processes, and another without. In litdata's StreamingDataLoader it is another in both. In either, all
#           samples come once.
# Packages: litdata==0.2.76 torch==2.13.0 numpy==2.1.3
# Topic:    loaders
# Source:   litdata/streaming/dataset.py counts epochs in the dataset, of which each worker process has a copy;
#           litdata/streaming/dataloader.py passes the epoch.
# Guess:    it is a PyTorch dataset that shuffles; its loader adds the resuming of an epoch.
# Hurts:    training by a loop that has a DataLoader: every epoch has the batches of the first.
# Here:     orders are Philox streams keyed by (seed, epoch)
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > epochs.py <<'P'
import sys

import litdata
import torch


def keep(number):
    return {"x": number}


def list_epochs(loader, workers):
    batches = loader(litdata.StreamingDataset("data", shuffle=True, seed=1), batch_size=4, num_workers=workers)
    return [[int(x) for batch in batches for x in batch["x"]] for _ in range(2)]


if __name__ == "__main__":
    litdata.optimize(fn=keep, inputs=list(range(40)), output_dir="data", chunk_size=10, num_workers=1)
    found = {}
    for loader in (torch.utils.data.DataLoader, litdata.StreamingDataLoader):
        for workers in (0, 2):
            first, second = list_epochs(loader, workers)
            assert sorted(first) == sorted(second) == list(range(40))
            found[loader.__name__, workers] = first == second
    print(f"litdata {litdata.__version__}: do two epochs have one order, by loader and worker processes? {found}")
    sys.exit([key for key, same in found.items() if same] != [("DataLoader", 2)])
P
"$python" epochs.py 2>errors | tail -1

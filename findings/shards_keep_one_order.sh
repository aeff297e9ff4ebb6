#!/usr/bin/env bash
# Finding:  WebDataset(urls, shardshuffle=100) opens the shards in the same order in every epoch, with and without a
#           seed; so does .shuffle(100, seed=3) with samples. detshuffle=True counts epochs, but in the worker processes
#           of a DataLoader that are started anew for each epoch it is always in the first. A DataPipeline with
#           shuffle(100), the longer way to write the same, has another order in each epoch.
# Packages: webdataset==1.0.2 torch==2.13.0 numpy==2.4.6
# Topic:    loaders
# Source:   webdataset/compat.py draws a seed once and passes it to filters.shuffle, which seeds its generator in each epoch.
# Guess:    shards are shuffled anew in each epoch, and a seed makes the whole run reproducible.
# Hurts:    training from shards: the buffer of samples mixes the same neighbours in each epoch.
# Here:     orders are Philox streams keyed by (seed, epoch); no shards are read
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > shards.py <<'P'
import sys

import torch
import webdataset as wds

URLS = "shard-{0..7}.tar"


def list_epochs(make, workers, persistent):
    """Return the orders of three epochs, each the places of 16 samples, two per shard."""
    loader = torch.utils.data.DataLoader(make(), batch_size=None, num_workers=workers, persistent_workers=persistent)
    return [[int(sample["cls"]) for sample in loader] for _ in range(3)]


if __name__ == "__main__":
    for shard in range(8):
        with wds.TarWriter(f"shard-{shard}.tar") as writer:
            for place in (2 * shard, 2 * shard + 1):
                writer.write({"__key__": f"{place:03d}", "cls": place})
    kinds = {
        "shards": lambda: wds.WebDataset(URLS, shardshuffle=100),
        "shards, seed": lambda: wds.WebDataset(URLS, shardshuffle=100, seed=5),
        "samples, seed": lambda: wds.WebDataset(URLS, shardshuffle=False).shuffle(100, seed=3),
        "detshuffle": lambda: wds.WebDataset(URLS, shardshuffle=100, seed=5, detshuffle=True),
        "samples": lambda: wds.WebDataset(URLS, shardshuffle=False).shuffle(100),
        "pipeline": lambda: wds.DataPipeline(
            wds.SimpleShardList(URLS), wds.split_by_worker, wds.shuffle(100), wds.tarfile_to_samples()
        ),
    }
    found = {}
    for name, make in kinds.items():
        for workers, persistent in ((0, False), (2, False), (2, True)):
            first, second, third = list_epochs(make, workers, persistent)
            assert sorted(first) == sorted(second) == list(range(16))
            found[name, workers, persistent] = first == second == third
    print(f"webdataset {wds.__version__}: kinds (shuffled, worker processes, persistent) whose three epochs have")
    print("    one order:", [kind for kind, same in found.items() if same])
    print("    other orders:", [kind for kind, same in found.items() if not same])
    one = {kind for kind in found if kind[0] in ("shards", "shards, seed", "samples, seed")}
    sys.exit({kind for kind, same in found.items() if same} != one | {("detshuffle", 2, False)})
P
"$python" shards.py 2>/dev/null

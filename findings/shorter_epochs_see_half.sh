#!/usr/bin/env bash
# Finding:  In mosaicml-streaming, epoch_size=30 of 100 samples without shuffle sees 52 of them in 30 epochs and never the
#           others: which shards give how many samples is drawn anew in each epoch, and then the first ones of each shard are
#           taken in one order for all epochs. With shuffle=True all 100 are seen.
# Packages: mosaicml-streaming==0.13.0 torch==2.13.0 torchvision==0.28.0 numpy==2.1.3
# Topic:    loaders
# Source:   streaming/base/sampling.py get_sampling() uses the epoch and returns counts per shard alone.
# Guess:    each epoch has other samples, and all are seen in the long run.
# Hurts:    data that were shuffled when they were written, read in shorter epochs: half of it trains nothing.
# Here:     an epoch is a permutation of all images
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > epochs.py <<'P'
import sys

import streaming

with streaming.MDSWriter(out="data", columns={"x": "int"}, size_limit=200) as writer:
    for i in range(100):
        writer.write({"x": i})
found = {}
for shuffle in (False, True):
    data = streaming.StreamingDataset(local="data", epoch_size=30, shuffle=shuffle, batch_size=4, shuffle_seed=1)
    epochs = [[int(sample["x"]) for sample in data] for _ in range(30)]
    found[shuffle] = {len(epoch) for epoch in epochs}, len({x for epoch in epochs for x in epoch})
print(f"mosaicml-streaming {streaming.__version__}: samples per epoch, and different ones in 30 epochs, by shuffle: {found}")
sys.exit(found != {False: ({30}, 52), True: ({30}, 100)})
P
"$python" epochs.py 2>/dev/null

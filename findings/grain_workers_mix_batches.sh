#!/usr/bin/env bash
# Finding:  In Grain, the number of loader processes changes which images share a batch if batch() comes after
#           to_iter_dataset(): each process takes every n-th image and batches its own. Before it, nothing changes.
# Packages: grain==0.2.18
# Topic:    loaders
# Source:   grain's mp_prefetch slices the map dataset among processes, and everything after it runs in each.
# Guess:    the same batches for any number of processes, as its documentation promises determinism.
# Hurts:    equal batches for every loader setting; batch statistics and losses differ by a setting of speed.
# Here:     the batches are drawn by the workflow, and loaders get lists of images
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > batches.py <<'P'
import sys

import grain


def list_batches(workers, batch_first):
    images = grain.MapDataset.range(16)
    batches = images.batch(4).to_iter_dataset() if batch_first else images.to_iter_dataset().batch(4)
    if workers:
        batches = batches.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
    return [batch.tolist() for batch in batches]


if __name__ == "__main__":
    before = [list_batches(workers, True)[0] for workers in (0, 2)]
    after = [list_batches(workers, False)[0] for workers in (0, 2)]
    print(f"first batch without and with two processes: {before} batched before to_iter_dataset(), {after} after it")
    sys.exit(before != [[0, 1, 2, 3]] * 2 or after != [[0, 1, 2, 3], [0, 2, 4, 6]])
P
"$python" batches.py 2>/dev/null

#!/usr/bin/env bash
# Finding:  Chainer's SerialIterator fills the last batch of an epoch with the first images of the next one: with 10 images
#           in batches of 4 the epochs have 3 and 2 batches, and no batch is incomplete.
# Packages: setuptools==69.5.1 wheel==0.45.1 numpy==1.23.5 protobuf==3.20.3 chainer==7.8.1
# Topic:    loaders
# Source:   chainer/iterators/_statemachine.py, repeat=True.
# Guess:    the last batch of an epoch is incomplete.
# Hurts:    comparisons by epochs: some images are seen twice in one epoch, and statistics of batches differ at its end.
# Here:     the batches are drawn by the workflow, for all frameworks alike
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P' 2>/dev/null
import sys

from chainer.iterators import SerialIterator

iterator = SerialIterator(list(range(10)), 4, shuffle=False)
batches = [(next(iterator), iterator.epoch) for _ in range(5)]
print("batches of ten images, and the epoch that each ends in:", batches)
sys.exit(batches != [([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0), ([8, 9, 0, 1], 1), ([2, 3, 4, 5], 1), ([6, 7, 8, 9], 2)])
P

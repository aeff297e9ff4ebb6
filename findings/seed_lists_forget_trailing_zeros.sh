#!/usr/bin/env bash
# Finding:  NumPy's default_rng(7), default_rng([7]) and default_rng([7, 0]) are one generator, and so are [7, 1] and
#           [7, 1, 0]: zeros at the end of a seed of up to four numbers do not count. [1, 2, 3, 4] and [1, 2, 3, 4, 0]
#           differ.
# Packages: numpy==2.4.6
# Topic:    loaders
# Source:   SeedSequence fills its pool of four words with zeros; spawn_key alone is kept apart.
# Guess:    a list is another seed than a number, and each list its own.
# Hurts:    generators seeded by [seed, epoch, rank]: epoch 0 of rank 0 draws what the generator of weights or splits
#           drew.
# Here:     orders and augmentation are Philox streams keyed by (seed, epoch), each with its counter
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P'
import sys

import numpy as np


def is_same(first, second):
    return (np.random.default_rng(first).random(8) == np.random.default_rng(second).random(8)).all()


same = [(7, [7]), (7, [7, 0]), (7, [7, 0, 0, 0]), ([7, 1], [7, 1, 0])]
other = [([1, 2, 3, 4], [1, 2, 3, 4, 0]), (7, [0, 7])]
found = {str(pair): bool(is_same(*pair)) for pair in same + other}
print(f"numpy {np.__version__}: same generator: {found}")
sys.exit(list(found.values()) != [True] * len(same) + [False] * len(other))
P

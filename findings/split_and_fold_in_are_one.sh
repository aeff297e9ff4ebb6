#!/usr/bin/env bash
# Finding:  In JAX, split(key, n)[i] and fold_in(key, i) are the same key. A training loop that splits its key into one for
#           the weights and one for the data, and folds the step into the same key, draws the dropout of step 1 from
#           the key of the data. With the flag jax_threefry_partitionable off, the default before, they differed.
# Packages: jax==0.10.2
# Topic:    what frameworks do differently
# Source:   jax/_src/prng.py: both hash the key with the number, so that one can be had for the other.
# Guess:    two functions that derive keys derive different ones, as two names for a stream do elsewhere.
# Hurts:    noise, dropout and initial weights that are taken as independent and are equal to the bit.
# Here:     weights, orders and augmentation come from Philox streams keyed by their purpose
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > keys.py <<'P'
import sys

import jax

key = jax.random.key(0)
weights, data = jax.random.split(key)
noise = jax.random.normal(data, (3,))
dropout = jax.random.normal(jax.random.fold_in(key, 1), (3,))
eight = jax.random.split(key, 8)
equal = sum(bool((jax.random.key_data(jax.random.fold_in(key, i)) == jax.random.key_data(eight[i])).all())
            for i in range(8))
partitionable = jax.config.jax_threefry_partitionable
print(f"jax {jax.__version__}, partitionable {partitionable}: from the second key of split {noise}, "
      f"from fold_in(key, 1) {dropout}; equal keys among eight: {equal}")
sys.exit(equal != int(sys.argv[1]))
P
JAX_PLATFORMS=cpu "$python" keys.py 8 && JAX_THREEFRY_PARTITIONABLE=0 JAX_PLATFORMS=cpu "$python" keys.py 0

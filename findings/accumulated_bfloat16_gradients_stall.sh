#!/usr/bin/env bash
# Finding:  optax.MultiSteps 0.2.5 averages bfloat16 gradients in bfloat16: of 1,024 gradients, the first half 0 and the
#           second half 1, the mean is 0.285, since the later ones change the average by less than its last bit. In
#           0.2.8, which averages in float32, it is 0.5. With float32 weights both are right.
# Packages: numpy==2.3.5 jax==0.7.0 jaxlib==0.7.0 chex==0.1.90 absl-py==2.3.1
# Topic:    silent changes in new releases
# Source:   optax/transforms/_accumulation.py: accumulator_dtype=jnp.float32 is new in MultiSteps.
# Guess:    the same step for the same gradients in both, near the mean (70 %).
# Hurts:    whoever accumulates many small batches with bfloat16 weights: the first batches weigh more, and an upgrade
#           trains otherwise (the state of the optimizer has another type, too).
# Here:     MultiSteps is not used
source "$(dirname "$(realpath "$0")")/setup.sh"
for version in 0.2.5 0.2.8; do
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$version" "optax==$version"
done
cat > mean.py <<'P'
import sys

sys.path.insert(0, sys.argv[1])
import jax
import jax.numpy as jnp
import optax

for kind in (jnp.bfloat16, jnp.float32):
    weights = jnp.ones(1, kind)
    steps = optax.MultiSteps(optax.sgd(1.0), 1024)
    state, update = steps.init(weights), jax.jit(steps.update)
    for batch in range(1024):
        change, state = update(jnp.full(1, float(batch >= 512), kind), state, weights)
    print(f"{-float(change[0]):.3f}", end=" ")
P
old=$("$python" mean.py 0.2.5 2> old.log)
new=$("$python" mean.py 0.2.8 2> new.log)
echo "mean of 1,024 gradients of bfloat16 and of float32 weights, true value 0.5: optax 0.2.5: $old; 0.2.8: $new"
"$python" - "$old" "$new" <<'P'
import sys

old, new = ([float(each) for each in text.split()] for text in sys.argv[1:])
sys.exit(not (old[0] < 0.4 and old[1] == 0.5 and new == [0.5, 0.5]))
P

#!/usr/bin/env bash
# Finding:  best = nnx.state(model) of flax is no copy: its variables are those of the model, so that training changes
#           best, too, and nnx.update(model, best) at the end gives the last weights and not the best. So it is for
#           graphdef, state = nnx.split(model), with filters or without, also if steps are jitted. nnx.to_pure_dict(),
#           nnx.clone() and jax.tree.map() of the state copy.
# Packages: torch==2.13.0 numpy==2.4.6 keras==3.15.1 jax==0.10.2 flax==0.12.8
# Topic:    programs
# Source:   flax/nnx/graphlib.py: _graph_flatten() takes the Variable itself as the leaf. The pages of split() and
#           state() do not say whether they copy.
# Guess:    the state is that of the moment: arrays of JAX never change, and split() leads to pure functions (confidence
#           90 %; written after a first try had shown it).
# Hurts:    early stopping and best weights kept in memory, averages and fast-weight methods that hold the old weights:
#           all are the present ones. Loss and accuracy of the "best" network are those of the last.
# Here:     measure/frameworks/flax/sharding.py merges a network anew for each pass, with copy=True, and keeps arrays
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > best.py <<'P'
import sys
import warnings

import flax
import jax
import jax.numpy as jnp
from flax import nnx

warnings.filterwarnings("ignore")
WAYS = {
    "state": nnx.state,
    "state of Param": lambda network: nnx.state(network, nnx.Param),
    "split": lambda network: nnx.split(network)[1],
    "to_pure_dict": lambda network: nnx.to_pure_dict(nnx.state(network)),
    "clone": lambda network: nnx.state(nnx.clone(network)),
    "tree.map": lambda network: jax.tree.map(lambda array: array, nnx.state(network)),
}


@nnx.jit
def step(network):
    """Subtract the gradient, which is 1 for the bias."""
    gradient = nnx.grad(lambda network: network(jnp.ones((1, 2))).sum())(network)
    nnx.update(network, jax.tree.map(lambda weight, part: weight - part, nnx.state(network), gradient))


def restore(keep):
    """Return the bias when it is kept, after three more steps, and when it is restored."""
    network = nnx.Linear(2, 1, rngs=nnx.Rngs(0))
    step(network)
    seen = [float(network.bias[...][0])]
    best = keep(network)
    for _ in range(3):
        step(network)
    seen.append(float(network.bias[...][0]))
    nnx.update(network, best)
    return *seen, float(network.bias[...][0])


found = {name: restore(keep) for name, keep in WAYS.items()}
print(f"flax {flax.__version__}: bias when kept, after three steps, and restored: {found}")
aliased = {name for name, (kept, last, restored) in found.items() if restored == last}
right = all(kept == -1 and last == -4 and restored in (kept, last) for kept, last, restored in found.values())
sys.exit(not (right and aliased == {"state", "state of Param", "split"}))
P
JAX_PLATFORMS=cpu "$python" best.py 2> best.log || { tail -3 best.log; exit 1; }

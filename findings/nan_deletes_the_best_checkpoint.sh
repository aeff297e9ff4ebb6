#!/usr/bin/env bash
# Finding:  Orbax's CheckpointManager that keeps the checkpoint of the smallest loss deletes it if a later loss is NaN:
#           after losses of 0.5, 0.4, NaN and 0.6 it has that of 0.6, and best_step() names it.
# Packages: orbax-checkpoint==0.12.8 jax==0.10.2 numpy==2.4.6
# Topic:    programs
# Source:   checkpoints are sorted by their metric, and NaN is neither smaller nor larger than any.
# Guess:    a NaN is never the best, and 0.4 stays.
# Hurts:    training with one unlucky evaluation: the best weights are gone.
# Here:     no checkpoints are chosen by a metric
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > keep.py <<'P'
import sys
from pathlib import Path

import jax.numpy as jnp
import orbax.checkpoint as ocp


def keep(losses, folder):
    options = ocp.CheckpointManagerOptions(
        max_to_keep=1, best_fn=lambda metrics: metrics["loss"], best_mode="min", enable_async_checkpointing=False
    )
    with ocp.CheckpointManager(Path(folder).resolve(), options=options) as manager:
        for step, loss in enumerate(losses):
            manager.save(step, args=ocp.args.StandardSave({"weight": jnp.ones(2)}), metrics={"loss": loss})
        manager.wait_until_finished()
        return [losses[step] for step in manager.all_steps()], losses[manager.best_step()]


without, after = keep([0.5, 0.4, 0.7, 0.6], "without"), keep([0.5, 0.4, float("nan"), 0.6], "with")
print(f"orbax {ocp.__version__}: losses kept, and the best: {without} without a NaN, {after} after one")
sys.exit((without, after) != (([0.4], 0.4), ([0.6], 0.6)))
P
"$python" keep.py 2>/dev/null

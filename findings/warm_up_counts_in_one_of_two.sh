#!/usr/bin/env bash
# Finding:  decay_steps of a cosine with warm-up includes the warm-up in optax and begins after it in Keras: with 50 warm-up
#           steps and decay_steps=100, the rate at step 100 is 0 in optax and half the peak in Keras.
# Packages: tensorflow-cpu==2.21.0 keras==3.15.1 jax==0.10.2 optax==0.2.8
# Topic:    what frameworks do differently
# Source:   optax.warmup_cosine_decay_schedule and keras.optimizers.schedules.CosineDecay, each by its documentation.
# Guess:    the same arguments give the same curve (expected with 50 %).
# Hurts:    ports of a training: the last third of the schedule is missing, or trains at a rate of 0.
# Here:     one schedule for all frameworks, computed by the loop; the gate has its end in the task
source "$(dirname "$(realpath "$0")")/setup.sh"
KERAS_BACKEND=jax "$python" - <<'P' 2>/dev/null
import sys

import keras
import optax

ours = keras.optimizers.schedules.CosineDecay(0.0, decay_steps=100, warmup_target=1.0, warmup_steps=50)
theirs = optax.warmup_cosine_decay_schedule(0.0, 1.0, warmup_steps=50, decay_steps=100)
rates = {step: (round(float(ours(step)), 2), round(float(theirs(step)), 2)) for step in (25, 50, 75, 100, 150)}
print("rate by step, Keras and optax:", rates)
sys.exit(rates != {25: (0.5, 0.5), 50: (1, 1), 75: (0.85, 0.5), 100: (0.5, 0), 150: (0, 0)})
P

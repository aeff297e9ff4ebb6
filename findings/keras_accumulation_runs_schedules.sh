#!/usr/bin/env bash
# Finding:  With gradient_accumulation_steps=k, a learning-rate schedule and the moving average of the weights of a Keras
#           optimizer advance at each of the k batches, so that both run k times too fast; optimizer.iterations does not.
# Packages: tensorflow-cpu==2.21.0 keras==3.15.1
# Topic:    what frameworks do differently
# Source:   keras/src/optimizers/base_optimizer.py: the schedule gets _iterations, which counts batches; the property
#           iterations divides it.
# Guess:    both advance once per update, as weight decay does.
# Hurts:    whoever accumulates to keep the global batch on fewer devices: the same task gets another schedule.
# Here:     batches are accumulated before the optimizer, whose learning rates are a table by update
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P' 2>/dev/null
import sys

import keras
import numpy as np


def run(accumulate, **options):
    """Return weight and average after each of three updates by a gradient of 1."""
    weight = keras.Variable(np.zeros(1, "float32"))
    rate = keras.optimizers.schedules.PiecewiseConstantDecay([1], [1.0, 0.25])
    steps = {"gradient_accumulation_steps": accumulate} if accumulate > 1 else {}
    optimizer = keras.optimizers.SGD(rate, use_ema=True, ema_momentum=0.5, **steps)
    optimizer.build([weight])
    found = []
    for batch in range(3 * accumulate):
        optimizer.apply([keras.ops.ones(1)], [weight])
        if (batch + 1) % accumulate == 0:
            average = optimizer._model_variables_moving_average[0]
            found.append((float(weight.numpy()[0]), float(average.numpy()[0])))
    return found, int(optimizer.iterations)


(once, count), (four, same_count) = run(1), run(4)
print(f"weight and its average after 3 updates: {once} with 1 batch each, {four} with 4 batches each; "
      f"iterations: {count} and {same_count}")
sys.exit(not (count == same_count == 3 and [w for w, _ in once] == [-1.0, -2.0, -2.25]
              and [w for w, _ in four] == [-0.25, -0.5, -0.75]))
P

#!/usr/bin/env bash
# Finding:  The weight decay of Chainer's AdamW is not multiplied by the learning rate: with alpha=0.001 and
#           weight_decay_rate=0.01 a weight of 1 without gradient is 0.99 after a step and 0.37 after 100, where
#           PyTorch, Keras and optax have 0.99999 and 0.999. Lowering the rate leaves the decay.
# Packages: setuptools==69.5.1 wheel==0.45.1 numpy==1.23.5 protobuf==3.20.3 chainer==7.8.1
# Topic:    what frameworks do differently
# Source:   chainer/optimizers/adam.py multiplies both by eta alone, as the paper of AdamW has it.
# Guess:    the same decay by the same numbers.
# Hurts:    hyperparameters that are carried over: the decay is 1,000 times as strong.
# Here:     measure/frameworks/chainer/family.py converts the decay; the gate compares AdamW in every family
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > decay.py <<'P'
import sys

import chainer
import numpy as np


def decay(alpha, steps):
    layer = chainer.links.Linear(1, 1, nobias=True, initialW=np.ones((1, 1), np.float32))
    optimizer = chainer.optimizers.AdamW(alpha=alpha, weight_decay_rate=0.01).setup(layer)
    for _ in range(steps):
        layer.W.grad = np.zeros((1, 1), np.float32)
        optimizer.update()
    return round(float(layer.W.array[0, 0]), 4)


found = decay(1e-3, 1), decay(1e-3, 100), decay(1e-6, 100)
print(f"chainer {chainer.__version__}: a weight of 1 after 1 step, after 100, and after 100 at a thousandth of the rate: "
      f"{found}")
sys.exit(found != (0.99, 0.366, 0.366))
P
"$python" decay.py 2>/dev/null

#!/usr/bin/env bash
# Finding:  weight_decay of one optimizer is two things: after 1,000 steps without gradient, at rate and decay 0.01, a
#           weight of 1 is 0.90 in every optimizer of Keras; in PyTorch 0.37 by SGD with momentum and 0 by Adam, RMSprop
#           and Adamax. Keras's Adam with weight_decay is AdamW.
# Packages: torch==2.13.0 numpy==2.4.6 keras==3.15.1
# Topic:    what frameworks do differently
# Source:   keras/src/optimizers/base_optimizer.py shrinks the weights before each step; PyTorch adds the decay to the
#           gradient, where momentum and the second moment act on it.
# Guess:    decay of the gradient in both but for AdamW, because that is what tells Adam and AdamW apart.
# Hurts:    comparisons of frameworks with equal hyperparameters: with momentum 0.9 PyTorch decays ten times as fast.
# Here:     the decay of each optimizer is defined once; the gate compares the updates of every family
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > decay.py <<'P'
import sys

import keras
import numpy as np
import torch

found = {}
for name, options in (("SGD", {"momentum": 0.9}), ("Adam", {}), ("RMSprop", {}), ("Adamax", {})):
    options |= {"weight_decay": 0.01}
    variable, parameter = keras.Variable(np.ones(1, np.float32)), torch.nn.Parameter(torch.ones(1))
    in_keras = getattr(keras.optimizers, name)(learning_rate=0.01, **options)
    in_torch = getattr(torch.optim, name)([parameter], lr=0.01, **options)
    for _ in range(1000):
        in_keras.apply([torch.zeros(1)], [variable])
        parameter.grad = torch.zeros(1)
        in_torch.step()
    found[name] = (round(float(variable.value), 2), round(parameter.item(), 2))
print("a weight of 1 after 1,000 steps, in Keras and PyTorch:", found)
sys.exit(found != {"SGD": (0.9, 0.37), "Adam": (0.9, 0), "RMSprop": (0.9, 0), "Adamax": (0.9, 0)})
P
CUDA_VISIBLE_DEVICES= KERAS_BACKEND=torch "$python" decay.py 2>/dev/null

#!/usr/bin/env bash
# Finding:  With the same epsilon of 1e-8, the first step of Adam for a gradient of 1e-8 is 0.50 of the learning rate in
#           PyTorch and 0.03 in Keras: Keras adds epsilon before the bias of the second moment is corrected.
# Packages: torch==2.13.0 numpy==2.4.6 keras==3.15.1
# Topic:    what frameworks do differently
# Source:   Kingma and Ba 2015, end of section 2 ("epsilon hat"); keras/src/optimizers/adam.py.
# Guess:    equal up to rounding, because the formula has the names of the paper.
# Hurts:    layers with small gradients (embeddings, half precision) when epsilon is copied from a paper.
# Here:     the gate compares Adam's updates in every family, with an epsilon that shows in six steps
source "$(dirname "$(realpath "$0")")/setup.sh"
KERAS_BACKEND=torch "$python" - <<'P' 2>/dev/null
import sys

import keras
import numpy as np
import torch


def step_torch(gradient):
    weight = torch.zeros(1, requires_grad=True)
    weight.grad = torch.tensor([gradient])
    torch.optim.Adam([weight], lr=1.0, eps=1e-8).step()
    return -weight.item()


def step_keras(gradient):
    weight = keras.Variable(np.zeros(1, "float32"))
    optimizer = keras.optimizers.Adam(1.0, epsilon=1e-8)
    optimizer.build([weight])
    optimizer.apply([keras.ops.convert_to_tensor(np.array([gradient], "float32"))], [weight])
    return -float(keras.ops.convert_to_numpy(weight)[0])


steps = {gradient: (round(step_torch(gradient), 3), round(step_keras(gradient), 3)) for gradient in (1e-3, 1e-7, 1e-8)}
print("first step by gradient, PyTorch and Keras:", steps)
sys.exit(steps != {1e-3: (1.0, 1.0), 1e-7: (0.909, 0.24), 1e-8: (0.5, 0.031)})
P

#!/usr/bin/env bash
# Finding:  After a first gradient of 100 and then only 1, optax.amsgrad moves a weight a fifth as far in 200 steps as the
#           AMSGrad of PyTorch and of Keras, with the same rate, decays and epsilon; Adam of all three agrees to 0.1 %.
# Packages: torch==2.13.0 numpy==2.4.6 keras==3.15.1 jax==0.10.2 optax==0.2.8
# Topic:    what frameworks do differently
# Source:   optax corrects the bias before the maximum is taken, so that the first gradient counts in full for ever; the
#           others take the maximum first, where it has a thousandth of that. bias_correction_nu=False corrects nothing.
# Guess:    Adam with a maximum is the same in each, as Adam is.
# Hurts:    comparisons of frameworks with amsgrad: the first steps, whose gradients are the largest, decide the rest.
# Here:     the schema has no amsgrad; the gate compares the weights of each optimizer that it has over five steps
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > amsgrad.py <<'P'
import sys

import jax.numpy as jnp
import keras
import numpy as np
import optax
import torch

gradients = [100.0] + [1.0] * 199


def move_optax(optimizer):
    weight = jnp.zeros(1)
    state = optimizer.init(weight)
    for gradient in gradients:
        update, state = optimizer.update(jnp.full(1, gradient), state, weight)
        weight += update
    return round(float(weight[0]), 5)


def move_torch(amsgrad):
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.Adam([weight], 1e-3, eps=1e-8, amsgrad=amsgrad)
    for gradient in gradients:
        weight.grad = torch.full((1,), gradient)
        optimizer.step()
    return round(float(weight.detach()[0]), 5)


def move_keras(amsgrad):
    weight = keras.Variable(np.zeros(1, "float32"))
    optimizer = keras.optimizers.Adam(1e-3, epsilon=1e-8, amsgrad=amsgrad)
    for gradient in gradients:
        optimizer.apply([keras.ops.full(1, gradient)], [weight])
    return round(float(np.asarray(weight.value)[0]), 5)


adam = [move_optax(optax.adam(1e-3)), move_torch(False), move_keras(False)]
amsgrad = [move_optax(optax.amsgrad(1e-3)), move_torch(True), move_keras(True)]
print(f"optax {optax.__version__}, torch {torch.__version__}, keras {keras.__version__}: the weight after 200 steps of "
      f"Adam {adam}, of AMSGrad {amsgrad}")
sys.exit(not (np.allclose(adam, adam[0], rtol=2e-3) and np.isclose(amsgrad[1], amsgrad[2], rtol=1e-2)
              and amsgrad[1] / amsgrad[0] > 4))
P
KERAS_BACKEND=jax JAX_PLATFORMS=cpu "$python" amsgrad.py 2>/dev/null

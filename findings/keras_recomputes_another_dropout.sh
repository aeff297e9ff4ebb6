#!/usr/bin/env bash
# Finding:  On PyTorch, a Keras layer under RematScope computes its output with one dropout mask and its gradient with
#           another: the recomputation in the backward pass draws anew. Nothing warns; outside of the scope they agree.
# Packages: torch==2.13.0 numpy==2.4.6 keras==3.15.1
# Topic:    what frameworks do differently
# Source:   keras/src/backend/torch/core.py calls torch.utils.checkpoint, which restores PyTorch's generator; Keras
#           keeps the state of its own in a variable.
# Guess:    the same mask, as in torch.utils.checkpoint of PyTorch's own dropout.
# Hurts:    large models that recompute to save memory: gradients of units that were dropped, none of some that were
#           not.
# Here:     Keras is measured on TensorFlow; no network of the workflow recomputes
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > recompute.py <<'P'
import sys

import keras
import torch


class Scaled(keras.layers.Layer):
    """Each unit times its own weight, through a dropout: a unit has an output and its weight a gradient, or neither."""

    def __init__(self):
        super().__init__()
        self.dropout = keras.layers.Dropout(0.5, seed=3)

    def build(self, shape):
        self.scale = self.add_weight(shape=(64,), initializer="ones")

    def call(self, units, training=False):
        return self.dropout(keras.ops.tanh(units * self.scale), training=training)


def compare(mode):
    with keras.RematScope(mode=mode):
        layer = Scaled()
    outputs = layer(torch.ones(1, 64), training=True)
    outputs.sum().backward()
    return int(((outputs[0] != 0) != (layer.scale.value.grad != 0)).sum())


plain, again = compare(None), compare("full")
print(f"keras {keras.__version__} on torch, units of 64 with an output and no gradient or the reverse: "
      f"{plain} without recomputation, {again} with it")
sys.exit(not (plain == 0 and again > 10))
P
CUDA_VISIBLE_DEVICES= KERAS_BACKEND=torch "$python" recompute.py 2>/dev/null

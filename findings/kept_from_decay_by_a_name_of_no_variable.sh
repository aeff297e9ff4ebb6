#!/usr/bin/env bash
# Finding:  exclude_from_weight_decay(var_names=["norm"]) of a Keras 3 optimizer excludes nothing of a layer "norm": the
#           name of a variable is "kernel", "bias", "gamma" or "beta", without that of its layer, which stands in its
#           path alone. The known list for transformers, LayerNorm, layer_norm and bias, leaves the scales decayed.
# Packages: numpy==2.4.6 keras==3.15.1 jax==0.10.2
# Topic:    programs
# Source:   keras/src/optimizers/base_optimizer.py: _use_weight_decay searches variable.name. In Keras 2 that was
#           "norm/gamma:0".
# Guess:    the variables of layers with that name are excluded (confidence 80 %).
# Hurts:    recipes and layers taken over from Keras 2, and names of layers or blocks: all is decayed, without a word.
# Here:     measure/frameworks/keras/family.py excludes the variables themselves; the gate compares the weights
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > decay.py <<'P'
import sys

import keras
import numpy as np


def step(**options):
    """Return the variables that a step without gradient changes."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, bias_initializer="ones", name="first"),
                              keras.layers.LayerNormalization(beta_initializer="ones", name="layer_norm")])
    optimizer = keras.optimizers.AdamW(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(**{key: value(model) for key, value in options.items()})
    before = [keras.ops.convert_to_numpy(variable) for variable in model.trainable_variables]
    optimizer.apply([keras.ops.zeros(variable.shape) for variable in model.trainable_variables],
                    model.trainable_variables)
    return {"/".join(variable.path.split("/")[-2:]).replace("layer_norm/", "norm/")
            for variable, old in zip(model.trainable_variables, before) if not np.array_equal(keras.ops.convert_to_numpy(variable), old)}


layers = step(var_names=lambda model: ["LayerNorm", "layer_norm", "bias"])
names = step(var_names=lambda model: ["gamma", "beta", "bias"])
variables = step(var_list=lambda model: [*model.layers[1].trainable_variables, model.layers[0].bias])
print(f"keras {keras.__version__}: decayed if LayerNorm, layer_norm and bias are excluded {sorted(layers)}; if gamma, beta "
      f"and bias are {sorted(names)}; if the variables are {sorted(variables)}")
sys.exit(not (layers == {"first/kernel", "norm/gamma", "norm/beta"} and names == variables == {"first/kernel"}))
P
KERAS_BACKEND=jax JAX_PLATFORMS=cpu "$python" decay.py 2>/dev/null

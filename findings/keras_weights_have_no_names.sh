#!/usr/bin/env bash
# Finding:  Keras does not load a .weights.h5 file by the names of layers. In the same network with its two heads in the
#           other order, the head that is named "species" gets the weights of the head that is named "sex", without a
#           word, if their shapes are equal.
# Packages: jax==0.10.2 keras==3.15.1 numpy==2.4.6
# Topic:    programs
# Source:   keras/src/saving/saving_lib.py calls layers by their class and a number, in the order of the model's layers.
# Guess:    layers that were given names are found by them.
# Hurts:    resuming or evaluating after a change of the code that lists branches in another order.
# Here:     weights are exchanged as safetensors with the name of each array
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > heads.py <<'P'
import sys

import keras
import numpy as np


def build(*heads):
    image = keras.Input((4,))
    features = keras.layers.Dense(8, name="features")(image)
    return keras.Model(image, [keras.layers.Dense(3, name=name)(features) for name in heads])


def find(model, name):
    return np.asarray(model.get_layer(name).kernel)


saved = build("species", "sex")
saved.save_weights("saved.weights.h5")
loaded = build("sex", "species")
loaded.load_weights("saved.weights.h5")
same = {(name, source): bool(np.array_equal(find(loaded, name), find(saved, source)))
        for name in ("features", "species", "sex") for source in ("features", "species", "sex")
        if find(loaded, name).shape == find(saved, source).shape}
got = {name: source for (name, source), equal in same.items() if equal}
print(f"keras {keras.__version__}: layer, and the layer whose weights it got: {got}")
sys.exit(got != {"features": "features", "species": "sex", "sex": "species"})
P
KERAS_BACKEND=jax JAX_PLATFORMS=cpu "$python" heads.py 2>/dev/null

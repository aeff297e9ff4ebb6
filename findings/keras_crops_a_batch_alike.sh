#!/usr/bin/env bash
# Finding:  Keras's RandomCrop crops all images of a batch at the same place. RandomFlip, RandomTranslation, RandomRotation
#           and RandomZoom draw for each image, and so do its other random layers.
# Packages: jax==0.10.2 keras==3.15.1 numpy==2.4.6
# Topic:    images
# Source:   keras/src/layers/preprocessing/image_preprocessing/random_crop.py draws one row and one column for a call.
# Guess:    each image has its own crop, as with the layers beside it.
# Hurts:    recipes such as pad and crop for CIFAR: moved from before batch() to after it, they augment less, and how much
#           less depends on the batch size.
# Here:     each image has its own crop, from a stream keyed by epoch and image
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > crop.py <<'P'
import sys

import keras
import numpy as np

keras.utils.set_random_seed(0)
image = np.random.default_rng(0).uniform(0, 255, (40, 40, 3)).astype("float32")
batch = np.stack([image] * 64)
layers = {
    "RandomCrop": keras.layers.RandomCrop(32, 32),
    "RandomTranslation": keras.layers.RandomTranslation(0.2, 0.2),
    "RandomRotation": keras.layers.RandomRotation(0.2),
    "RandomZoom": keras.layers.RandomZoom(0.2),
    "RandomBrightness": keras.layers.RandomBrightness(0.2),
}
distinct = {
    name: len({made.tobytes() for made in np.asarray(layer(batch, training=True))}) for name, layer in layers.items()
}
alone = {np.asarray(layers["RandomCrop"](image[None], training=True)).tobytes() for _ in range(64)}
print(f"keras {keras.__version__}: different results of 64 equal images in a batch: {distinct}; "
      f"of RandomCrop of one image 64 times: {len(alone)}")
crop = distinct.pop("RandomCrop")
sys.exit(not (crop == 1 and set(distinct.values()) == {64} and len(alone) > 20))
P
KERAS_BACKEND=jax JAX_PLATFORMS=cpu "$python" crop.py 2>/dev/null

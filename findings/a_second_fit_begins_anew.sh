#!/usr/bin/env bash
# Finding:  An EarlyStopping or ReduceLROnPlateau that a second fit() of Keras gets again compares with the best loss of
#           the first in 3.11.0, and begins anew in 3.15.1: on harder data of a second phase, 3.11.0 stops after 2
#           epochs of 5 though the loss falls in each, and divides the learning rate by 32; 3.15.1 trains all 5 at the
#           full rate.
# Packages: numpy==2.3.5 jax==0.7.0 jaxlib==0.7.0 absl-py==2.3.1 rich==14.0.0 namex==0.1.0 h5py==3.14.0 optree==0.17.0 ml-dtypes==0.5.1 packaging==25.0
# Topic:    silent changes in new releases
# Source:   keras/src/callbacks/early_stopping.py, on_train_begin, and reduce_lr_on_plateau.py, _reset: "self.best =
#           None" is new.
# Guess:    the count of epochs is reset and the best value kept (60 %).
# Hurts:    whoever trains in phases or calls fit() in a loop to resume: other epochs and rates across these versions.
# Here:     neither callback is used
source "$(dirname "$(realpath "$0")")/setup.sh"
for version in 3.11.0 3.15.1; do
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$version" "keras==$version"
done
cat > phases.py <<'P'
import os
import sys

sys.path.insert(0, sys.argv[1])
os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np

x = y = np.ones((8, 1))
for callback in (
    keras.callbacks.EarlyStopping("loss", patience=1),
    keras.callbacks.ReduceLROnPlateau("loss", patience=1, factor=0.5),
):
    model = keras.Sequential([keras.layers.Dense(1, use_bias=False)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.build((None, 1))
    losses = []
    for start in (0.0, 9.0):
        model.set_weights([np.full((1, 1), start)])
        losses = model.fit(x, y, epochs=5, verbose=0, callbacks=[callback]).history["loss"]
    falls = all(after < before for before, after in zip(losses, losses[1:]))
    print(len(losses), falls, f"{float(model.optimizer.learning_rate):.4f}", end="; ")
P
old=$("$python" phases.py 3.11.0 2> old.log)
new=$("$python" phases.py 3.15.1 2> new.log)
echo "epochs of the second fit, whether its loss falls in each, rate at the end, for EarlyStopping and ReduceLROnPlateau:"
echo "3.11.0: $old"
echo "3.15.1: $new"
[ "$new" = "5 True 0.1000; 5 True 0.1000; " ] && [[ "$old" == "2 True 0.1000; 5 True 0.00"* ]]

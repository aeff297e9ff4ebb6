#!/usr/bin/env bash
# Finding:  If BackupAndRestore has resumed a fit() of Keras at its fifth epoch, the next fit(epochs=3) of the same
#           model trains no epoch, and fit(epochs=8) trains three, without an error or a warning. So it is for
#           fine-tuning after a first phase that was interrupted. In a run that was not interrupted, both train all.
# Packages: numpy==2.4.6 keras==3.15.1 jax==0.10.2
# Topic:    programs
# Source:   keras/src/callbacks/backup_and_restore.py sets model._initial_epoch, which fit() of each backend prefers to
#           initial_epoch=, and nothing sets it back.
# Guess:    the epoch to resume at is of the fit() that has the callback (confidence 95 %).
# Hurts:    programs of several phases, and cross-validation or searches that call fit() in a loop: the model of the
#           later phases is that of the first.
# Here:     no run is resumed; docs/program.md tells how the runs of a program keep their files apart
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > phases.py <<'P'
import sys

import keras
import numpy as np

IMAGES, LABELS = np.ones((4, 2)), np.ones((4, 1))


class Interrupt(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 5:
            raise KeyboardInterrupt


def make():
    network = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    network.compile("sgd", "mse")
    return network


def fit(network, epochs, *callbacks, **settings):
    """Return the epochs that were trained, and whether the weights changed."""
    before = network.get_weights()[0]
    history = network.fit(IMAGES, LABELS, epochs=epochs, verbose=0, callbacks=list(callbacks), **settings)
    return history.epoch, not np.array_equal(before, network.get_weights()[0])


def phases(interrupted):
    """Return the epochs of a first phase of eight and of two later ones."""
    network = make()
    if interrupted:
        try:
            fit(make(), 8, keras.callbacks.BackupAndRestore("backup"), Interrupt())
        except KeyboardInterrupt:
            pass
    first, _ = fit(network, 8, keras.callbacks.BackupAndRestore("backup"))
    network.compile("sgd", "mse")
    return first, fit(network, 3), fit(network, 3, initial_epoch=0), fit(network, 8)


usual, resumed = phases(False), phases(True)
print(f"keras {keras.__version__}: epochs of a first phase of 8, then of phases of 3, 3 and 8, and whether they change "
      f"weights: {usual} without an interruption, {resumed} with one")
whole, part = list(range(8)), list(range(5, 8))
sys.exit(not (usual == (whole, (whole[:3], True), (whole[:3], True), (whole, True))
              and resumed == (part, ([], False), ([], False), (part, True))))
P
KERAS_BACKEND=jax JAX_PLATFORMS=cpu "$python" phases.py 2>/dev/null

#!/usr/bin/env bash
# Finding:  Keras does not save how far the random generators of its layers are, neither in a saved model nor in
#           BackupAndRestore's backup: layers such as RandomTranslation and Dropout begin again with their seed. In a
#           chain of jobs of one epoch each, every epoch has the same translations, where one job has others in each,
#           with seed=1 and with set_random_seed(0) at the start of each job alike.
# Packages: numpy==2.4.6 keras==3.15.1 jax==0.10.2
# Topic:    programs
# Source:   keras/src/layers/layer.py: the state of a SeedGenerator is among the layer's non_trainable_variables, but
#           save_own_variables() writes _trainable_variables and _non_trainable_variables, in which it is not, and
#           saving_lib visits no SeedGenerator.
# Guess:    the resumed run goes on as the whole one: the state is a variable of the model (confidence 75 %).
# Hurts:    training in jobs with a time limit: augmentation that repeats itself in each job is a part of the
#           augmentation that was asked for, and the result depends on the length of the jobs.
# Here:     no run is resumed; docs/program.md tells how the runs of a program keep their files apart
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > jobs.py <<'P'
import shutil
import sys

import keras
import numpy as np

IMAGES, LABELS = np.random.default_rng(0).random((8, 16, 16, 1)), np.ones((8, 1))


class Look(keras.callbacks.Callback):
    """Notes the images that the network would see at the start of each epoch, and interrupts training after one."""

    def __init__(self, number):
        super().__init__()
        self.number, self.seen = number, []

    def on_epoch_begin(self, epoch, logs=None):
        if len(self.seen) == self.number:
            raise KeyboardInterrupt
        self.seen.append(np.asarray(self.model.layers[0](IMAGES, training=True)))


def job(seed, number):
    """Return the images of up to a number of epochs of a run of three, resumed if there is a backup."""
    keras.utils.set_random_seed(0)
    network = keras.Sequential([keras.Input((16, 16, 1)), keras.layers.RandomTranslation(0.3, 0.3, seed=seed),
                                keras.layers.Flatten(), keras.layers.Dense(1)])
    network.compile("sgd", "mse")
    look = Look(number)
    try:
        network.fit(IMAGES, LABELS, epochs=3, verbose=0, callbacks=[keras.callbacks.BackupAndRestore("backup"), look])
    except KeyboardInterrupt:
        pass
    return look.seen, network


def distinct(images):
    return len({image.tobytes() for image in images})


found = {}
for seed in (1, None):
    whole, _ = job(seed, 3)
    shutil.rmtree("backup", ignore_errors=True)
    chain = [image for _ in range(3) for image in job(seed, 1)[0]]
    found[seed] = len(whole), distinct(whole), len(chain), distinct(chain)
seen, network = job(1, 3)
network.save("network.keras")
loaded = np.asarray(keras.models.load_model("network.keras").layers[0](IMAGES, training=True))
repeats = np.array_equal(loaded, seen[0]), np.array_equal(np.asarray(network.layers[0](IMAGES, training=True)), seen[0])
print(f"keras {keras.__version__}: different translations in three epochs: one job {found[1][1]}, three jobs "
      f"{found[1][3]}; without a seed of the layer {found[None][1]} and {found[None][3]}; the loaded model begins "
      f"again: {repeats[0]}, the one that was saved: {repeats[1]}")
sys.exit(not (set(found.values()) == {(3, 3, 3, 1)} and repeats == (True, False)))
P
KERAS_BACKEND=jax JAX_PLATFORMS=cpu "$python" jobs.py 2> jobs.log || { tail -3 jobs.log; exit 1; }

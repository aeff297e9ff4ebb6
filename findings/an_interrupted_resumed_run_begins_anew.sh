#!/usr/bin/env bash
# Finding:  Keras's BackupAndRestore(save_freq=2), which backs up every two batches, remembers the epoch once: a run
#           that is interrupted in its fourth epoch goes on in the fourth, and if it is interrupted there again, it
#           begins at the first, with the weights that it has, and takes 54 steps where 30 were asked for. With
#           save_freq="epoch" it is right.
# Packages: numpy==2.4.6 keras==3.15.1 jax==0.10.2
# Topic:    programs
# Source:   keras/src/callbacks/backup_and_restore.py: _current_epoch, which is written with each backup, is 0 in a new
#           callback until an epoch ends; what was restored goes to model._initial_epoch alone. The batch is written,
#           too, and never read, so that an epoch is always repeated from its first batch.
# Guess:    the third run goes on in the fourth epoch, as the second did (confidence 95 %).
# Hurts:    long epochs on nodes that are taken away often, for which save_freq is there: epochs and their schedules of
#           the learning rate begin again, each time unless an epoch ends in between.
# Here:     no run is resumed; docs/program.md tells how the runs of a program keep their files apart
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > interrupted.py <<'P'
import json
import sys

import keras
import numpy as np

IMAGES, LABELS = np.ones((10, 2)), np.ones((10, 1))


class Interrupt(keras.callbacks.Callback):
    """Interrupts training after the last batch of the fourth epoch, before the epoch ends, and notes what it sees."""

    def __init__(self, wanted):
        super().__init__()
        self.wanted, self.epochs, self.now = wanted, [], None

    def on_epoch_begin(self, epoch, logs=None):
        self.epochs.append(epoch)
        self.now = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.wanted and (self.now, batch) == (3, 4):
            raise KeyboardInterrupt


def run(frequency, wanted):
    """Return the epochs of a run of six, the steps of the optimizer, and the epoch of the backup."""
    folder = f"backup_{frequency}"
    network = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    network.compile("adam", "mse")
    interrupt = Interrupt(wanted)
    callbacks = [keras.callbacks.BackupAndRestore(folder, save_freq=frequency), interrupt]
    try:
        network.fit(IMAGES, LABELS, batch_size=2, epochs=6, verbose=0, callbacks=callbacks)
        saved = None
    except KeyboardInterrupt:
        saved = json.loads(open(f"{folder}/training_metadata.json").read())["epoch"]
    return interrupt.epochs, int(network.optimizer.iterations), saved


found = {frequency: [run(frequency, wanted) for wanted in (True, True, False)] for frequency in (2, "epoch")}
text = "; ".join(
    f"save_freq={frequency!r}: " + ", ".join(f"epochs {epochs} (backup: {saved})" for epochs, _, saved in runs)
    + f", {runs[-1][1]} steps" for frequency, runs in found.items())
print(f"keras {keras.__version__}, six epochs of five batches, interrupted twice in epoch 3: {text}")
wanted = {2: [([0, 1, 2, 3], 3), ([3], 0), ([0, 1, 2, 3, 4, 5], None)],
          "epoch": [([0, 1, 2, 3], 3), ([3], 3), ([3, 4, 5], None)]}
sys.exit(not ({key: [(epochs, saved) for epochs, _, saved in runs] for key, runs in found.items()} == wanted
              and found[2][-1][1] > 50 and found["epoch"][-1][1] == 30))
P
KERAS_BACKEND=jax JAX_PLATFORMS=cpu "$python" interrupted.py 2>/dev/null

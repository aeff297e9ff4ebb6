#!/usr/bin/env bash
# Finding:  The last line that Keras prints for an epoch divides the time of training and validation by the training
#           steps: with a validation of 5 s, steps of 50 ms are printed as 1 s/step.
# Packages: tensorflow-cpu==2.21.0 keras==3.15.1
# Topic:    programs
# Source:   keras/src/callbacks/progbar_logger.py finalises the bar in on_epoch_end, after the validation.
# Guess:    ms/step is the time of a training step; validation has none of its own and is left out.
# Hurts:    whoever reads the speed of a training, or an expression that does, from the last line of an epoch.
# Here:     the callback report_keras.py reports steps, validation is a phase of its own; docs/program.md names it
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P' 2>/dev/null
import contextlib
import io
import re
import sys
import time

import keras
import numpy as np


class Slow(keras.utils.PyDataset):
    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def __len__(self):
        return 5

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return np.ones((4, 3), "float32"), np.ones((4, 1), "float32")


model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(Slow(0), validation_data=Slow(0), verbose=0)


def read_step_s(validation):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        model.fit(Slow(0.05), validation_data=validation, verbose=2)
    number, unit = re.search(r"(\d+)(ms|s)/step", printed.getvalue()).groups()
    return int(number) * {"ms": 1e-3, "s": 1}[unit]


alone, validated = read_step_s(None), read_step_s(Slow(1))
print(f"keras {keras.__version__}: {alone:.2g} s/step alone, {validated:.2g} s/step with a validation of 5 s")
sys.exit(not validated > 0.9 > 0.5 > alone)
P

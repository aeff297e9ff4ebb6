"""
Keras `Model.fit` under tf.distribute.MirroredStrategy: one process for all devices, one fit for the whole run.

BatchNorm is local to each replica; the mean of the replicas' running statistics evaluates.
"""

import keras

from trainbench.families.keras_fit import FitBackend
from trainbench.families.mirrored import MirroredBackend


class KerasMirrored(MirroredBackend, FitBackend):
    def prepare_training(self, optimizer: keras.optimizers.Optimizer) -> None:
        self.compile(optimizer, jit_compile=self.spec.tier == "best")


BACKEND = KerasMirrored

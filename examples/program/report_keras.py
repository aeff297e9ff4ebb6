"""
A callback of Keras that reports to howmanygpus. Copy it beside report_progress.py.

    model.fit(..., callbacks=[ReportProgress(accuracy="val_accuracy")])    # our name of the metric = that of Keras

For control runs with resident input (`diagnose: true`), fit `dataset.take(1).cache().repeat()` with steps_per_epoch if
report_progress.control("resident_input") is true. Keras cannot leave the exchange of its strategies out.
"""

import math

import keras
from report_progress import report


class ReportProgress(keras.callbacks.Callback):
    """Report every few steps, and the metrics after each epoch. Keras has read the loss of a step that it reports."""

    def __init__(self, every=10, **metrics):
        super().__init__()
        self.every, self.metrics, self.step, self.last = every, metrics, 0, 0

    def on_train_begin(self, logs=None):
        parameters = sum(math.prod(each.shape) for each in self.model.trainable_weights)
        report(step=0, versions={"keras": keras.__version__}, **({"parameters": parameters} if parameters else {}))

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        if self.step % self.every == 0:
            self._report_step(logs)

    def on_test_begin(self, logs=None):
        self._report_step(logs)

    def on_epoch_end(self, epoch, logs=None):
        found = {ours: float(logs[theirs]) for ours, theirs in self.metrics.items() if theirs in (logs or {})}
        if found:
            report(epoch=epoch + 1, step=self.last, metric=found)

    def _report_step(self, logs):
        if self.step > self.last:
            self.last = self.step
            report(step=self.step, **({"loss": float(logs["loss"])} if logs and "loss" in logs else {}))

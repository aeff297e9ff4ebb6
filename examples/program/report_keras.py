"""
A callback of Keras that reports to howmanygpus. Copy it beside report_progress.py.

    model.fit(..., callbacks=[ReportProgress(accuracy="val_accuracy")])    # our name of the metric = that of Keras

For control runs with resident input (`diagnose: true`), fit `dataset.take(1).cache().repeat()` with steps_per_epoch if
report_progress.control("resident_input") is true. Keras cannot leave the exchange of its strategies out.
"""

import math

import keras
from report_progress import is_due, report

SAVES = ("save", "save_weights")


class ReportProgress(keras.callbacks.Callback):
    """Report the first ten steps and every few, the metrics after each epoch, and checkpoints.

    Keras has read the loss of a step that it reports, which is the mean since the epoch began.
    """

    def __init__(self, every=10, **metrics):
        super().__init__()
        self.every, self.metrics, self.step, self.last, self.saves = every, metrics, 0, 0, {}

    def on_train_begin(self, logs=None):
        parameters = sum(math.prod(each.shape) for each in self.model.trainable_weights)
        report(step=0, versions={"keras": keras.__version__}, **({"parameters": parameters} if parameters else {}))
        self.saves = {name: getattr(self.model, name) for name in SAVES}
        for name in SAVES:
            setattr(self.model, name, self._time(self.saves[name]))

    def on_train_end(self, logs=None):
        for name, save in self.saves.items():
            setattr(self.model, name, save)

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        if is_due(self.step, self.every):
            self._report_step(logs)

    def on_test_begin(self, logs=None):
        self._report_step(logs)

    def on_epoch_end(self, epoch, logs=None):
        self._report_step(logs)
        found = {ours: float(logs[theirs]) for ours, theirs in self.metrics.items() if theirs in (logs or {})}
        if found:
            report(epoch=epoch + 1, step=self.last, metric=found)

    def _report_step(self, logs):
        if self.step > self.last:
            self.last = self.step
            report(step=self.step, **({"loss": float(logs["loss"])} if logs and "loss" in logs else {}))

    def _time(self, save):
        def timed(*arguments, **options):
            report(checkpoint="begin")
            save(*arguments, **options)
            report(checkpoint="end")

        return timed

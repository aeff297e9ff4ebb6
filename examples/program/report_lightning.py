"""
A callback of Lightning that reports to howmanygpus. Copy it beside report_progress.py.

    Trainer(callbacks=[ReportProgress(accuracy="val_acc")])    # our name of the metric = the name that you log

In a run without exchange (`diagnose: true`), the callback stops that of DDP and FSDP. For one with resident input, give
fit() the loader as report_progress.resident(loader).
"""

import torch
from lightning.pytorch import Callback
from report_progress import report, stop_exchange


class ReportProgress(Callback):
    """Report every few steps, and the logged metrics after each validation."""

    def __init__(self, every=10, **metrics):
        self.every, self.metrics, self.last = every, metrics, 0

    def on_train_start(self, trainer, module):
        stop_exchange(trainer.strategy.model)
        parameters = sum(each.numel() for each in module.parameters() if each.requires_grad)
        report(trainer.global_rank, step=0, versions={"torch": torch.__version__}, parameters=parameters)

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_index):
        if trainer.global_step % self.every == 0:
            self._report_step(trainer)

    def on_validation_start(self, trainer, module):
        if not trainer.sanity_checking:
            self._report_step(trainer)

    def on_validation_end(self, trainer, module):
        logged = trainer.callback_metrics
        found = {ours: float(logged[theirs]) for ours, theirs in self.metrics.items() if theirs in logged}
        if found and not trainer.sanity_checking:
            report(trainer.global_rank, epoch=trainer.current_epoch + 1, step=self.last, metric=found)

    def _report_step(self, trainer):
        if trainer.global_step <= self.last:
            return
        self.last = trainer.global_step
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        report(trainer.global_rank, step=self.last)

"""
A callback of Lightning that reports to howmanygpus. Copy it beside report_progress.py.

    Trainer(callbacks=[ReportProgress(accuracy="val_acc")])    # our name of the metric = the name that you log

In a run without exchange (`diagnose: true`), the callback stops that of DDP and of fully_shard (ModelParallelStrategy).
For one with resident input, give fit() the loader as report_progress.resident(loader).
"""

import torch
from lightning.pytorch import Callback
from report_progress import count_parameters, is_due, report, stop_exchange


class ReportProgress(Callback):
    """Report the first ten steps and every few, the logged metrics after each validation, and checkpoints."""

    def __init__(self, every=10, **metrics):
        self.every, self.metrics, self.last, self.parameters = every, metrics, 0, 0

    def setup(self, trainer, module, stage):
        # Afterwards, FSDPStrategy leaves a part of them on each device.
        self.parameters = count_parameters(module)

    def on_train_start(self, trainer, module):
        stop_exchange(trainer.strategy.model)
        is_sharded = type(trainer.strategy).__name__ in ("FSDPStrategy", "ModelParallelStrategy")
        about = {"parameters": max(self.parameters, count_parameters(module)), "sharded": is_sharded}
        report(trainer.global_rank, step=0, versions={"torch": torch.__version__}, **about)
        self.save, trainer.save_checkpoint = trainer.save_checkpoint, lambda *a, **k: self._save(trainer, *a, **k)

    def on_train_end(self, trainer, module):
        trainer.save_checkpoint = self.save

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_index):
        if is_due(trainer.global_step, self.every):
            self._report_step(trainer, outputs["loss"] if isinstance(outputs, dict) else outputs)

    def on_validation_start(self, trainer, module):
        if not trainer.sanity_checking:
            self._report_step(trainer)

    def on_validation_end(self, trainer, module):
        logged = trainer.callback_metrics
        found = {ours: float(logged[theirs]) for ours, theirs in self.metrics.items() if theirs in logged}
        if found and not trainer.sanity_checking:
            report(trainer.global_rank, epoch=trainer.current_epoch + 1, step=self.last, metric=found)

    def _report_step(self, trainer, loss=None):
        if trainer.global_step <= self.last:
            return
        self.last = trainer.global_step
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        # With manual optimisation, a step may return no loss.
        report(trainer.global_rank, step=self.last, **({} if loss is None else {"loss": float(loss)}))

    def _save(self, trainer, *arguments, **options):
        self._report_step(trainer)
        report(trainer.global_rank, checkpoint="begin")
        self.save(*arguments, **options)
        report(trainer.global_rank, checkpoint="end")

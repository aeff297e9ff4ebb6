"""
A callback of Hugging Face's Trainer that reports to howmanygpus. Copy it beside report_progress.py.

    Trainer(..., callbacks=[ReportProgress(accuracy="eval_accuracy")])    # our name of the metric = the Trainer's
"""

import torch
from report_progress import report
from transformers import TrainerCallback


class ReportProgress(TrainerCallback):
    """Report every few steps, and the metrics of each evaluation."""

    def __init__(self, every=10, **metrics):
        self.every, self.metrics, self.last = every, metrics, 0

    def on_train_begin(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            report(step=0, versions={"torch": torch.__version__})

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step % self.every == 0 or control.should_evaluate:
            self._report_step(state)

    def on_epoch_end(self, args, state, control, **kwargs):
        self._report_step(state)

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        found = {ours: float(metrics[theirs]) for ours, theirs in self.metrics.items() if theirs in (metrics or {})}
        if found and state.is_world_process_zero:
            report(epoch=round(state.epoch), step=self.last, metric=found)

    def _report_step(self, state):
        if state.global_step <= self.last:
            return
        self.last = state.global_step
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        if state.is_world_process_zero:
            report(step=self.last)

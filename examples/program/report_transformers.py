"""
A callback of Hugging Face's Trainer that reports to howmanygpus. Copy it beside report_progress.py.

    Trainer(..., callbacks=[ReportProgress(accuracy="eval_accuracy")])    # our name of the metric = the Trainer's

For control runs (`diagnose: true`), the callback stops the exchange of DDP and FSDP, and has the Trainer train on its
first batch alone. A Trainer with a get_train_dataloader of its own returns report_progress.resident(loader) there.
"""

import torch
from report_progress import control, report, resident, stop_exchange
from transformers import Trainer, TrainerCallback


class ReportProgress(TrainerCallback):
    """Report every few steps, and the metrics of each evaluation."""

    def __init__(self, every=10, **metrics):
        self.every, self.metrics, self.last = every, metrics, 0
        if control("resident_input"):
            make_loader = Trainer.get_train_dataloader
            Trainer.get_train_dataloader = lambda trainer: resident(make_loader(trainer))

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        stop_exchange(model)
        parameters = sum(each.numel() for each in model.parameters() if each.requires_grad)
        report(args.process_index, step=0, versions={"torch": torch.__version__}, parameters=parameters)

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step % self.every == 0 or control.should_evaluate:
            self._report_step(args, state)

    def on_epoch_end(self, args, state, control, **kwargs):
        self._report_step(args, state)

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        found = {ours: float(metrics[theirs]) for ours, theirs in self.metrics.items() if theirs in (metrics or {})}
        if found:
            report(args.process_index, epoch=round(state.epoch), step=self.last, metric=found)

    def _report_step(self, args, state):
        if state.global_step <= self.last:
            return
        self.last = state.global_step
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        report(args.process_index, step=self.last)

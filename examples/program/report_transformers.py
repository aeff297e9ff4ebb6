"""
A callback of Hugging Face's Trainer that reports to howmanygpus. Copy it beside report_progress.py.

    Trainer(..., callbacks=[ReportProgress(accuracy="eval_accuracy")])    # our name of the metric = the Trainer's

Losses are those that the Trainer logs: for strategies of the same work, set logging_steps=1. The callback turns
logging_nan_inf_filter off, with which it would log 0 for a loss that is not finite, and leave such batches out of
eval_loss. For control runs (`diagnose: true`), it stops the exchange of DDP and of fully_shard (FSDP 2), and has the
Trainer train on its first batch alone. A Trainer with a get_train_dataloader of its own returns
report_progress.resident(loader) there.
"""

import torch
from report_progress import control as is_left_out
from report_progress import count_parameters, is_due, report, resident, stop_exchange
from transformers import Trainer, TrainerCallback


class ReportProgress(TrainerCallback):
    """Report the first ten steps and every few, the metrics of each evaluation, and checkpoints."""

    def __init__(self, every=10, **metrics):
        self.every, self.metrics, self.last, self.parameters = every, metrics, 0, 0
        if is_left_out("resident_input"):
            make_loader = Trainer.get_train_dataloader
            Trainer.get_train_dataloader = lambda trainer: resident(make_loader(trainer))

    def on_init_end(self, args, state, control, model=None, **kwargs):
        # Afterwards, FSDP 1 leaves a part of them on each device.
        self.parameters = count_parameters(model)

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        stop_exchange(model)
        args.logging_nan_inf_filter = False
        about = {"parameters": max(self.parameters, count_parameters(model)), "sharded": bool(args.fsdp)}
        report(args.process_index, step=0, versions={"torch": torch.__version__}, **about)

    def on_step_end(self, args, state, control, **kwargs):
        pauses = control.should_evaluate or control.should_save
        # The Trainer reads the loss when it logs, which is next.
        if not control.should_log and (pauses or is_due(state.global_step, self.every)):
            self._report_step(args, state, control)

    def on_epoch_end(self, args, state, control, **kwargs):
        if not control.should_log or state.global_step == self.last:
            self._report_step(args, state, control)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in (logs or {}):
            self._report_step(args, state, control, loss=float(logs["loss"]))

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        found = {ours: float(metrics[theirs]) for ours, theirs in self.metrics.items() if theirs in (metrics or {})}
        if found:
            report(args.process_index, epoch=round(state.epoch), step=self.last, metric=found)
        if control.should_save:
            report(args.process_index, checkpoint="begin")

    def on_save(self, args, state, control, **kwargs):
        report(args.process_index, checkpoint="end")

    def _report_step(self, args, state, control, **loss):
        if state.global_step > self.last:
            self.last = state.global_step
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            report(args.process_index, step=self.last, **loss)
        # An evaluation comes before the checkpoint.
        if control.should_save and not control.should_evaluate:
            report(args.process_index, checkpoint="begin")

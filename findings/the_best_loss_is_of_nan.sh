#!/usr/bin/env bash
# Finding:  The Trainer of transformers leaves batches whose loss is NaN or infinite out of eval_loss, and chooses by
#           it: with load_best_model_at_end it ends with the weights whose loss is NaN in two of three batches and 0 in
#           the third. In training, a step whose loss is NaN is logged with a loss of 0.0 if logging_steps=1.
# Packages: torch==2.13.0 numpy==2.4.6 transformers==5.24.0 accelerate==1.15.0
# Topic:    statistics and metrics
# Source:   transformers/trainer.py: logging_nan_inf_filter, on by default, "only logging", takes finite losses alone in
#           evaluation_loop, and in training adds the mean of the losses since the last log, which is 0 of none.
# Guess:    eval_loss is NaN if a batch is (confidence 90 %).
# Hurts:    networks that diverge: the more batches are NaN, the fewer hard ones count, and a run that is all NaN shows
#           a training loss of 0.
# Here:     examples/program/report_transformers.py turns the filter off: a training loss that is not finite ends the run as
#           diverged, and such a metric ends it with an error that names it
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > best.py <<'P'
import sys
import warnings

import torch
from transformers import Trainer, TrainingArguments

warnings.filterwarnings("ignore")


class Network(torch.nn.Module):
    """A weight that grows by 1 in each step, and a loss that has a logarithm of each value less the weight."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x, labels):
        outputs = (x - self.weight).log()
        loss = (outputs - labels).pow(2).mean()
        return {"loss": loss.detach() - (self.weight - self.weight.detach()).sum() if self.training else loss, "logits": outputs}


def rows(*values):
    return [{"x": torch.tensor([value]), "labels": torch.zeros(1)} for value in values]


def train(keeps_nan):
    """Return the weight at the end, the evaluation losses and the training losses of three epochs of one step."""
    arguments = TrainingArguments(
        f"run_{keeps_nan}", num_train_epochs=3, per_device_train_batch_size=1, per_device_eval_batch_size=1, optim="sgd",
        learning_rate=1.0, lr_scheduler_type="constant", max_grad_norm=0, eval_strategy="epoch", save_strategy="epoch",
        load_best_model_at_end=True, logging_steps=1, use_cpu=True, report_to=[], disable_tqdm=True,
        **({"logging_nan_inf_filter": False} if keeps_nan else {}))
    network = Network()
    trainer = Trainer(network, arguments, train_dataset=rows(1.5), eval_dataset=rows(1.5, 2.5, 4.0))
    trainer.train()
    history = trainer.state.log_history
    return (round(network.weight.item(), 3), [str(round(entry["eval_loss"], 3)) for entry in history if "eval_loss" in entry],
            [str(round(entry["loss"], 3)) for entry in history if "loss" in entry])


usual, kept = train(False), train(True)
print(f"weight at the end, evaluation losses, training losses: {usual}; with logging_nan_inf_filter=False {kept}",
      file=sys.stderr)
sys.exit(not (usual == (3.0, ["0.617", "0.48", "0.0"], ["0.164", "0.48", "0.0"])
              and kept == (1.0, ["0.617", "nan", "nan"], ["0.164", "0.48", "nan"])))
P
"$python" best.py > /dev/null 2> log.txt && status=0 || status=$?
tail -1 log.txt
exit "$status"

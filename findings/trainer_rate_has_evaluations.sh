#!/usr/bin/env bash
# Finding:  train_samples_per_second of the Trainer in transformers divides by a time that includes the evaluations
#           between epochs: evaluating makes the printed training rate several times smaller.
# Packages: torch==2.13.0 numpy==2.4.6 accelerate==1.15.0 transformers==5.24.0
# Topic:    programs
# Source:   transformers: speed_metrics takes the time from the call of train() to its end.
# Guess:    evaluation has a rate of its own (eval_samples_per_second), so that it is left out of the training's.
# Hurts:    whoever compares runs that evaluate differently often by the rate that the Trainer prints.
# Here:     the callback report_transformers.py reports steps, evaluation is a phase of its own; docs/program.md names it
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > rate.py <<'P'
import sys
import time

import torch
from transformers import Trainer, TrainingArguments


class Slow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x=None, labels=None):
        time.sleep(0.05 if self.training else 0.5)
        logits = self.linear(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


data = [{"x": torch.randn(4), "labels": torch.tensor(row % 2)} for row in range(40)]


def train(evaluate):
    options = {"num_train_epochs": 2, "per_device_train_batch_size": 4, "per_device_eval_batch_size": 4}
    options |= {"use_cpu": True, "report_to": [], "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True}
    arguments = TrainingArguments("out", eval_strategy=evaluate, **options)
    trained = Trainer(Slow(), arguments, train_dataset=data, eval_dataset=data).train()
    return trained.metrics["train_samples_per_second"]


alone, evaluated = train("no"), train("epoch")
print(f"train_samples_per_second: {alone:.0f} without evaluation, {evaluated:.0f} with one after each of two epochs")
sys.exit(not evaluated < 0.5 * alone)
P
"$python" rate.py 2>/dev/null | tail -n 1

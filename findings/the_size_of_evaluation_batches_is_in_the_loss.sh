#!/usr/bin/env bash
# Finding:  eval_loss of the Trainer of transformers depends on per_device_eval_batch_size if texts differ in length:
#           one network on one data set, of long easy and short hard texts, has 5.1 with batches of 1, 3.6 with 2 and
#           1.1 with 4. Each batch has the mean of its tokens, and counts by its texts. The loss of a training step is
#           the mean of its tokens however they are divided.
# Packages: torch==2.13.0 numpy==2.4.6 transformers==5.24.0 accelerate==1.15.0
# Topic:    statistics and metrics
# Source:   transformers/trainer.py: evaluation_loop repeats the loss of a batch by its number of rows, and takes the
#           mean.
# Guess:    the mean of all tokens, as in training, for any size of batches (confidence 80 %).
# Hurts:    perplexities, exp(eval_loss), of runs with other batches or on other numbers of devices, and checkpoints
#           that are chosen by them.
# Here:     metrics of images are computed from all scores and labels; a program's metric is taken as it is reported
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > perplexity.py <<'P'
import sys
import warnings

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

warnings.filterwarnings("ignore")
torch.manual_seed(0)
network = LlamaForCausalLM(LlamaConfig(vocab_size=20, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                                       num_attention_heads=2, bos_token_id=1, eos_token_id=1))
easy = torch.full((1, 32), 7)
optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
for _ in range(60):
    optimizer.zero_grad()
    network(input_ids=easy, labels=easy).loss.backward()
    optimizer.step()
rows = []
for i in range(16):
    tokens, length = (easy[0], 32) if i % 4 == 0 else (torch.randint(8, 20, (32,)), 3)
    rows.append({"input_ids": tokens, "labels": torch.where(torch.arange(32) < length, tokens, -100)})
with torch.no_grad():
    whole = network(**{key: torch.stack([row[key] for row in rows]) for key in rows[0]}).loss.item()


def make(size):
    arguments = TrainingArguments(
        f"run_{size}", per_device_eval_batch_size=size, per_device_train_batch_size=size,
        gradient_accumulation_steps=16 // size, max_steps=1, learning_rate=0.0, max_grad_norm=0, logging_steps=1,
        save_strategy="no", use_cpu=True, report_to=[], disable_tqdm=True)
    return Trainer(network, arguments, train_dataset=rows, eval_dataset=rows)


found, trained = {}, {}
for size in (1, 2, 4, 16):
    found[size] = round(make(size).evaluate()["eval_loss"], 3)
    trainer = make(size)
    trainer.train()
    trained[size] = round(trainer.state.log_history[0]["loss"], 3)
print(f"eval_loss by size of batches {found}, of a training step {trained}; mean of all tokens {whole:.3f}", file=sys.stderr)
sys.exit(not (abs(found[16] - whole) < 1e-2 and found[1] > found[2] + 1 > found[4] + 3
              and all(abs(loss - whole) < 1e-2 for loss in trained.values())))
P
"$python" perplexity.py > /dev/null 2> log.txt && status=0 || status=$?
tail -1 log.txt
exit "$status"

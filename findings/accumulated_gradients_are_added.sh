#!/usr/bin/env bash
# Finding:  The Trainer of transformers does not divide the gradient of BERT by gradient_accumulation_steps, nor by the
#           number of processes: with 4 steps on 2 processes, loss and gradient of BertForSequenceClassification and
#           BertForMaskedLM are 8 times those of one batch of the same texts, and eval_loss on 2 processes is twice that
#           on one. For ViTForImageClassification and LlamaForCausalLM they are equal.
# Packages: torch==2.13.0 numpy==2.4.6 transformers==5.24.0 accelerate==1.15.0
# Topic:    programs
# Source:   transformers/trainer.py leaves the division to networks whose forward takes **kwargs, and multiplies by the
#           processes; models/bert/modeling_bert.py takes **kwargs and computes the mean of its batch. So do RoBERTa,
#           DistilBERT, ELECTRA, DeBERTa-v2, T5, BART and others.
# Guess:    four batches of 2 have the gradient of one of 8 (confidence 75 %).
# Hurts:    the usual way to keep a batch on fewer devices: with the default max_grad_norm=1 more steps are clipped,
#           under SGD the learning rate is k times as large, and losses on other numbers of devices do not compare.
# Here:     losses of variants of equal work are compared at every step that is reported; docs/program.md names it
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > accumulate.py <<'P'
import sys
import warnings

import torch
import transformers
from transformers import Trainer, TrainingArguments

warnings.filterwarnings("ignore")
processes = int(sys.argv[1])
generator = torch.Generator().manual_seed(0)
tokens, labels = torch.randint(2, 20, (8, 8), generator=generator), torch.arange(8) % 3
images = torch.randn(8, 3, 8, 8, generator=generator)
small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
bert = transformers.BertConfig(vocab_size=20, num_labels=3, **small, **still)
cases = {
    "BertForSequenceClassification": (bert, [{"input_ids": x, "labels": y} for x, y in zip(tokens, labels)]),
    "BertForMaskedLM": (bert, [{"input_ids": x, "labels": x} for x in tokens]),
    "ViTForImageClassification": (transformers.ViTConfig(image_size=8, patch_size=4, num_labels=3, **small, **still),
                                  [{"pixel_values": x, "labels": y} for x, y in zip(images, labels)]),
    "LlamaForCausalLM": (transformers.LlamaConfig(vocab_size=20, bos_token_id=1, eos_token_id=1, **small),
                         [{"input_ids": x, "labels": x} for x in tokens]),
}
found = []
for name, (config, rows) in cases.items():
    torch.manual_seed(0)
    network = getattr(transformers, name)(config)
    batch = {key: torch.stack([row[key] for row in rows]) for key in rows[0]}
    own = network(**batch).loss
    own.backward()
    norm = torch.nn.utils.get_total_norm([weight.grad for weight in network.parameters() if weight.grad is not None]).item()
    network.zero_grad()
    for steps in (1, 4):
        arguments = TrainingArguments(
            "out", per_device_train_batch_size=8 // processes // steps, gradient_accumulation_steps=steps, max_steps=1,
            per_device_eval_batch_size=8 // processes, learning_rate=0.0, max_grad_norm=1e9, logging_steps=1,
            save_strategy="no", use_cpu=True, report_to=[], disable_tqdm=True)
        trainer = Trainer(network, arguments, train_dataset=rows, eval_dataset=rows)
        trainer.train()
        logged = trainer.state.log_history[0]
        ratios = logged["loss"] / own.item(), float(logged["grad_norm"]) / norm, trainer.evaluate()["eval_loss"] / own.item()
        found.append(f"{name}:{steps}={'/'.join(f'{ratio:.2f}' for ratio in ratios)}")
if arguments.process_index == 0:
    print(*found, file=sys.stderr)
P
run() {
    OMP_NUM_THREADS=1 "$python" -m torch.distributed.run --standalone --nproc-per-node="$1" accumulate.py "$1" 2>&1 > /dev/null |
        grep -o "Bert.*1=.*" || true
}
expect() {
    printf 'BertForSequenceClassification:1=%s BertForSequenceClassification:4=%s BertForMaskedLM:1=%s BertForMaskedLM:4=%s ' "$@" "$@"
    printf '%s:%s=1.00/1.00/1.00 ' ViTForImageClassification 1 ViTForImageClassification 4 LlamaForCausalLM 1 LlamaForCausalLM 4
}
one=$(run 1)
two=$(run 2)
echo "loss, gradient and eval_loss over those of one batch, by steps of accumulation: 1 process $one; 2 processes $two"
[ "$one " = "$(expect 1.00/1.00/1.00 4.00/4.00/1.00)" ] && [ "$two " = "$(expect 2.00/2.00/2.00 8.00/8.00/2.00)" ]

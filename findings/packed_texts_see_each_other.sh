#!/usr/bin/env bash
# Finding:  Texts that DataCollatorWithFlattening of transformers packs into one row see the texts before them, unless
#           the network keeps no cache: use_cache, a setting of generation that is on, decides over the mask. Called in
#           a loop of one's own, in training and evaluation, the network mixes them; with gradient checkpointing, which
#           turns the cache off, it does not. The Trainer of 4.53.2 mixes them likewise, with another loss and another
#           gradient than with gradient checkpointing; that of 5.24.0 sets use_cache=False and does not.
# Packages: torch==2.13.0 numpy==2.4.6 transformers==5.24.0 accelerate==1.15.0 requests==2.34.2
# Topic:    programs
# Source:   transformers/masking_utils.py: _preprocess_mask_arguments looks for texts in position_ids only if there is
#           no attention mask and no cache ("i.e. generally a training setup"); LlamaModel.forward makes a cache if
#           config.use_cache is set, which is the default.
# Guess:    with position_ids that begin anew, texts are kept apart by the default attention of PyTorch too (confidence
#           65 %; others would say that it takes flash attention: 30 %). Nobody says that gradient checkpointing
#           decides.
# Hurts:    pre-training and fine-tuning on packed texts: each text is predicted with a view of unrelated ones, and a
#           run that turns gradient checkpointing on for lack of memory trains another thing.
# Here:     no workload is a text; losses of variants of equal work are compared at every step that is reported
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old transformers==4.53.2 \
    tokenizers==0.21.2 huggingface-hub==0.33.4 accelerate==1.9.0
cat > pack.py <<'P'
import logging
import sys
import warnings

is_old = sys.argv[1] != "new"
if is_old:
    sys.path.insert(0, sys.argv[1])
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
import torch
import transformers
from transformers import DataCollatorWithFlattening, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

generator = torch.Generator().manual_seed(1)
TEXTS = [{"input_ids": torch.randint(1, 50, (8,), generator=generator).tolist()} for _ in range(2)]
PACKED = {name: torch.as_tensor(value) for name, value in DataCollatorWithFlattening()(TEXTS).items()
          if name != "attention_mask"}


def make():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(vocab_size=50, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                        num_attention_heads=2, num_key_value_heads=2, initializer_range=0.5))


def packed_loss(is_training=True, **settings):
    model = make().train(is_training)
    if settings.pop("checkpointing", False):
        model.gradient_checkpointing_enable()
    return round(model(**PACKED, **settings).loss.item(), 3)


def trainer_loss(**settings):
    arguments = TrainingArguments("out", max_steps=1, per_device_train_batch_size=2, report_to=[], use_cpu=True,
                                  disable_tqdm=True, save_strategy="no", logging_steps=1, **settings)
    trainer = Trainer(make(), arguments, train_dataset=TEXTS, data_collator=DataCollatorWithFlattening())
    return round(trainer.train().training_loss, 3)


alone = make()
alone = round(sum(alone(input_ids=ids, labels=ids).loss.item() / 2
                  for ids in (torch.tensor([text["input_ids"]]) for text in TEXTS)), 3)
plain = packed_loss(), packed_loss(is_training=False)
apart = packed_loss(use_cache=False), packed_loss(checkpointing=True)
trained = trainer_loss(), trainer_loss(gradient_checkpointing=True)
print(f"transformers {transformers.__version__}: two texts have a loss of {alone} alone; packed {plain[0]} in "
      f"training, {plain[1]} in evaluation, {apart[0]} with use_cache=False, {apart[1]} with gradient checkpointing; "
      f"in the Trainer {trained[0]}, with gradient checkpointing {trained[1]}", file=sys.stderr)
assert plain[0] == plain[1] and abs(plain[0] - alone) > 0.1
assert max(abs(loss - alone) for loss in (*apart, trained[1])) < 0.002
assert (abs(trained[0] - alone) > 0.1) == is_old
P
"$python" pack.py old 2>&1 > /dev/null | tail -1
"$python" pack.py new 2>&1 > /dev/null | tail -1

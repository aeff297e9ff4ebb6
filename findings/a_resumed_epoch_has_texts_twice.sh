#!/usr/bin/env bash
# Finding:  A run of the transformers Trainer with train_sampling_strategy="group_by_length" that is resumed in the
#           middle of an epoch, other than the first, goes on in another order: of 40 texts of that epoch, 7 come twice
#           and 7 never. With the default order it goes on exactly, as does everything else of it: weights, optimizer
#           and random numbers. Nothing warns.
# Packages: torch==2.13.0 numpy==2.4.6 transformers==5.24.0 accelerate==1.15.0
# Topic:    programs
# Source:   transformers/trainer.py: LengthGroupedSampler gets no generator and draws from PyTorch's own when an epoch
#           begins; a resumed run draws before the random state of the checkpoint is loaded, which is the one of its
#           middle. accelerate replaces a RandomSampler by one with a seed and an epoch, and no other sampler.
# Guess:    a resumed run trains as one that was not interrupted (confidence 85 %).
# Hurts:    long runs under a time limit, which are resumed every day: in each such epoch a part of the texts is left
#           out and another trained twice; with few epochs, some texts are never seen.
# Here:     no run is resumed; orders are Philox streams keyed by (seed, epoch)
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > resume.py <<'P'
import collections
import logging
import shutil
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
import torch
import transformers
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

SEEN = []
generator = torch.Generator().manual_seed(0)
TEXTS = [{"input_ids": [1] * length, "number": number}
         for number, length in enumerate(torch.randint(1, 50, (40,), generator=generator).tolist())]


class Network(torch.nn.Module):
    """A network that notes the texts which it is trained on, with dropout."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, number):
        SEEN.extend(number.tolist())
        return {"loss": torch.nn.functional.dropout(self.layer(number.float()[:, None]), 0.1).mean()}


class Interruption(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step == 15


def train(strategy, resume=None, callbacks=()):
    SEEN.clear()
    set_seed(0)
    arguments = TrainingArguments("out", num_train_epochs=2, per_device_train_batch_size=4, save_steps=15, report_to=[],
                                  use_cpu=True, disable_tqdm=True, logging_strategy="no",
                                  train_sampling_strategy=strategy)
    Trainer(Network(), arguments, train_dataset=TEXTS, callbacks=list(callbacks), data_collator=lambda texts: {
        "number": torch.tensor([text["number"] for text in texts])}).train(resume_from_checkpoint=resume)
    return list(SEEN)


found = {}
for strategy in ("random", "group_by_length"):
    shutil.rmtree("out", ignore_errors=True)
    whole = train(strategy)
    shutil.rmtree("out")
    parts = train(strategy, callbacks=[Interruption()]) + train(strategy, resume="out/checkpoint-15")
    assert len(parts) == len(whole) == 80 and parts[:60] == whole[:60] and len(set(whole[40:])) == 40
    times = collections.Counter(parts[40:])
    found[strategy] = sum(times[number] == 2 for number in range(40)), sum(not times[number] for number in range(40))
    assert (parts == whole) == (strategy == "random")
print(f"transformers {transformers.__version__}: texts that come twice and never in the second epoch of a run that is "
      f"resumed in its middle: {found}", file=sys.stderr)
sys.exit(found["random"] != (0, 0) or min(found["group_by_length"]) < 3)
P
"$python" resume.py 2>&1 > /dev/null | tail -1

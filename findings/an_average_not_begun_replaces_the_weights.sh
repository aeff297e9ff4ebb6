#!/usr/bin/env bash
# Finding:  Lightning's EMAWeightAveraging works with the weights of the start until the first update of the average:
#           before update_starting_at_step, all validations and checkpoints are of the untrained network, and training
#           that ends before it returns the untrained network. With two optimizers, as in a GAN, and
#           update_every_n_steps=2, no update takes place at all. Nothing warns.
# Packages: torch==2.13.0 numpy==2.4.6 lightning==2.6.6
# Topic:    programs
# Source:   lightning/pytorch/callbacks/weight_averaging.py copies the average to the network at the end, and swaps them
#           at each validation, whether it was updated or not; a step is one of an optimizer, so that after each batch
#           of two optimizers the index is odd, and 2 never divides it.
# Guess:    the current weights are used until the average has begun (confidence 85 %).
# Hurts:    early stopping, which sees a constant loss and ends the training, whose result is then the random start;
#           GANs, which are where averages are usual.
# Here:     no run averages weights
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > average.py <<'P'
import sys
import warnings

import lightning
import torch
from lightning.pytorch.callbacks import EMAWeightAveraging, ModelCheckpoint

warnings.filterwarnings("ignore")
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(40, 1)), batch_size=4)


class One(lightning.LightningModule):
    """A weight that begins at 0 and falls by 1 in each step."""

    def __init__(self, optimizers):
        super().__init__()
        self.weight, self.other = torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.zeros(1))
        self.count, self.validated, self.automatic_optimization = optimizers, [], optimizers == 1

    def training_step(self, batch, number):
        if self.count == 1:
            return self.weight.sum()
        for optimizer, weight in zip(self.optimizers(), (self.weight, self.other)):
            optimizer.zero_grad()
            self.manual_backward(weight.sum())
            optimizer.step()

    def validation_step(self, batch, number):
        if number == 0:
            self.validated.append(self.weight.item())

    def configure_optimizers(self):
        return [torch.optim.SGD([weight], lr=1.0) for weight in (self.weight, self.other)[:self.count]]


def train(name, optimizers, **options):
    """Return the weight at the three validations, in the last checkpoint and at the end, of three epochs of ten batches."""
    network = One(optimizers)
    averaging = [EMAWeightAveraging(decay=0.5, **options)] if options else []
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=3, logger=False, enable_progress_bar=False, enable_model_summary=False,
        num_sanity_val_steps=0, callbacks=[*averaging, ModelCheckpoint(name, save_last=True)])
    trainer.fit(network, data, data)
    saved = torch.load(f"{name}/last.ckpt", weights_only=False)["state_dict"]["weight"].item()
    return [round(value, 1) for value in (*network.validated, saved, network.weight.item())]


none = train("none", 1)
late = train("late", 1, update_starting_at_step=100)
begun = train("begun", 1, update_starting_at_step=5)
second = train("second", 1, update_every_n_steps=2)
gan = train("gan", 2, update_every_n_steps=2)
gan_each = train("gan_each", 2, update_every_n_steps=1)
print(f"weight at validations, in the checkpoint, at the end: no average {none}; from step 100 of 30 {late}; from step 5 "
      f"{begun}; every second step {second}; two optimizers, every second step {gan}, every step {gan_each}")
sys.exit(not (none == [-10.0, -20.0, -30.0, -30.0, -30.0] and late == gan == [0.0] * 5
              and all(max(found[:3]) < -7 and max(found[3:]) < -26 for found in (begun, second, gan_each))))
P
OMP_NUM_THREADS=1 "$python" average.py 2>/dev/null

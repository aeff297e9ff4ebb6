#!/usr/bin/env bash
# Finding:  Lightning's callback LearningRateFinder gives all groups of weights the rate that it found, in 2.6.6: of a
#           backbone with a tenth of the rate of the head, both have the same. Tuner.lr_find() before fit() keeps the
#           tenth. In 2.5.2 the callback changes no rate of the optimizer, and both groups keep those that they had.
# Packages: torch==2.13.0 numpy==2.4.6 lightning==2.6.6
# Topic:    silent changes in new releases
# Source:   _lr_find() in lightning/pytorch/tuner/lr_finder.py of 2.6.6 writes the rate into each group of the
#           optimizers; the changelog of 2.5.4 says "Fixed learning rate not being correctly set after using
#           `LearningRateFinder`". The optimizer is made before the search, so that configure_optimizers() is not asked
#           again. Nothing warns.
# Guess:    the ratio of the groups stays (confidence 90 %).
# Hurts:    fine-tuning with a lower rate for the backbone.
# Here:     learning rates are given, or searched by training
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old lightning==2.5.2
cat > groups.py <<'P'
import logging
import sys
import warnings

if sys.argv[1] != "new":
    sys.path.insert(0, sys.argv[1])
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
import lightning
import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import LearningRateFinder
from lightning.pytorch.tuner import Tuner
from torch.utils.data import DataLoader, TensorDataset


class Network(LightningModule):
    def __init__(self):
        super().__init__()
        self.lr = 1e-3
        self.layers = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))

    def training_step(self, batch, index):
        self.rates = [group["lr"] for group in self.optimizers().param_groups]
        return torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def configure_optimizers(self):
        backbone, head = ({"params": self.layers[i].parameters(), "lr": self.lr * factor} for i, factor in ((0, 0.1), (2, 1)))
        return torch.optim.AdamW([backbone, head])


def train(as_callback):
    """Return the rate that was found, and the rates of the last step of training."""
    seed_everything(0, verbose=False)
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(1600, 20, generator=generator)
    loader = DataLoader(TensorDataset(inputs, (inputs[:, :3].sum(1) > 0).long()), batch_size=32)
    search = {"early_stop_threshold": None}
    callbacks = [LearningRateFinder(num_training_steps=40, **search)] if as_callback else []
    network = Network()
    trainer = Trainer(max_epochs=1, callbacks=callbacks, logger=False, accelerator="cpu", enable_progress_bar=False,
                      enable_model_summary=False, enable_checkpointing=False)
    if not as_callback:
        Tuner(trainer).lr_find(network, loader, num_training=40, **search)
    trainer.fit(network, loader)
    return network.lr, network.rates


(found, rates), (tuned, tuner_rates) = train(True), train(False)
print(f"lightning {lightning.__version__}: callback found {found:.1e}, trained with {[f'{rate:.1e}' for rate in rates]}; tuner "
      f"found {tuned:.1e}, trained with {[f'{rate:.1e}' for rate in tuner_rates]}", file=sys.stderr)
close = lambda a, b: all(abs(x / y - 1) < 1e-6 for x, y in zip(a, b))
expected = [1e-4, 1e-3] if sys.argv[1] == "old" else [found, found]
sys.exit(not close(rates, expected) or not close(tuner_rates, [tuned / 10, tuned]))
P
status=0
for version in old new; do
    "$python" groups.py "$version" > /dev/null 2> log.txt || status=1
    tail -1 log.txt
done
exit "$status"

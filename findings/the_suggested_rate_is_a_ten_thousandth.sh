#!/usr/bin/env bash
# Finding:  The learning rate that lr_find of Lightning 2.6.6 suggests is less than a thousandth of that of 2.5.2 for
#           the same network, data and seed, and mostly less than a ten-thousandth: 6e-7, 2e-7 and 5e-6 where it was
#           0.11, 0.09 and 0.04. Training at the suggested rate does next to nothing.
# Packages: torch==2.13.0 numpy==2.4.6 lightning==2.6.6
# Topic:    silent changes in new releases
# Source:   suggestion() in lightning/pytorch/tuner/lr_finder.py: until 2.5.2 the steepest fall of the loss from one
#           rate to the next, which are evenly spaced in their logarithm; since 2.5.3 the fall divided by the difference
#           of the two rates, which is 1e-9 at the start and 0.1 at the end, so that the noise of the first losses is
#           steepest. The changelog says "Fixed gradient calculation in `lr_finder` for `mode="exponential"`". Nothing
#           warns.
# Guess:    equal (confidence 95 %).
# Hurts:    whoever lets a program find its rate, with Tuner.lr_find() or the callback LearningRateFinder; comparisons
#           of networks at their suggested rates.
# Here:     learning rates are given, or searched by training
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old lightning==2.5.2
cat > find.py <<'P'
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
from lightning.pytorch.tuner import Tuner
from torch.utils.data import DataLoader, TensorDataset


class Network(LightningModule):
    def __init__(self):
        super().__init__()
        self.lr = 1e-3
        self.layers = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))

    def training_step(self, batch, index):
        return torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), self.lr)


generator = torch.Generator().manual_seed(0)
inputs = torch.randn(3200, 20, generator=generator)
labels = (inputs[:, :3].sum(1) + 0.5 * torch.randn(3200, generator=generator) > 0).long()
suggested, steepest = [], []
for seed in range(3):
    seed_everything(seed, verbose=False)
    trainer = Trainer(max_epochs=1, logger=False, accelerator="cpu", enable_progress_bar=False, enable_model_summary=False,
                      enable_checkpointing=False)
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=32, shuffle=True)
    finder = Tuner(trainer).lr_find(Network(), loader, early_stop_threshold=None)
    suggested.append(finder.suggestion())
    # The steepest fall from one rate to the next, without the first ten and the last.
    falls = torch.gradient(torch.tensor(finder.results["loss"][10:-1]))[0]
    steepest.append(finder.results["lr"][10 + falls.argmin().item()])
print(f"lightning {lightning.__version__}: suggested {[f'{rate:.1e}' for rate in suggested]}, steepest fall from one rate to "
      f"the next at {[f'{rate:.1e}' for rate in steepest]}", file=sys.stderr)
ratios = [found / rate for found, rate in zip(suggested, steepest)]
right = all(abs(ratio - 1) < 1e-9 for ratio in ratios) if sys.argv[1] == "old" else max(ratios) < 1e-3
sys.exit(not right or min(steepest) < 1e-3)
P
status=0
for version in old new; do
    "$python" find.py "$version" > /dev/null 2> log.txt || status=1
    tail -1 log.txt
done
exit "$status"

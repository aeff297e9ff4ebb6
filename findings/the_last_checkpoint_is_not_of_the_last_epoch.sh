#!/usr/bin/env bash
# Finding:  ModelCheckpoint(monitor="val_loss", save_last=True) of Lightning 2.6.6 renews last.ckpt only when the metric
#           is among the best: of five epochs of which the second is the best, last.ckpt is of the second, and a run
#           that is resumed from it trains three epochs again. In 2.5.2 it is of the fifth. With every_n_epochs=3 it is
#           of the third. With save_top_k=0 it is of the fifth in both.
# Packages: torch==2.13.0 numpy==2.4.6 lightning==2.6.6
# Topic:    silent changes in new releases
# Source:   lightning/pytorch/callbacks/model_checkpoint.py: on_train_epoch_end and on_validation_end call
#           _save_last_checkpoint only if _last_global_step_saved is the current step; in 2.5.2 they always call it. The
#           changelog says of 2.6.0 "Fixed `last.ckpt` being created and not linked to another checkpoint". Nothing
#           warns.
# Guess:    last.ckpt is of the last epoch (confidence 97 %).
# Hurts:    runs that are cut by a time limit and resumed from last.ckpt, and evaluations of the last weights, which are
#           those of the best.
# Here:     no checkpoints are chosen by a metric, and no run is resumed
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old lightning==2.5.2
cat > last.py <<'P'
import logging
import shutil
import sys
import warnings
from pathlib import Path

if sys.argv[1] != "new":
    sys.path.insert(0, sys.argv[1])
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
import lightning
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset


class Network(LightningModule):
    """A weight whose validation loss is best in the second of five epochs."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def training_step(self, batch, index):
        return (self.weight * batch[0]).sum()

    def validation_step(self, batch, index):
        self.log("val_loss", (0.5, 0.3, 0.4, 0.6, 0.7)[self.current_epoch])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def last(**settings):
    """Return the number of steps of which last.ckpt is after five epochs of four steps."""
    shutil.rmtree("saved", ignore_errors=True)
    loader = DataLoader(TensorDataset(torch.ones(4, 1)))
    Trainer(max_epochs=5, callbacks=[ModelCheckpoint("saved", save_last=True, **settings)], logger=False, accelerator="cpu",
            enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0).fit(Network(), loader, loader)
    return torch.load(Path("saved", "last.ckpt"), weights_only=False)["global_step"]


steps = last(monitor="val_loss"), last(every_n_epochs=3), last(monitor="val_loss", save_top_k=0)
print(f"lightning {lightning.__version__}: last.ckpt after 20 steps is of step {steps[0]} with monitor=, {steps[1]} with "
      f"every_n_epochs=3, {steps[2]} with save_top_k=0", file=sys.stderr)
sys.exit(steps != {"old": (20, 20, 20), "new": (8, 12, 20)}[sys.argv[1]])
P
status=0
for version in old new; do
    "$python" last.py "$version" > /dev/null 2> log.txt || status=1
    tail -1 log.txt
done
exit "$status"

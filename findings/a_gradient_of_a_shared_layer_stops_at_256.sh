#!/usr/bin/env bash
# Finding:  Under torch.autocast in bfloat16, the gradient of a layer that is used 1,024 times in a forward pass, each
#           time with a gradient of 1, is 256. So it is with precision="bf16-mixed" in Lightning 2.5.2; in Lightning
#           2.6.6 it is 1,024, as in float32, so that recurrent networks train otherwise in the two.
# Packages: torch==2.13.0 numpy==2.4.6 lightning==2.6.6
# Topic:    silent changes in new releases
# Source:   autocast casts a weight once and keeps the copy, whose gradients are added up in bfloat16, where 256 + 1 is
#           256; lightning/pytorch/plugins/precision/amp.py of 2.6.6 enters it with cache_enabled=False, so that each
#           use has a copy of its own and the sum is in float32. Nothing warns, and the changelog of Lightning does not
#           name it.
# Guess:    Lightning has the gradient of torch.autocast, in both versions (confidence 95 %).
# Hurts:    recurrent networks, layers shared by many places, and losses of many small terms: their gradients stop
#           growing. Comparisons across the two versions of Lightning, and of Lightning with a loop of one's own.
# Here:     the networks use each layer once in a forward pass
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old lightning==2.5.2
cat > shared.py <<'P'
import logging
import sys
import warnings

if sys.argv[1] != "new":
    sys.path.insert(0, sys.argv[1])
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
import lightning
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

USES = 1024


class Network(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4, bias=False)

    def loss(self, inputs):
        return sum(self.layer(inputs).float().sum() for _ in range(USES))

    def training_step(self, batch, index):
        return self.loss(batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.0)

    def on_before_optimizer_step(self, optimizer):
        self.found = self.layer.weight.grad[0, 0].item()


def by_lightning(precision):
    network = Network()
    Trainer(max_epochs=1, precision=precision, logger=False, accelerator="cpu", enable_progress_bar=False,
            enable_model_summary=False, enable_checkpointing=False).fit(network, DataLoader(TensorDataset(torch.ones(1, 4))))
    return network.found


def by_autocast(**settings):
    network = Network()
    with torch.autocast("cpu", torch.bfloat16, **settings):
        loss = network.loss(torch.ones(1, 4))
    loss.backward()
    return network.layer.weight.grad[0, 0].item()


found = by_lightning("32-true"), by_lightning("bf16-mixed"), by_autocast(), by_autocast(cache_enabled=False)
print(f"gradients: Lightning {lightning.__version__} in float32 {found[0]:.0f}, bf16-mixed {found[1]:.0f}; torch.autocast "
      f"{found[2]:.0f}, with cache_enabled=False {found[3]:.0f}", file=sys.stderr)
sys.exit(found != {"old": (1024, 256, 256, 1024), "new": (1024, 1024, 256, 1024)}[sys.argv[1]])
P
status=0
for version in old new; do
    "$python" shared.py "$version" > /dev/null 2> log.txt || status=1
    tail -1 log.txt
done
exit "$status"

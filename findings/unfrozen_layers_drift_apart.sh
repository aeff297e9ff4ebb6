#!/usr/bin/env bash
# Finding:  Layers that Lightning's BackboneFinetuning unfreezes under DDP are trained by each process on its own data
#           alone: from that epoch on, the processes have different weights in the backbone and equal ones in the head,
#           which was never frozen. Neither DDP nor Lightning says so, and find_unused_parameters changes nothing.
# Packages: torch==2.13.0 numpy==2.4.6 lightning==2.6.6
# Topic:    programs
# Source:   lightning/pytorch/callbacks/finetuning.py freezes in setup(), before DDP is made, which registers the
#           weights that need a gradient then; Lightning-AI/pytorch-lightning, issue 20340, open since 2024.
# Guess:    replicas stay equal with a callback of the framework itself (confidence 50 %; an engineer's 90 %).
# Hurts:    fine-tuning on several devices: each trains its backbone with a smaller batch, and the checkpoint is that of
#           process 0.
# Here:     layers of own models that are frozen stay so; docs/program.md names it
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > finetune.py <<'P'
import sys
import warnings

import lightning
import torch
from lightning.pytorch.callbacks import BackboneFinetuning, Callback

warnings.filterwarnings("ignore")


class Network(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.backbone, self.head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)

    def training_step(self, batch, number):
        return (self.head(self.backbone(batch[0])).squeeze(1) - batch[1]).pow(2).mean()

    def configure_optimizers(self):
        trained = self.head if sys.argv[2] == "finetuned" else self
        return torch.optim.SGD(trained.parameters(), lr=0.01)


class Compare(Callback):
    def on_train_epoch_end(self, trainer, module):
        for layer in (module.backbone, module.head):
            both = [torch.zeros_like(layer.weight) for _ in range(2)]
            torch.distributed.all_gather(both, layer.weight.detach())
            if trainer.is_global_zero:
                print("equal" if torch.equal(*both) else "different", end=" ", flush=True)


torch.manual_seed(1)
data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64))
finetuning = [BackboneFinetuning(unfreeze_backbone_at_epoch=1)] if sys.argv[2] == "finetuned" else []
trainer = lightning.Trainer(
    accelerator="cpu", devices=2, strategy=sys.argv[1], max_epochs=2, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, callbacks=[*finetuning, Compare()])
trainer.fit(Network(), torch.utils.data.DataLoader(data, batch_size=8))
P
run() { OMP_NUM_THREADS=1 "$python" finetune.py "$1" "$2" 2>/dev/null || true; }
finetuned=$(run ddp finetuned)
unused=$(run ddp_find_unused_parameters_true finetuned)
whole=$(run ddp whole)
echo "weights of two processes, backbone and head after epoch 1 (frozen) and 2: finetuned $finetuned; with" \
    "find_unused_parameters $unused; never frozen $whole"
[ "$finetuned" = "equal equal different equal " ] && [ "$unused" = "$finetuned" ] && [ "$whole" = "equal equal equal equal " ]

#!/usr/bin/env bash
# Finding:  torchmetrics' AUROC of logits depends on how they come in batches: a batch whose logits all happen to lie
#           between 0 and 1 is taken for probabilities, all others go through a sigmoid, and both are ranked together.
# Packages: torch==2.13.0 numpy==2.4.6 torchmetrics==1.9.0
# Topic:    statistics and metrics
# Source:   torchmetrics/functional/classification: inputs outside [0, 1] are taken for logits, judged at each update.
# Guess:    a monotone function changes no rank, so that logits and any batch size give the same area.
# Hurts:    evaluations in small batches (3-D images, chest X-rays at full size) that pass logits.
# Here:     report/metrics/roc_auc.py ranks the stored outputs of the whole split at once
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P'
import sys

import torch
from torchmetrics.classification import BinaryAUROC

generator = torch.Generator().manual_seed(0)
labels = (torch.rand(4000, generator=generator) < 0.1).int()
logits = 0.4 * torch.randn(4000, generator=generator) + 0.5 * labels + 0.5


def compute(size):
    metric = BinaryAUROC()
    for first in range(0, len(labels), size):
        metric.update(logits[first : first + size], labels[first : first + size])
    return float(metric.compute())


areas = {size: round(compute(size), 3) for size in (1, 4, 4000)}
print("area by batch size:", areas)
sys.exit(not areas[4000] - areas[1] > 0.02)
P

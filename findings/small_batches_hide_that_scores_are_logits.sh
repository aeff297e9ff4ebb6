#!/usr/bin/env bash
# Finding:  torchmetrics decides in each update whether scores are logits: a batch whose logits all lie between 0 and 1
#           is taken as probabilities. Of the same logits, BinaryAUROC is 0.719 with batches of 1 and 0.750 at once, and
#           BinaryAccuracy 0.683 and 0.672. As probabilities, both are equal for any batch.
# Packages: torch==2.13.0 numpy==2.4.6 torchmetrics==1.9.0
# Topic:    statistics and metrics
# Source:   torchmetrics/functional/classification: _binary_precision_recall_curve_format and _binary_stat_scores_format
#           apply the sigmoid to a batch that has a score outside of [0, 1].
# Guess:    a metric of ranks does not depend on the batches (confidence 40 %; an engineer's 85 %).
# Hurts:    validation with one image, patient or volume at a time, as large images need it, and uneven last batches.
# Here:     report/metrics computes its metrics from all scores and labels at once
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > logits.py <<'P'
import sys

import torch
import torchmetrics
from torchmetrics.classification import BinaryAccuracy, BinaryAUROC

torch.manual_seed(0)
labels = torch.randint(0, 2, (4000,))
logits = torch.randn(4000) + labels


def score(metric, scores, size):
    for part in torch.arange(4000).split(size):
        metric.update(scores[part], labels[part])
    return round(metric.compute().item(), 3)


found = {kind.__name__: {size: (score(kind(), logits, size), score(kind(), logits.sigmoid(), size)) for size in (4000, 4, 1)}
         for kind in (BinaryAUROC, BinaryAccuracy)}
print(f"torchmetrics {torchmetrics.__version__}, of logits and of probabilities, by size of batches: {found}")
sys.exit(not all(same == whole == found[kind][1][1] and abs(whole - wrong) > 0.005
                 for kind in found for (whole, same), (wrong, _) in [(found[kind][4000], found[kind][1])]))
P
"$python" logits.py 2>/dev/null

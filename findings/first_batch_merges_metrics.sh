#!/usr/bin/env bash
# Finding:  In a MetricCollection of torchmetrics, MulticlassAccuracy of the top 5 is that of the top 1 to the end if the
#           first batch is all right in both: metrics whose counts are equal after the first batch share them from then
#           on. Each metric alone is right, and so is the collection with another batch first.
# Packages: torch==2.13.0 numpy==2.4.6 torchmetrics==1.9.0
# Topic:    statistics and metrics
# Source:   torchmetrics/collections.py, compute_groups=True by default, compares states and not the metrics' arguments.
# Guess:    groups are of metrics that count the same, whatever the data.
# Hurts:    evaluation in an order that begins with easy images, small batches, and several thresholds of one metric.
# Here:     metrics are computed by functions of all scores and labels (report/metrics), and share nothing
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > merge.py <<'P'
import sys

import torch
import torchmetrics
from torchmetrics.classification import MulticlassAccuracy

torch.manual_seed(0)
labels = torch.arange(100) % 10
easy = torch.nn.functional.one_hot(labels, 10).float()
hard = torch.rand(100, 10)


def evaluate(metric, batches):
    for scores in batches:
        metric.update(scores, labels)
    return metric.compute()


def build():
    return {f"top{k}": MulticlassAccuracy(10, top_k=k) for k in (1, 5)}


def show(found):
    return {name: round(float(value), 3) for name, value in found.items()}


alone = show({name: evaluate(metric, [easy, hard]) for name, metric in build().items()})
easy_first, hard_first = (
    show(evaluate(torchmetrics.MetricCollection(build()), batches)) for batches in ([easy, hard], [hard, easy])
)
print(f"torchmetrics {torchmetrics.__version__}: {alone} alone; collected, {easy_first} with the easy batch first, "
      f"{hard_first} with the hard one first")
sys.exit(not (hard_first == alone and easy_first["top5"] == easy_first["top1"] == alone["top1"] < alone["top5"]))
P
"$python" merge.py 2>/dev/null

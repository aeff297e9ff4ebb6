#!/usr/bin/env bash
# Finding:  The binned precision-recall curve of torchmetrics 1.9.0, thresholds=11, has a precision of NaN at each
#           threshold that no score reaches, where 1.8.0 has 0, so that the largest F1 along it, max() of 2 p r / (p +
#           r), and the area under it are NaN. Without thresholds= the curves are equal, and so is the average
#           precision.
# Packages: torch==2.13.0 numpy==2.4.6 torchmetrics==1.9.0
# Topic:    silent changes in new releases
# Source:   _binary_precision_recall_curve_compute() in torchmetrics/functional/classification/precision_recall_curve.py
#           divides 0 by 0 to NaN in 1.9.0; so do those for several classes, whose recall is NaN for a class without
#           samples.
# Guess:    equal (confidence 90 %).
# Hurts:    thresholds that are chosen by the largest F1: argmax() of the new curve takes the first NaN, so that nothing
#           is positive at the chosen threshold.
# Here:     report/metrics computes its metrics from all scores and labels at once
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old torchmetrics==1.8.0
cat > curve.py <<'P'
import sys

if sys.argv[1] != "new":
    sys.path.insert(0, sys.argv[1])
import torch
import torchmetrics
from torchmetrics.classification import BinaryAveragePrecision, BinaryPrecisionRecallCurve

generator = torch.Generator().manual_seed(0)
labels = torch.randint(0, 2, (200,), generator=generator)
scores = (0.3 * labels + 0.3 * torch.rand(200, generator=generator)).clamp(0, 1)


def best(**settings):
    """Return the threshold of the largest F1 and that F1."""
    precision, recall, thresholds = BinaryPrecisionRecallCurve(**settings)(scores, labels)
    f1 = 2 * precision * recall / (precision + recall + 1e-12)
    return round(thresholds[f1[:-1].argmax()].item(), 1), str(round(f1.max().item(), 3))


binned, exact = best(thresholds=11), best()
average = BinaryAveragePrecision(thresholds=11)(scores, labels).item()
print(f"torchmetrics {torchmetrics.__version__}: best threshold and F1 {binned}, of all scores {exact}, average precision {average:.3f}")
expected = binned[1] != "nan" and binned[0] < 0.7 if sys.argv[1] == "old" else binned[1] == "nan" and binned[0] >= 0.6
sys.exit(not expected or exact[1] == "nan" or average != average)
P
status=0
for version in old new; do
    "$python" curve.py "$version" || status=1
done
exit "$status"

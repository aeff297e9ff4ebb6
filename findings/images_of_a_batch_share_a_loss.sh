#!/usr/bin/env bash
# Finding:  GeneralizedWassersteinDiceLoss of MONAI 1.5.0 mixes the images of a batch: the loss of two images is 0.300,
#           and those of the same two alone are 0.453 on average. With reduction="mean" in 1.6.1 it is the mean of both,
#           0.453, as that of the other losses. A batch of one is equal in the two versions.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    silent changes in new releases
# Source:   monai/losses/dice.py of 1.5.0: weights of the shape (images, 1, pixels) multiply distances of the shape
#           (images, pixels), so that the weights of each image meet the distances of all; 1.6.1 squeezes the weights.
#           Nothing warns.
# Guess:    the loss of a batch is the mean of the losses of its images (confidence 90 %).
# Hurts:    training with this loss, which is for brain tumours of nested classes, with more than one image in a batch;
#           and comparisons of batch sizes.
# Here:     no network segments; the gate compares the losses of several devices with those of one
source "$(dirname "$(realpath "$0")")/setup.sh"
for version in 1.5.0 1.6.1; do
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$version" "monai==$version"
done
cat > compare.py <<'P'
import sys
import warnings

sys.path.insert(0, sys.argv[1])
warnings.filterwarnings("ignore")
import monai
import numpy as np
import torch
from monai.losses import GeneralizedWassersteinDiceLoss

generator = torch.Generator().manual_seed(0)
logits = 6 * torch.rand(2, 3, 6, 6, generator=generator)
labels = (3 * torch.rand(2, 1, 6, 6, generator=generator)).long()
loss = GeneralizedWassersteinDiceLoss(np.array([[0, 1, 1], [1, 0, 0.5], [1, 0.5, 0]]))
together = loss(logits, labels).item()
alone = np.mean([loss(logits[i : i + 1], labels[i : i + 1]).item() for i in range(2)])
print(f"MONAI {monai.__version__}: two images together {together:.4f}, mean of each alone {alone:.4f}", file=sys.stderr)
sys.exit(bool(abs(together - alone) < 1e-5) != (sys.argv[1] == "1.6.1"))
P
"$python" compare.py 1.5.0 2> old.txt && old=0 || old=$?
"$python" compare.py 1.6.1 2> new.txt && new=0 || new=$?
cat old.txt new.txt
exit $((old + new))

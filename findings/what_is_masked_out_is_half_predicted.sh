#!/usr/bin/env bash
# Finding:  MaskedDiceLoss(sigmoid=True) of MONAI 1.5.0 takes each pixel that the mask leaves out for one that was
#           predicted with a probability of 0.5: a perfect prediction has a loss of 0.6 if the mask has a quarter of the
#           image, and 0.97 if it has a 64th. In 1.6.1 it has 0. With probabilities given instead of logits, both have
#           0.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    silent changes in new releases
# Source:   monai/losses/dice.py of 1.5.0: the mask multiplies the logits, and the sigmoid of 0 is 0.5; 1.6.1 applies
#           the activation before the mask. With softmax=True it is 1 divided by the number of classes. Nothing warns.
# Guess:    what the mask leaves out does not count, in either version (confidence 90 %).
# Hurts:    training with masks, for partly labelled images: the smaller the mask, the less the loss says of what is in
#           it. Losses and networks of the two versions do not compare.
# Here:     images have labels and no masks
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
import torch
from monai.losses import MaskedDiceLoss


def loss(inside, activation):
    """Return the loss of a perfect prediction of which the mask has a square of `inside` pixels, of 16 x 16."""
    target, mask = torch.zeros(1, 1, 16, 16), torch.zeros(1, 1, 16, 16)
    target[..., : inside // 2, :inside] = 1
    mask[..., :inside, :inside] = 1
    prediction = 20 * target - 10
    if not activation:
        prediction = prediction.sigmoid()
    return round(MaskedDiceLoss(sigmoid=activation)(prediction, target, mask).item(), 3)


losses = [loss(8, True), loss(2, True), loss(8, False)]
print(f"MONAI {monai.__version__}: a quarter {losses[0]}, a 64th {losses[1]}, a quarter of probabilities {losses[2]}",
      file=sys.stderr)
sys.exit(losses != {"1.5.0": [0.6, 0.969, 0.0], "1.6.1": [0.0, 0.0, 0.0]}[sys.argv[1]])
P
"$python" compare.py 1.5.0 2> old.txt && old=0 || old=$?
"$python" compare.py 1.6.1 2> new.txt && new=0 || new=$?
cat old.txt new.txt
exit $((old + new))

#!/usr/bin/env bash
# Finding:  RandAugment of kornia 0.8.1 shifts images by less than a tenth of a pixel, at any magnitude, where 0.9.0
#           shifts by up to a tenth of the image; and with m=1 it makes one image in twenty all black, by posterizing to
#           0 bits, where 0.9.0 makes none.
# Packages: torch==2.13.0 numpy==2.4.6 kornia-rs==0.2.0 packaging==26.4 pillow==12.3.0
# Topic:    silent changes in new releases
# Source:   kornia/augmentation/auto/rand_augment/rand_augment.py: 0.9.0 multiplies the shift by the size of the image,
#           and posterizes to 4 to 8 bits instead of 0 to 4, fewer for a larger magnitude. Nothing warns.
# Guess:    equal (confidence 90 %).
# Hurts:    trainings with this augmentation: it is another one in 0.9.0, and in 0.8.1 not that of the paper.
# Here:     images are not augmented by a library
source "$(dirname "$(realpath "$0")")/setup.sh"
for version in 0.8.1 0.9.0; do
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$version" "kornia==$version"
done
cat > compare.py <<'P'
import sys
import warnings

sys.path.insert(0, sys.argv[1])
warnings.filterwarnings("ignore")
import kornia
import torch
from kornia.augmentation.auto import RandAugment

images = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
torch.manual_seed(0)
shifted = RandAugment(n=1, m=29, policy=[[("translate_x", -0.1, 0.1)]])(images)
empty = int((shifted[0, 0].abs().sum(0) == 0).sum())
changed = (shifted - images).abs().mean().item()
black = sum(int((RandAugment(n=1, m=1)(images).flatten(1).amax(1) == 0).sum()) for _ in range(40))
print(f"kornia {kornia.__version__}: a shift empties {empty} of 32 columns and changes values by {changed:.3f}; {black} of 320 images are black")
sys.exit((empty, black > 0) != {"0.8.1": (0, True), "0.9.0": (3, False)}[sys.argv[1]])
P
status=0
for version in 0.8.1 0.9.0; do
    "$python" compare.py "$version" || status=1
done
exit "$status"

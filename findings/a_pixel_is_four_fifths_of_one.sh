#!/usr/bin/env bash
# Finding:  monai.networks.layers.AffineTransform of MONAI 1.5.0, given a shift by one pixel, shifts by 0.8 of a pixel
#           an image of 5 x 5, and not by a whole one, since it takes the corners in one way for the matrix and in
#           another for the image. In 1.6.1 it is a whole pixel. With align_corners=False both shift by one.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    silent changes in new releases
# Source:   monai/networks/layers/spatial_transforms.py: 1.5.0 normalises the matrix with align_corners=False, whatever
#           the layer has, and the default of the layer is True. Nothing warns.
# Guess:    a shift by one pixel moves each value by one, in both (confidence 90 %).
# Hurts:    registration and augmentation by this layer: positions are off by up to one pixel at the border.
# Here:     images are not warped
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
from monai.networks.layers import AffineTransform

image = torch.arange(25.0).reshape(1, 1, 5, 5)
shift = torch.tensor([[1.0, 0, 0], [0, 1, 1], [0, 0, 1]])
rows = [[round(value, 2) for value in AffineTransform(spatial_size=(5, 5), **settings)(image, shift)[0, 0, 2].tolist()]
        for settings in ({}, {"align_corners": False})]
print(f"MONAI {monai.__version__}: the row 10, 11, 12, 13, 14 becomes {rows[0]}, with align_corners=False {rows[1]}", file=sys.stderr)
sys.exit(rows[1] != [11, 12, 13, 14, 0] or (rows[0] == rows[1]) != (sys.argv[1] == "1.6.1"))
P
"$python" compare.py 1.5.0 2> old.txt && old=0 || old=$?
"$python" compare.py 1.6.1 2> new.txt && new=0 || new=$?
cat old.txt new.txt
exit $((old + new))

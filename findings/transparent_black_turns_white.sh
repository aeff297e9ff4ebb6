#!/usr/bin/env bash
# Finding:  rgba_to_rgb of kornia 0.8.1 ignores the transparency, and that of 0.9.0 puts the image on white: a
#           transparent black pixel is black in one and white in the other. Opaque pixels are equal.
# Packages: torch==2.13.0 numpy==2.4.6 kornia-rs==0.2.0 packaging==26.4 pillow==12.3.0
# Topic:    silent changes in new releases
# Source:   kornia/color/rgb.py: 0.8.1 adds up (1 - a) r + a r, which is r; 0.9.0 has (1 - a) + a r and an argument for
#           the background. Nothing warns.
# Guess:    equal (confidence 90 %).
# Hurts:    images with transparency, such as rendered objects and logos, whose background changes from black to white.
# Here:     images with transparency are rejected with this reason (config/README.md)
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

pixels = torch.tensor([[0, 0, 0, 0], [0, 0, 0, 0.5], [0.2, 0.4, 0.6, 0.25], [0.2, 0.4, 0.6, 1]]).T.reshape(1, 4, 1, 4)
found = [[round(value, 2) for value in pixel] for pixel in kornia.color.rgba_to_rgb(pixels)[0, :, 0].T.tolist()]
print(f"kornia {kornia.__version__}: transparent black {found[0]}, half {found[1]}, a colour of a quarter {found[2]}, opaque {found[3]}")
right = {"0.8.1": [[0, 0, 0], [0, 0, 0], [0.2, 0.4, 0.6]], "0.9.0": [[1, 1, 1], [0.5, 0.5, 0.5], [0.8, 0.85, 0.9]]}[sys.argv[1]]
sys.exit(found[:3] != right or found[3] != [0.2, 0.4, 0.6])
P
status=0
for version in 0.8.1 0.9.0; do
    "$python" compare.py "$version" || status=1
done
exit "$status"

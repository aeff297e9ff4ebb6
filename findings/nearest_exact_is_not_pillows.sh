#!/usr/bin/env bash
# Finding:  cv2.resize with INTER_NEAREST_EXACT, whose page promises the pixels of Pillow's nearest neighbour, takes
#           other pixels up to OpenCV 4.14.0: of a 120x96 image resized to 90x90, 20 % of a noisy one differ. From 5.0.0
#           on it equals Pillow, so that the same call gives other masks in 5.0.0 than in 4.14.0. Where sizes double or
#           halve, and at 224x224, all agree.
# Packages: numpy==2.3.5 pillow==12.3.0
# Topic:    silent changes in new releases
# Source:   OpenCV 4.12.0, 4.13.0, 4.14.0 and 5.0.0, x86-64; page of InterpolationFlags: "will produce same results as
#           the nearest neighbor method in PIL, scikit-image or Matlab".
# Guess:    equal to Pillow and between versions, since exactness is what the mode is for (95 %).
# Hurts:    whoever resizes masks or labels with OpenCV because of that sentence, or compares results over this version.
# Here:     no masks are resized, and no resizing uses this mode
source "$(dirname "$(realpath "$0")")/setup.sh"
for version in 4.14.0.94 5.0.0.93; do
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$version" \
        "opencv-python-headless==$version"
done
cat > resize.py <<'P'
import sys

sys.path.insert(0, sys.argv[1])
import cv2
import numpy as np
from PIL import Image

image = np.random.default_rng(0).integers(0, 256, (96, 120), dtype=np.uint8)
for size in ((90, 90), (200, 150), (77, 53), (60, 48), (224, 224)):
    pillow = np.asarray(Image.fromarray(image).resize(size, Image.Resampling.NEAREST))
    exact = cv2.resize(image, size, interpolation=cv2.INTER_NEAREST_EXACT)
    print(f"{(exact != pillow).mean():.4f}", end=" ")
P
old=$("$python" resize.py 4.14.0.94)
new=$("$python" resize.py 5.0.0.93)
echo "pixels of INTER_NEAREST_EXACT that are not Pillow's, at 90x90, 200x150, 77x53, 60x48 and 224x224:"
echo "OpenCV 4.14.0: $old; 5.0.0: $new"
[ "$old" = "0.2031 0.0332 0.0189 0.0000 0.0000 " ] && [ "$new" = "0.0000 0.0000 0.0000 0.0000 0.0000 " ]

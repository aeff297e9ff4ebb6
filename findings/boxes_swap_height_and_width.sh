#!/usr/bin/env bash
# Finding:  keras.utils.bounding_boxes.convert_format from "rel_center_xywh", the format of YOLO, multiplies x by the
#           height and y by the width in Keras 3.11.0: the middle of an image of 200x100 becomes (50, 100). In 3.15.1 it
#           is (100, 50). "rel_xyxy" and "rel_xywh" are right in both, and square images hide it.
# Packages: numpy==2.3.5 jax==0.7.0 jaxlib==0.7.0 absl-py==2.3.1 rich==14.0.0 namex==0.1.0 h5py==3.14.0 optree==0.17.0 ml-dtypes==0.5.1 packaging==25.0
# Topic:    silent changes in new releases
# Source:   keras/src/layers/preprocessing/image_preprocessing/bounding_boxes/bounding_box.py, _rel_center_xywh_to_xyxy
# Guess:    right, in any version (90 %).
# Hurts:    whoever trained a detector on images that are not square with boxes of this format.
# Here:     no boxes
source "$(dirname "$(realpath "$0")")/setup.sh"
for version in 3.11.0 3.15.1; do
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$version" "keras==$version"
done
cat > boxes.py <<'P'
import os
import sys

sys.path.insert(0, sys.argv[1])
os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np

for kind, box in (("rel_center_xywh", [0.5, 0.5, 0.2, 0.2]), ("rel_xywh", [0.4, 0.4, 0.2, 0.2])):
    made = keras.utils.bounding_boxes.convert_format(np.array([[box]]), kind, "xyxy", height=100, width=200)
    print(*np.round(np.asarray(made).ravel()).astype(int), end="; ")
P
old=$("$python" boxes.py 3.11.0 2> old.log)
new=$("$python" boxes.py 3.15.1 2> new.log)
echo "one box in the middle of 200x100, given as rel_center_xywh and as rel_xywh: 3.11.0: $old; 3.15.1: $new"
[ "$old" = "40 80 60 120; 80 40 120 60; " ] && [ "$new" = "80 40 120 60; 80 40 120 60; " ]

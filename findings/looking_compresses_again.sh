#!/usr/bin/env bash
# Finding:  A map() of Hugging Face's datasets whose function reads the image and returns a new column alone compresses
#           each JPEG of the data set again, at Pillow's default quality: other pixels, by up to tens of levels, and
#           more with each such call. A function that does not touch the image leaves its bytes.
# Packages: datasets==5.2.0 pillow==13.0.0 numpy==2.4.6
# Topic:    images
# Source:   the image that was read is a value of the example from then on; datasets/features/image.py stores images
#           without a file's name by Image.save(format=image.format).
# Guess:    columns that the function does not return keep their bytes.
# Hurts:    adding a width, a hash or a label to a data set of images: accuracy falls, and nobody changed an image.
# Here:     images are prepared from the files' own bytes
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > look.py <<'P'
import io
import sys

import datasets
import numpy as np
from PIL import Image

datasets.disable_progress_bars()
colours = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
file = io.BytesIO()
Image.fromarray(np.kron(colours, np.ones((8, 8, 1), np.uint8))).save(file, "JPEG", quality=95)
features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
image = {"bytes": file.getvalue(), "path": None}
data = datasets.Dataset.from_dict({"image": [image], "label": [1]}, features=features)


def compare(changed):
    stored = changed.cast_column("image", datasets.Image(decode=False))[0]["image"]["bytes"]
    pixels = [np.asarray(Image.open(io.BytesIO(each))).astype(int) for each in (file.getvalue(), stored)]
    return len(stored), int(abs(pixels[0] - pixels[1]).max())


blind = data.map(lambda example: {"next": example["label"] + 1})
once = data.map(lambda example: {"width": example["image"].width})
five = once
for name in "abcd":
    five = five.map(lambda example, name=name: {name: example["image"].width})
untouched, looked, often = compare(blind), compare(once), compare(five)
print(f"datasets {datasets.__version__}: bytes and largest change of a pixel after a map that does not read the image "
      f"{untouched}, that reads its width {looked}, after five such {often}")
sys.exit(not (untouched == (len(file.getvalue()), 0) and looked[1] > 10 and often[1] > looked[1]))
P
HF_HOME="$folder/cache" HF_HUB_OFFLINE=1 "$python" look.py 2>/dev/null

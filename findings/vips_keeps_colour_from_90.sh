#!/usr/bin/env bash
# Finding:  libvips stores JPEGs with halved colour up to quality 89 and with full colour from 90 on, so that a file grows
#           by about two thirds between the two; Pillow halves it at both.
# Packages: pyvips==3.2.0 pyvips-binary==8.18.7 numpy==2.4.6 pillow==13.0.0
# Topic:    images
# Source:   libvips, jpegsave: subsample_mode auto.
# Guess:    about 5 % more bytes for one step of quality, as in Pillow.
# Hurts:    data sets prepared at quality 90 by different tools: other pixels, other bytes to read.
# Here:     prepare/image_files.py writes 4:2:0 with one encoder
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P'
import io
import sys

import numpy as np
import pyvips
from PIL import Image

noise = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
photograph = Image.fromarray(noise).resize((256, 256), Image.BICUBIC)


def count_pillow(quality):
    file = io.BytesIO()
    photograph.save(file, "JPEG", quality=quality)
    return file.tell()


def count_vips(quality):
    return len(pyvips.Image.new_from_array(np.asarray(photograph)).jpegsave_buffer(Q=quality))


growth = {name: count(90) / count(89) for name, count in (("Pillow", count_pillow), ("libvips", count_vips))}
print("bytes at quality 90 over quality 89:", {name: round(ratio, 2) for name, ratio in growth.items()})
sys.exit(not (growth["Pillow"] < 1.1 and growth["libvips"] > 1.4))
P

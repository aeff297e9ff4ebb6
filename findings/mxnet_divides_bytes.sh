#!/usr/bin/env bash
# Finding:  num_parts of MXNet's ImageRecordIter divides the bytes of the file, not its images, unless it gets the
#           index: 100 images of which the first 30 are large become 16 and 84. Given path_imgidx they are 50 and 50.
# Packages: mxnet==1.9.1 numpy==1.23.5 pillow==12.3.0
# Topic:    loaders
# Source:   dmlc's InputSplit cuts the file at the next record after each n-th of its bytes.
# Guess:    equal numbers of images, give or take one.
# Hurts:    training on several devices with one part each: other numbers of steps, and the small images are seen less
#           often.
# Here:     the batches are drawn by the workflow, and every device gets as many images
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > parts.py <<'P'
import io
import sys

import mxnet as mx
import numpy as np
from PIL import Image

records, generator = mx.recordio.MXIndexedRecordIO("images.idx", "images.rec", "w"), np.random.default_rng(0)
for index in range(100):
    size, file = 256 if index < 30 else 32, io.BytesIO()
    Image.fromarray(generator.integers(0, 256, (size, size, 3), dtype=np.uint8)).save(file, "JPEG", quality=95)
    records.write_idx(index, mx.recordio.pack(mx.recordio.IRHeader(0, float(index), index, 0), file.getvalue()))
records.close()


def count(part, **options):
    options |= {"num_parts": 2, "part_index": part}
    batches = mx.io.ImageRecordIter(
        path_imgrec="images.rec", data_shape=(3, 32, 32), batch_size=1, resize=32, **options
    )
    return sum(1 for _ in batches)


by_bytes = [count(part) for part in (0, 1)]
by_index = [count(part, path_imgidx="images.idx") for part in (0, 1)]
print(f"images of the two parts: {by_bytes} without the index, {by_index} with it")
sys.exit(not (by_bytes[0] < 25 and sum(by_bytes) == 100 and by_index == [50, 50]))
P
"$python" parts.py 2>/dev/null

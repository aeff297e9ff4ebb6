#!/usr/bin/env bash
# Finding:  If a file of a series of images is missing, tifffile.imread(files, pattern=...) of tifffile 2026.3.3 leaves
#           its place in the array as the memory was, with pixels of other images or any other values. In 2025.6.11 the
#           place is 0, and given out=numpy.zeros(...) it is 0 in both. Nothing warns.
# Packages: numpy==2.4.6 tifffile==2026.3.3
# Topic:    silent changes in new releases
# Source:   tifffile/tifffile.py, create_output(): its fillvalue is 0 in 2025.6.11 and None, which is numpy.empty, in
#           2026.3.3; FileSequence.asarray calls it without one. The revisions say of 2025.12.20 "Do not initialize
#           output arrays".
# Guess:    a file that is missing in the series is 0 (confidence 85 %).
# Hurts:    series of microscopes and scans with a lost position: normalised by means over the array, and trained on
#           with pixels that are others in each run, or those of an image of the test set that was read before.
# Here:     each image is prepared from its own file, and a bad file ends the preparation or is left out (on_bad_file)
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old tifffile==2025.6.11
cat > series.py <<'P'
import sys

if sys.argv[1] != "new":
    sys.path.insert(0, sys.argv[1])
import numpy as np
import tifffile

for time in range(2):
    for channel in range(3):
        if (time, channel) != (1, 1):
            tifffile.imwrite(f"s_t{time}_c{channel}.tif", np.full((64, 64), 100, np.uint16))
settings = {"pattern": r"_(t)(\d+)_(c)(\d+)"}
series = tifffile.imread("s_*.tif", **settings)
present = {int(value) for time in range(2) for channel in range(3) if (time, channel) != (1, 1)
           for value in np.unique(series[time, channel])}
missing = {int(value) for value in np.unique(series[1, 1])}
given = tifffile.imread("s_*.tif", out=np.zeros_like(series), **settings)[1, 1]
print(f"tifffile {tifffile.__version__}: the images that are there have {present}, the missing one has {missing}; "
      f"memory that is not set has {0x5A5A}")
sys.exit(present != {100} or given.any() or missing != {"old": {0}, "new": {0x5A5A}}[sys.argv[1]])
P
status=0
for version in old new; do
    # glibc fills memory that a program gets without asking for zeros with the complement of this byte: 0x5a.
    MALLOC_PERTURB_=165 "$python" series.py "$version" || status=1
done
exit "$status"

#!/usr/bin/env bash
# Finding:  MXNet's SoftmaxCrossEntropyLoss in float16 adds up the classes in float16: for 20,000 classes the loss is 8.0
#           instead of 9.8 (a line in the log recommends a variable). Its sum() is exact. The mean of uint8 images is 0.
# Packages: mxnet==1.9.1 numpy==1.23.5
# Topic:    what frameworks do differently
# Source:   MXNET_SAFE_ACCUMULATION is off by default; the mean divides each value before it adds, in the array's type.
# Guess:    sums are accumulated in float32, as elsewhere.
# Hurts:    large heads in half precision, and whoever computes a channel's mean from bytes.
# Here:     the gate compares the losses of each precision that a study asks for
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > add.py <<'P'
import sys

import mxnet as mx
import numpy as np

mx.random.seed(0)
scores, labels = mx.nd.random.uniform(shape=(8, 20_000)), mx.nd.zeros(8)
loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
full, half = (float(loss(scores.astype(kind), labels.astype(kind)).mean().asscalar()) for kind in ("float32", "float16"))
total = float(mx.nd.ones(10_000, dtype="float16").sum().asscalar())
mean = int(mx.nd.array(np.full(1000, 200), dtype="uint8").mean().asscalar())
print(f"loss of 20,000 classes: {full:.2f} in float32, {half:.2f} in float16; sum of 10,000 ones in float16: {total:.0f}; "
      f"mean of bytes of 200: {mean}")
sys.exit(not (full - half > 1 and total == 10_000 and mean == 0))
P
"$python" add.py 2>/dev/null

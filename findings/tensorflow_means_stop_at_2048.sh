#!/usr/bin/env bash
# Finding:  On a CPU, TensorFlow's reduce_mean of float16 over the first axis adds up in float16: the mean of 10,000 rows of
#           ones is 0.2. Over all axes at once it is 1, and so it is for bfloat16 over either.
# Packages: tensorflow-cpu==2.21.0
# Topic:    what frameworks do differently
# Source:   a sum of ones in float16 stops at 2,048, where the next number is 2,050: 2,048 / 10,000 = 0.2.
# Guess:    reductions accumulate in float32 whatever the axis, as PyTorch's and JAX's do.
# Hurts:    losses and statistics of a batch in pure float16; tests on CPUs of code for GPUs.
# Here:     losses and the statistics of BatchNorm are float32 in every precision; the gate compares both
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P' 2>/dev/null
import sys

import tensorflow as tf


def find_means(kind):
    ones = tf.ones((10_000, 2), kind)
    return float(tf.reduce_mean(ones)), round(float(tf.reduce_mean(ones, axis=0)[0]), 2)


means = {kind: find_means(kind) for kind in ("float16", "bfloat16")}
print(f"tensorflow {tf.__version__}: mean of 10,000 rows of ones over all axes and over the first:", means)
sys.exit(means != {"float16": (1.0, 0.2), "bfloat16": (1.0, 1.0)})
P

"""Compute the expected results of the layers in float64 with numpy. Images are (batch, height, width, channels)."""

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def windows_of(x, size, stride, padding, value):
    """Return every window that fits, as (batch, rows, columns, channels, height, width)."""
    height, width = (size, size) if isinstance(size, int) else size
    rows, columns = ((padding, padding), (padding, padding)) if isinstance(padding, int) else padding
    padded = np.pad(x, ((0, 0), rows, columns, (0, 0)), constant_values=value)
    return sliding_window_view(padded, (height, width), axis=(1, 2))[:, ::stride, ::stride]


def conv(x, weights, *, out_channels, kernel, stride, padding, groups=1, use_bias):
    windows = np.split(windows_of(x, kernel, stride, padding, 0.0), groups, axis=3)
    kernels = np.split(weights["kernel"], groups, axis=3)
    parts = [np.einsum("brcixy,xyio->brco", *pair) for pair in zip(windows, kernels, strict=True)]
    return np.concatenate(parts, axis=3) + (weights["bias"] if use_bias else 0.0)


def max_pool(x, weights, *, size, stride, padding):
    return windows_of(x, size, stride, padding, -math.inf).max(axis=(4, 5))


def average_pool(x, weights, *, size, stride, padding):
    return windows_of(x, size, stride, padding, 0.0).mean(axis=(4, 5))


def global_average_pool(x, weights):
    return x.mean(axis=(1, 2))


def relu(x, weights):
    return np.maximum(x, 0.0)


def concatenate(x, weights):
    """Concatenate the image and its negative."""
    return np.concatenate([x, -x], axis=3)


def flatten(x, weights):
    return x.reshape(len(x), -1)


def gelu(x, weights):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def attend(x, weights, *, heads):
    """Attend to the values of every image as tokens of 12 values."""
    query, key, value = np.moveaxis(x.reshape(len(x), -1, 3, heads, 12 // 3 // heads), 2, 0)
    scores = np.exp(np.einsum("bqhd,bkhd->bhqk", query, key) / math.sqrt(query.shape[-1]))
    mixed = np.einsum("bhqk,bkhd->bqhd", scores / scores.sum(axis=-1, keepdims=True), value)
    return mixed.reshape(*mixed.shape[:2], -1)


def layernorm(x, weights, *, epsilon):
    """Normalise the channels of every pixel."""
    pixels = x.reshape(len(x), -1, x.shape[-1])
    mean, variance = pixels.mean(axis=-1, keepdims=True), pixels.var(axis=-1, keepdims=True)
    return (pixels - mean) / np.sqrt(variance + epsilon) * weights["scale"] + weights["offset"]


def tokens(x, weights):
    pixels, token = x.reshape(len(x), -1, x.shape[-1]), np.repeat(weights["token"], len(x), axis=0)
    return np.concatenate([token, pixels], axis=1) + weights["position"]


def class_token(x, weights):
    """Take the first pixel of every image."""
    return x[:, 0, 0]


def shortcut(x, weights, *, stride, new_channels):
    return np.pad(x[:, ::stride, ::stride], ((0, 0), (0, 0), (0, 0), (0, new_channels)))


def dense(x, weights, *, out_features):
    """Apply a dense layer to the first pixel of every image."""
    return x[:, 0, 0] @ weights["kernel"] + weights["bias"]


def batchnorm(x, weights, *, epsilon, momentum, eval_batchnorm="running"):
    """Normalise by the statistics of the batch, as in training."""
    mean, variance = x.mean(axis=(0, 1, 2)), x.var(axis=(0, 1, 2))
    return (x - mean) / np.sqrt(variance + epsilon) * weights["scale"] + weights["offset"]


def update_statistics(x, weights, *, epsilon, momentum, eval_batchnorm="running"):
    """Return the running statistics after one batch. The variance is the biased one."""
    batch = {"mean": x.mean(axis=(0, 1, 2)), "variance": x.var(axis=(0, 1, 2))}
    return {name: momentum * weights[name] + (1 - momentum) * value for name, value in batch.items()}


def evaluate_batchnorm(x, weights, *, epsilon, momentum, eval_batchnorm="running"):
    """Normalise by the running statistics, or by those of the batch."""
    if eval_batchnorm == "batch":
        return batchnorm(x, weights, epsilon=epsilon, momentum=momentum)
    scale = weights["scale"] / np.sqrt(weights["variance"] + epsilon)
    return (x - weights["mean"]) * scale + weights["offset"]


def gradient_by_input(compute, x, upstream, step=1e-6):
    """Return d sum(upstream * compute(x)) / dx by central differences, which are exact if compute is linear near x."""
    gradient = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        shifted = np.zeros_like(x)
        shifted[place] = step
        gradient[place] = np.sum(upstream * (compute(x + shifted) - compute(x - shifted))) / (2 * step)
    return gradient

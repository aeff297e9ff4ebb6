"""Every layer of every family computes the same as a few lines of numpy in float64, forwards and backwards."""

import functools
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from measure import layers_in_float64
from project import ROOT

ENVIRONMENTS = {
    "torch": "pytorch-cpu",
    "keras": "tensorflow-cpu",
    "flax": "jax-cpu",
    "gluon": "mxnet-cpu",
    "chainer": "chainer-cpu",
}
IMAGES = (2, 6, 7, 4)
"""Batch, height, width, channels. One size is odd, so that it is not a multiple of the stride."""
AS_KERAS_SAME = ((0, 1), (1, 0))
PLAIN = {"stride": 1, "padding": 1, "use_bias": True}
CASES = {
    "conv_3x3": ("conv", {"out_channels": 6, "kernel": 3, **PLAIN}),
    "conv_strided": ("conv", {"out_channels": 6, "kernel": 3, **PLAIN, "stride": 2}),
    "conv_1x1": ("conv", {"out_channels": 3, "kernel": 1, "stride": 2, "padding": 0, "use_bias": False}),
    "conv_5x5": ("conv", {"out_channels": 3, "kernel": 5, "stride": 2, "padding": 2, "use_bias": False}),
    "conv_rectangular": ("conv", {"out_channels": 3, "kernel": (1, 3), **PLAIN, "padding": ((0, 0), (1, 1))}),
    "conv_grouped": ("conv", {"out_channels": 6, "kernel": 3, **PLAIN, "groups": 2}),
    "conv_of_each_channel": ("conv", {"out_channels": 8, "kernel": 3, **PLAIN, "stride": 2, "groups": 4}),
    "conv_uneven": ("conv", {"out_channels": 5, "kernel": 3, **PLAIN, "stride": 2, "padding": AS_KERAS_SAME}),
    "conv_even_kernel": ("conv", {"out_channels": 5, "kernel": 4, **PLAIN, "padding": ((1, 2), (2, 1))}),
    "max_pool": ("max_pool", {"size": 2, "stride": 2, "padding": 0}),
    "max_pool_padded": ("max_pool", {"size": 3, "stride": 2, "padding": 1}),
    "max_pool_uneven": ("max_pool", {"size": 3, "stride": 2, "padding": AS_KERAS_SAME}),
    "max_pool_rectangular": ("max_pool", {"size": (2, 3), "stride": 1, "padding": ((0, 0), (1, 1))}),
    "average_pool": ("average_pool", {"size": 2, "stride": 2, "padding": 0}),
    "average_pool_padded": ("average_pool", {"size": 3, "stride": 2, "padding": 1}),
    "average_pool_uneven": ("average_pool", {"size": 3, "stride": 2, "padding": AS_KERAS_SAME}),
    "average_pool_rectangular": ("average_pool", {"size": (2, 3), "stride": 1, "padding": ((0, 0), (1, 1))}),
    "global_average_pool": ("global_average_pool", {}),
    "relu": ("relu", {}),
    "concatenate": ("concatenate", {}),
    "flatten": ("flatten", {}),
    "shortcut": ("shortcut", {"stride": 2, "new_channels": 3}),
    "shortcut_to_more_than_twice": ("shortcut", {"stride": 2, "new_channels": 5}),
    "dense": ("dense", {"out_features": 3}),
    "batchnorm": ("batchnorm", {"epsilon": 0.01, "momentum": 0.7}),
    "batchnorm_by_batch": ("batchnorm", {"epsilon": 0.01, "momentum": 0.7, "eval_batchnorm": "batch"}),
}
OF_TRANSFORMERS = {
    "gelu": ("gelu", {}),
    "attend": ("attend", {"heads": 2}),
    "layernorm": ("layernorm", {"epsilon": 0.1}),
    "tokens": ("tokens", {}),
    "class_token": ("class_token", {}),
}
CASES |= OF_TRANSFORMERS
WITHOUT = {"gluon": OF_TRANSFORMERS, "chainer": OF_TRANSFORMERS}
"""Cases of layers that a family lacks."""


def cases_of(family):
    return {name: case for name, case in CASES.items() if name not in WITHOUT.get(family, ())}


NOISE = 3e-6
"""float32's error relative to the largest value. Padding one pixel on the wrong side causes more than 1e-2."""


def draw_weights(random, layer, options):
    channels = IMAGES[3]
    if layer == "conv":
        height, width = (options["kernel"],) * 2 if isinstance(options["kernel"], int) else options["kernel"]
        shape = (height, width, channels // options.get("groups", 1), options["out_channels"])
        bias = {"bias": random.normal(size=shape[3])} if options["use_bias"] else {}
        return {"kernel": random.normal(size=shape), **bias}
    if layer == "dense":
        return {"kernel": random.normal(size=(channels, options["out_features"])), "bias": random.normal(size=3)}
    if layer == "layernorm":
        return {name: random.uniform(0.5, 1.5, channels) for name in ("scale", "offset")}
    if layer == "tokens":
        shapes = {"token": (1, 1, channels), "position": (1, 1 + IMAGES[1] * IMAGES[2], channels)}
        return {name: random.normal(size=shape) for name, shape in shapes.items()}
    if layer == "batchnorm":
        return {name: random.uniform(0.5, 1.5, channels) for name in ("scale", "offset", "mean", "variance")}
    return {}


def single(arrays):
    return {name: array.astype(np.float32) for name, array in arrays.items()}


@functools.cache
def draw(name):
    """Draw the case's images, the weights, and the factor of the output in the gradient, all in float32.

    Half of the values are negative. Near the left and upper edges all are, so that zeros in a padding would be the
    maximum there.
    """
    layer, options = CASES[name]
    random = np.random.default_rng(sum(map(ord, name)))
    x = random.normal(size=IMAGES)
    x[:, :2, :2] = -np.abs(x[:, :2, :2]) - 0.1
    weights = single(draw_weights(random, layer, options))
    x = x.astype(np.float32)
    y = getattr(layers_in_float64, layer)(x, weights, **options)
    return x, weights, random.normal(size=y.shape).astype(np.float32)


@functools.cache
def expect(name):
    """Return the arrays that a family should compute; see compute_layers.py."""
    layer, options = CASES[name]
    x, weights, upstream = draw(name)
    x, weights = x.astype(np.float64), {key: array.astype(np.float64) for key, array in weights.items()}

    def compute(given):
        return getattr(layers_in_float64, layer)(given, weights, **options)

    expected = {"y": compute(x), "gradient": layers_in_float64.gradient_by_input(compute, x, upstream)}
    if layer == "batchnorm":
        after = weights | layers_in_float64.update_statistics(x, weights, **options)
        expected |= {"mean": after["mean"], "variance": after["variance"]}
        expected["evaluated"] = layers_in_float64.evaluate_batchnorm(x, after, **options)
    return expected


@pytest.fixture(scope="session")
def computed(environment_python, kept):
    """Return a function from a family and a case to the computed arrays. Each family starts once for all cases."""

    def start(family, folder):
        for name in CASES:
            x, weights, upstream = draw(name)
            np.savez(folder / f"{name}.npz", x=x, upstream=upstream, **weights)
        python, script = environment_python(ENVIRONMENTS[family]), Path(__file__).with_name("compute_layers.py")
        environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
        command = [python, str(script), family, str(folder)]
        (folder / f"cases.{family}.json").write_text(json.dumps(cases_of(family)))
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-3000:]

    @functools.cache
    def find_folder(family):
        return kept(f"layers-{family}", ENVIRONMENTS[family], lambda folder: start(family, folder))

    def get(family, name):
        return dict(np.load(find_folder(family) / f"{name}.{family}.npz"))

    return get


@pytest.mark.parametrize(
    ("family", "name"),
    [(family, name) for family in ENVIRONMENTS for name in cases_of(family)],
)
def test_a_layer_matches_numpy_in_float64(family, name, computed):
    seen, expected = computed(family, name), expect(name)
    for key, array in expected.items():
        assert seen[key].shape == array.shape, key
        assert np.abs(seen[key] - array).max() < NOISE * np.abs(array).max(), key


@pytest.mark.parametrize("family", ENVIRONMENTS)
def test_evaluation_by_the_batch_is_another_than_by_running_statistics(family, computed):
    """The difference is far larger than the noise that the test above allows."""
    x, weights, _ = draw("batchnorm_by_batch")
    seen, (_, options) = computed(family, "batchnorm_by_batch"), CASES["batchnorm"]
    running = {name: seen[name] for name in ("mean", "variance")}
    by_running = layers_in_float64.evaluate_batchnorm(x, weights | running, **options)
    assert np.abs(seen["evaluated"] - by_running).max() > 0.1 * np.abs(by_running).max()

"""
Compare torchvision's own networks with the workflow's, which have the same weights after the conversion.

Prints a line of JSON for each network: the largest logit, and the largest difference of two logits. All arrays are
random, so that each matters. Both networks get the same images of levels, which each normalises as its weights expect.
"""

import argparse
import importlib
import json
import warnings

import numpy as np
import torch

from howmanygpus.measure.frameworks.torch.family import load_weights
from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
from howmanygpus.measure.frameworks.torch.walker import build
from howmanygpus.measure.input.prepared import NORMALIZATIONS
from howmanygpus.measure.models.conversion import NUM_CLASSES, convert
from howmanygpus.measure.models.networks import import_network

THEIR_NAMES = {"vit_b16": "vit_b_16"}
THEIR_OPTIONS = {"inception_v3": {"init_weights": False, "transform_input": True}}
"""torchvision sets transform_input when it loads its published weights."""
SIZES = {"inception_v3": 75, "vit_b16": 224, "alexnet": 224}
"""Pixels of the images' sides, if the network cannot take 64."""


def import_torchvision():
    """Return torchvision. Its usual wheel imports beside a PyTorch without CUDA if these operators are declared."""
    if torch.version.cuda is None:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    return importlib.import_module("torchvision")


@torch.no_grad()
def draw_arrays(network: torch.nn.Module) -> None:
    generator = torch.Generator().manual_seed(1)
    for name, array in network.state_dict().items():
        if name.endswith("running_var"):
            array.uniform_(0.5, 1.5, generator=generator)
        elif array.is_floating_point() and (array.ndim != 2 and array.ndim != 4):
            array.add_(torch.randn(array.shape, generator=generator) * 0.1)
        elif name == "heads.head.weight":  # which torchvision fills with zeros
            array.normal_(0, 0.05, generator=generator)


def normalize(images: np.ndarray, normalization: str) -> torch.Tensor:
    """images: uint8, channels last. Returns float32, channels first."""
    mean, std = (np.asarray(values, np.float32) for values in NORMALIZATIONS[normalization])
    return torch.from_numpy(np.ascontiguousarray(((images - mean) / std).transpose(0, 3, 1, 2)))


@torch.no_grad()
def compare(torchvision, model: str) -> dict:
    torch.manual_seed(0)
    theirs = getattr(torchvision.models, THEIR_NAMES.get(model, model))(**THEIR_OPTIONS.get(model, {})).eval()
    draw_arrays(theirs)
    weights, _ = convert(model, {name: array.float().numpy() for name, array in theirs.state_dict().items()})
    size = SIZES.get(model, 64)
    ours = build(model, (size, size, 3), NUM_CLASSES, LayerContext("local"))
    load_weights(ours, weights)
    images = np.random.default_rng(2).integers(0, 256, (2, size, size, 3), dtype=np.uint8)
    expected = theirs(normalize(images, "imagenet"))
    found = ours.eval()(normalize(images, import_network(model).PUBLISHED.normalization))
    return {"model": model, "largest": float(expected.abs().max()), "difference": float((expected - found).abs().max())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    warnings.simplefilter("ignore")
    torchvision = import_torchvision()
    for model in parser.parse_args().models:
        print(json.dumps(compare(torchvision, model)), flush=True)


if __name__ == "__main__":
    main()

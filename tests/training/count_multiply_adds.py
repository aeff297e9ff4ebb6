"""
Count the multiply-adds of models for one image of 224x224 pixels with three channels, and 1000 classes.

The arguments are models. They are built with the layers of the PyTorch family; what is printed is JSON, by model. As in
published numbers, only convolutions and dense layers count.
"""

import importlib
import json
import sys

import torch
from torch import nn

from howmanygpus.train.frameworks.torch.layers.context import LayerContext

IMAGE, NUM_CLASSES = (224, 224, 3), 1000


def count(model: str) -> int:
    build = importlib.import_module(f"howmanygpus.train.models.{model}.torch").build
    network, counted = build(IMAGE, NUM_CLASSES, LayerContext("local")).eval(), []

    def add(layer, _inputs, output):
        per_value = layer.weight[0].numel()
        counted.append(per_value * output.numel())

    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(add)
    with torch.no_grad():
        network(torch.zeros(1, 3, 224, 224))
    return sum(counted)


print(json.dumps({model: count(model) for model in sys.argv[1:]}))

"""
Count the multiply-adds of models for one image.

The argument is JSON: the shape of the image and the number of classes, by model. Models are built with the layers of
the PyTorch family; what is printed is JSON, by model. As in published numbers, only convolutions, dense layers and the
two products of each attention count.
"""

import json
import sys

import torch
from torch import nn

from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
from howmanygpus.measure.frameworks.torch.walker import build

ATTEND = torch.nn.functional.scaled_dot_product_attention


def count(model: str, image_shape: list[int], num_classes: int) -> int:
    network, counted = build(model, tuple(image_shape), num_classes, LayerContext("local")).eval(), []
    height, width, channels = image_shape

    def add(layer, _inputs, output):
        per_value = layer.weight[0].numel()
        counted.append(per_value * output.numel())

    def attend(query, key, value, **options):
        counted.append(query.numel() * key.shape[-2] + query.shape[:-1].numel() * value.shape[-2] * value.shape[-1])
        return ATTEND(query, key, value, **options)

    torch.nn.functional.scaled_dot_product_attention = attend
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(add)
    with torch.no_grad():
        network(torch.zeros(1, channels, height, width))
    return sum(counted)


print(json.dumps({model: count(model, *sizes) for model, sizes in json.loads(sys.argv[1]).items()}))

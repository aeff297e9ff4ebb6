"""Measure the gradient noise of a problem whose true gradient and noise are known. Called by a test, in PyTorch."""

import argparse
import json

import torch
from torch import nn

from howmanygpus.measure.frameworks.torch.gradient_noise import measure_norms


class Product(nn.Module):
    """The gradient of the mean output is the mean of the images. It counts its calls, as BatchNorm does."""

    def __init__(self, num_pixels: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num_pixels))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, images):
        self.calls += 1
        return images @ self.weight


class HalfProduct(Product):
    """Its gradients pass through float16."""

    def forward(self, images):
        return (images.half() @ self.weight.half()).float()


def measure_small_gradients(loss_scale: float) -> tuple[float, float]:
    """Measure gradients of 1e-8, which are zero in float16."""
    parts = [(torch.ones(1, 4), None)] * 2
    return measure_norms(
        HalfProduct(4), lambda outputs, _: 1e-8 * outputs.mean(), parts, lambda value: value, loss_scale
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gradient", type=float, required=True, help="each entry of the true gradient")
    parser.add_argument("--deviation", type=float, required=True, help="standard deviation of each entry of an image's")
    parser.add_argument("--num-pixels", type=int, required=True)
    parser.add_argument("--images", type=int, required=True, help="of a small batch")
    parser.add_argument("--parts", type=int, required=True, help="small batches in a measurement")
    arguments = parser.parse_args()
    network, measured = Product(arguments.num_pixels), []
    torch.manual_seed(1)
    for _ in range(200):
        noise = torch.randn(arguments.parts, arguments.images, arguments.num_pixels) * arguments.deviation
        parts = [(images, None) for images in arguments.gradient + noise]
        measured.append(measure_norms(network, lambda outputs, _: outputs.mean(), parts, lambda value: value, 1.0))
    assert network.weight.grad is None and network.calls == 0
    print(json.dumps({"measured": measured, "in_fp16": [measure_small_gradients(scale) for scale in (1.0, 2.0**16)]}))


if __name__ == "__main__":
    main()

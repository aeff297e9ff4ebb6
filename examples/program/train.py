"""
Train a small network on random images in PyTorch, with DistributedDataParallel on several devices.

A program of a user, as howmanygpus starts it once for each device. It knows nothing of howmanygpus but report_progress.
"""

import argparse
import os
import random

import torch
from report_progress import control, report, stop_exchange
from torch import distributed, nn

WIDTHS = {"small": 8, "large": 32}
CLASSES = 10


def make_images(number: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images, float32 (number, 1, 12, 12), whose class is the row that is bright."""
    labels = torch.randint(CLASSES, (number,), generator=generator)
    images = torch.randn(number, 1, 12, 12, generator=generator)
    images[torch.arange(number), 0, labels] += 1.5
    return images, labels


def make_network(width: int) -> nn.Module:
    layers = [nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(36 * width, CLASSES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=WIDTHS, default="small")
    parser.add_argument("--batch", type=int, default=64, help="images per device and step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps-per-epoch", type=int, default=30)
    arguments = parser.parse_args()
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    local_rank, on_gpu = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.is_available()
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
    torch.manual_seed(arguments.seed)
    random.seed(arguments.seed)
    network = make_network(WIDTHS[arguments.model]).to(device)
    if world_size > 1:
        distributed.init_process_group("nccl" if on_gpu else "gloo")
        network = nn.parallel.DistributedDataParallel(network)
        stop_exchange(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(1000 * arguments.seed + rank)
    test_images, test_labels = make_images(500, torch.Generator().manual_seed(0))
    keeps_batch, kept = control("resident_input"), None
    report(parameters=sum(each.numel() for each in network.parameters()))
    report(step=0, versions={"torch": torch.__version__})
    for epoch in range(1, arguments.epochs + 1):
        for step in range((epoch - 1) * arguments.steps_per_epoch + 1, epoch * arguments.steps_per_epoch + 1):
            if kept is None or not keeps_batch:
                kept = [each.to(device) for each in make_images(arguments.batch, generator)]
            images, labels = kept
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(images), labels)
            loss.backward()
            optimizer.step()
            if step == 1 or step % 5 == 0:
                # Reading the loss waits for the device.
                report(step=step, samples=step * arguments.batch * world_size, epoch=epoch, loss=loss.item())
        with torch.no_grad():
            right = network(test_images.to(device)).argmax(1).cpu() == test_labels
        report(epoch=epoch, step=step, metric={"accuracy": right.float().mean().item()})
    if world_size > 1:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()

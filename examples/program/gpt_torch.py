"""
Train a GPT on sentences, in PyTorch. torchrun starts it, and --strategy says how its processes share the work.

ddp: each process has a copy of the network and of the optimizer's state (DistributedDataParallel).
zero1: each has a copy of the network and a part of the optimizer's state (ZeroRedundancyOptimizer).
fsdp2: each has a part of all parameters, gradients and state (fully_shard).
"""

import argparse
import math
import os

import torch
from report_progress import control, report, stop_exchange
from sentences import ALPHABET, SIZES, encode, is_reported, write_text
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn import functional


class Block(nn.Module):
    """Causal attention and a perceptron, each behind a normalisation and beside a residual connection."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        queries, keys, values = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.attend(self.norm_1(hidden)).chunk(3, -1)
        )
        attended = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        hidden = hidden + self.project(attended.transpose(1, 2).flatten(2))
        return hidden + self.perceptron(self.norm_2(hidden))


class GPT(nn.Module):
    """A transformer that predicts each next character from those before it."""

    def __init__(self, layers: int, width: int, heads: int, length: int):
        super().__init__()
        self.characters, self.places = nn.Embedding(len(ALPHABET), width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, len(ALPHABET))
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02 if "project" not in name else 0.02 / math.sqrt(2 * layers))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        hidden = self.characters(text) + self.places.weight
        for block in self.blocks:
            hidden = block(hidden)
        # One row per character: fully_shard warns of an output that is a view, as that of a layer on sequences is.
        return self.head(self.norm(hidden).flatten(0, 1))


def compute_loss(model: nn.Module, drawn: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(drawn[:, :-1]), drawn[:, 1:].flatten())


def draw_sequences(text: torch.Tensor, number: int, length: int, generator: torch.Generator) -> torch.Tensor:
    """Return sequences of the text, each one character longer than the model reads."""
    starts = torch.randint(len(text) - length, (number, 1), generator=generator)
    return text[starts + torch.arange(length + 1)]


def distribute(model: nn.Module, strategy: str, learning_rate: float) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return the model and its optimizer as the processes share them."""
    if strategy == "fsdp2":
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
        return model, torch.optim.AdamW(model.parameters(), lr=learning_rate)
    model = nn.parallel.DistributedDataParallel(model)
    if strategy == "zero1":
        return model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=learning_rate)
    return model, torch.optim.AdamW(model.parameters(), lr=learning_rate)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", choices=["ddp", "zero1", "fsdp2"], default="ddp")
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--tokens", type=int, default=1024, help="characters per device and step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps-per-epoch", type=int, default=40)
    parser.add_argument("--learning-rate", type=float, default=0.002)
    arguments = parser.parse_args()
    layers, width, heads, length = SIZES[arguments.size]
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if on_gpu else "gloo")
    rank, num_processes = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(arguments.seed)
    model = GPT(layers, width, heads, length).to(device)
    num_parameters = sum(each.numel() for each in model.parameters())
    model, optimizer = distribute(model, arguments.strategy, arguments.learning_rate)
    stop_exchange(model)
    keeps_batch, drawn = control("resident_input"), None
    generator = torch.Generator().manual_seed(1000 * arguments.seed + rank)
    text = torch.tensor(encode(write_text(4000, arguments.seed)))
    other_text = torch.tensor(encode(write_text(400, seed=0)))
    unseen = draw_sequences(other_text, 32, length, torch.Generator().manual_seed(0)).to(device)
    about = {"parameters": num_parameters, "sharded": arguments.strategy == "fsdp2"}
    report(step=0, versions={"torch": torch.__version__}, **about)
    step = 0
    for epoch in range(1, arguments.epochs + 1):
        for step in range((epoch - 1) * arguments.steps_per_epoch + 1, epoch * arguments.steps_per_epoch + 1):
            if drawn is None or not keeps_batch:
                drawn = draw_sequences(text, arguments.tokens // length, length, generator).to(device)
            optimizer.zero_grad()
            loss = compute_loss(model, drawn)
            loss.backward()
            optimizer.step()
            if is_reported(step):
                # Reading the loss waits for the device.
                report(epoch=epoch, step=step, samples=step * arguments.tokens * num_processes, loss=loss.item())
        with torch.no_grad():
            test_loss = compute_loss(model, unseen).item()
        report(epoch=epoch, step=step, metric={"test_loss": test_loss, "perplexity": math.exp(test_loss)})
        if rank == 0:
            print(f"epoch {epoch}: loss {test_loss:.3f}, perplexity {math.exp(test_loss):.3f}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

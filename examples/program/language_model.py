"""
Train a small language model on text that it generates, in PyTorch, with DistributedDataParallel or fully_shard (FSDP).

A program of a user, as torchrun starts it. It prints its progress for people; report_progress is for control runs.
"""

import argparse
import os
import random

import torch
from report_progress import control, report, stop_exchange
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard

LENGTH = 64
"""Characters of a sequence."""
WIDTH, HEADS, LAYERS = 64, 4, 2
PEOPLE = ("the cook", "a gardener", "my sister", "the night guard", "an old sailor")
ACTIONS = ("counts", "remembers", "paints", "looks for", "carries away")
THINGS = ("seven lamps", "a wooden boat", "the last train", "green apples", "her letters")


def write_text(num_sentences: int, seed: int) -> str:
    draws = random.Random(seed)
    return "".join(" ".join(map(draws.choice, (PEOPLE, ACTIONS, THINGS))) + ".\n" for _ in range(num_sentences))


ALPHABET = sorted(set(write_text(1000, seed=0)))


def encode(text: str) -> torch.Tensor:
    return torch.tensor([ALPHABET.index(character) for character in text])


class LanguageModel(nn.Module):
    """A transformer that predicts each next character from those before it."""

    def __init__(self):
        super().__init__()
        self.characters, self.places = nn.Embedding(len(ALPHABET), WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(LAYERS)
        )
        self.head = nn.Linear(WIDTH, len(ALPHABET))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        hidden = self.characters(text) + self.places.weight
        for layer in self.layers:
            hidden = layer(hidden, src_mask=self.mask, is_causal=True)
        return self.head(hidden)


def distribute(model: nn.Module, strategy: str) -> nn.Module:
    """Give each process a copy of the model (ddp), or its part of every parameter (fsdp)."""
    if strategy == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    for layer in model.layers:
        fully_shard(layer)
    return fully_shard(model)


def draw_sequences(text: torch.Tensor, number: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sequences of the text, and for each of their characters the next one."""
    starts = torch.randint(len(text) - LENGTH, (number, 1), generator=generator)
    drawn = text[starts + torch.arange(LENGTH + 1)]
    return drawn[:, :-1], drawn[:, 1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strategy", choices=["ddp", "fsdp"], default="ddp")
    parser.add_argument("--sequences", type=int, default=16, help="sequences per device and step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps-per-epoch", type=int, default=40)
    arguments = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if on_gpu else "gloo")
    rank, num_processes = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(arguments.seed)
    model = distribute(LanguageModel().to(device), arguments.strategy)
    stop_exchange(model)
    keeps_batch, kept = control("resident_input"), None
    num_parameters = sum(each.numel() for each in model.parameters())
    report(parameters=num_parameters, sharded=arguments.strategy == "fsdp", step=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.005)
    generator = torch.Generator().manual_seed(1000 * arguments.seed + rank)
    text = encode(write_text(4000, arguments.seed))
    unseen = draw_sequences(encode(write_text(400, seed=0)), 64, torch.Generator().manual_seed(0))
    tokens_per_step = arguments.sequences * LENGTH * num_processes
    for epoch in range(1, arguments.epochs + 1):
        for step in range((epoch - 1) * arguments.steps_per_epoch + 1, epoch * arguments.steps_per_epoch + 1):
            if kept is None or not keeps_batch:
                kept = [each.to(device) for each in draw_sequences(text, arguments.sequences, generator)]
            given, following = kept
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(given).flatten(0, 1), following.flatten())
            loss.backward()
            optimizer.step()
            if step == 1 or step % 5 == 0:
                loss = loss.item()
                report(step=step)
            if rank == 0 and (step == 1 or step % 5 == 0):
                print(f"step {step}: loss {loss:.4f}, {step * tokens_per_step} tokens", flush=True)
        with torch.no_grad():
            given, following = (each.to(device) for each in unseen)
            accuracy = (model(given).argmax(2) == following).float().mean().item()
        if rank == 0:
            print(f"epoch {epoch}, step {step}: {accuracy:.3f} of the next characters are right", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

"""What gpt_torch.py and gpt_jax.py share: text that is drawn from a list of words, sizes, and the steps to report."""

import random

SIZES = {"small": (2, 64, 4, 64), "full": (6, 384, 6, 256)}
"""Layers, width, heads and characters of a sequence: 0.1 and 10.8 million parameters."""
PEOPLE = ("the cook", "a gardener", "my sister", "the night guard", "an old sailor", "our teacher", "a stranger")
ACTIONS = ("counts", "remembers", "paints", "looks for", "carries away", "sells", "has lost")
THINGS = ("seven lamps", "a wooden boat", "the last train", "green apples", "her letters", "the only key")
PLACES = ("at home", "behind the mill", "in a small town", "by the river", "before sunrise")


def write_text(num_sentences: int, seed: int) -> str:
    """Return sentences such as `The cook paints her letters by the river.`"""
    draws = random.Random(seed)
    parts = (PEOPLE, ACTIONS, THINGS, PLACES)
    return "".join(" ".join(map(draws.choice, parts)).capitalize() + ".\n" for _ in range(num_sentences))


ALPHABET = sorted(set(write_text(1000, seed=0)))


def encode(text: str) -> list[int]:
    """Return the number of each character in ALPHABET."""
    numbers = {character: number for number, character in enumerate(ALPHABET)}
    return [numbers[character] for character in text]


def is_reported(step: int) -> bool:
    """Whether the loss of a step is reported: of all first ones, which show whether strategies do the same work."""
    return step <= 10 or step % 5 == 0

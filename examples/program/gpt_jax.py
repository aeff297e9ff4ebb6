"""
Train the GPT of gpt_torch.py in JAX. One process uses all devices, and --strategy says how these share the arrays.

data: each device has a copy of the network and of the optimizer's state, and its part of each batch.
sharded: each has a part of all parameters, gradients and state too, which XLA gathers where they are used.
"""

import argparse
import math
from functools import partial

import jax
import numpy as np
import optax
from jax import numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from report_progress import report
from sentences import ALPHABET, SIZES, encode, is_reported, write_text


def make_parameters(key: jax.Array, layers: int, width: int, length: int) -> dict:
    """Return all arrays; those of the layers are stacked."""
    shapes = {"attend": (width, 3 * width), "project": (width, width), "widen": (width, 4 * width)}
    shapes |= {"narrow": (4 * width, width)}
    keys = iter(jax.random.split(key, 3 + len(shapes)))
    blocks = {name: 0.02 * jax.random.normal(next(keys), (layers, *shape)) for name, shape in shapes.items()}
    blocks |= {f"{name}_bias": jnp.zeros((layers, shape[1])) for name, shape in shapes.items()}
    blocks |= {f"{name}_scale": jnp.ones((layers, width)) for name in ("attention", "perceptron")}
    outer = {"characters": (len(ALPHABET), width), "places": (length, width), "head": (width, len(ALPHABET))}
    arrays = {name: 0.02 * jax.random.normal(next(keys), shape) for name, shape in outer.items()}
    return arrays | {"blocks": blocks, "last_scale": jnp.ones(width)}


def normalise(hidden: jax.Array, scale: jax.Array) -> jax.Array:
    centred = hidden - hidden.mean(-1, keepdims=True)
    return scale * centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def apply_block(heads: int, hidden: jax.Array, block: dict) -> tuple[jax.Array, None]:
    """Causal attention and a perceptron, each behind a normalisation and beside a residual connection."""
    number, length, width = hidden.shape
    joint = normalise(hidden, block["attention_scale"]) @ block["attend"] + block["attend_bias"]
    parts = (part.reshape(number, length, heads, width // heads) for part in jnp.split(joint, 3, axis=-1))
    attended = jax.nn.dot_product_attention(*parts, is_causal=True).reshape(number, length, width)
    hidden = hidden + attended @ block["project"] + block["project_bias"]
    wide = jax.nn.gelu(normalise(hidden, block["perceptron_scale"]) @ block["widen"] + block["widen_bias"])
    return hidden + wide @ block["narrow"] + block["narrow_bias"], None


def compute_loss(heads: int, parameters: dict, drawn: jax.Array) -> jax.Array:
    """Return the mean cross-entropy. drawn: sequences, each one character longer than the model reads."""
    hidden = parameters["characters"][drawn[:, :-1]] + parameters["places"]
    hidden, _ = jax.lax.scan(partial(apply_block, heads), hidden, parameters["blocks"])
    logits = normalise(hidden, parameters["last_scale"]) @ parameters["head"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, drawn[:, 1:]).mean()


def share(array: jax.Array, mesh: jax.sharding.Mesh, strategy: str) -> NamedSharding:
    """Return how an array is divided: along the last axis that the number of devices divides, or not at all."""
    whole = [None] * array.ndim
    axes = [axis for axis, size in enumerate(array.shape) if size % mesh.size == 0]
    if strategy == "sharded" and axes:
        whole[axes[-1]] = "devices"
    return NamedSharding(mesh, PartitionSpec(*whole))


def draw_sequences(text: np.ndarray, number: int, length: int, generator: np.random.Generator) -> np.ndarray:
    starts = generator.integers(len(text) - length, size=(number, 1))
    return text[starts + np.arange(length + 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", choices=["data", "sharded"], default="sharded")
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=1024, help="characters per device and step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps-per-epoch", type=int, default=40)
    parser.add_argument("--learning-rate", type=float, default=0.002)
    arguments = parser.parse_args()
    layers, width, heads, length = SIZES[arguments.size]
    # Has no effect where JAX finds GPUs.
    jax.config.update("jax_num_cpu_devices", arguments.devices)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: arguments.devices]), ("devices",))
    parameters = make_parameters(jax.random.key(arguments.seed), layers, width, length)
    parameters = jax.tree.map(lambda array: jax.device_put(array, share(array, mesh, arguments.strategy)), parameters)
    optimizer = optax.adamw(arguments.learning_rate, b2=0.999, weight_decay=0.01)
    # The moments are divided as the parameters from which they are made.
    state = jax.jit(optimizer.init)(parameters)
    placed = jax.tree.map(lambda array: share(array, mesh, arguments.strategy), (parameters, state))
    state = jax.device_put(state, placed[1])
    by_sequence = NamedSharding(mesh, PartitionSpec("devices"))
    loss_of = partial(compute_loss, heads)

    @partial(jax.jit, donate_argnums=(0, 1), out_shardings=(*placed, NamedSharding(mesh, PartitionSpec())))
    def train_step(parameters: dict, state: optax.OptState, drawn: jax.Array):
        loss, gradients = jax.value_and_grad(loss_of)(parameters, drawn)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    generator = np.random.default_rng(arguments.seed)
    text, other_text = (np.array(encode(write_text(*of))) for of in ((4000, arguments.seed), (400, 0)))
    unseen = jax.device_put(draw_sequences(other_text, 32, length, np.random.default_rng(0)), by_sequence)
    tokens_per_step = arguments.devices * arguments.tokens
    report(step=0, versions={"jax": jax.__version__})
    step = 0
    for epoch in range(1, arguments.epochs + 1):
        for step in range((epoch - 1) * arguments.steps_per_epoch + 1, epoch * arguments.steps_per_epoch + 1):
            drawn = draw_sequences(text, tokens_per_step // length, length, generator)
            parameters, state, loss = train_step(parameters, state, jax.device_put(drawn, by_sequence))
            if is_reported(step):
                # Reading the loss waits for the devices.
                report(epoch=epoch, step=step, samples=step * tokens_per_step, loss=float(loss))
        test_loss = float(jax.jit(loss_of)(parameters, unseen))
        report(epoch=epoch, step=step, metric={"test_loss": test_loss, "perplexity": math.exp(test_loss)})
        print(f"epoch {epoch}: loss {test_loss:.3f}, perplexity {math.exp(test_loss):.3f}", flush=True)


if __name__ == "__main__":
    main()

"""
Train a network on one device as an expert would, so that the workflow's rates have a rival.

    python -m howmanygpus_tools.check_gpu.expert --task JSON --steps 60 nhwc compile

Network, batch, image size, optimizer and precision (bf16) are those of a study, and the network is the project's own.
The loop is not: its images stay on the device, and it has no copier, no DistributedDataParallel, no markers and no
windows. Each way prints a line of JSON. Each process trains in one framework, because JAX would take the memory.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

GIB = 2**30
MEAN, STD = 127.5, 64.0


@dataclass(frozen=True)
class Task:
    """The part of a study that a loop needs, see steps.describe_task. image_shape: height, width, channels."""

    model: str
    image_shape: tuple[int, int, int]
    num_classes: int
    batch_size: int
    learning_rate: float
    momentum: float


@dataclass(frozen=True)
class Loop:
    """step: enqueues a step and returns its loss. wait: blocks until a loss is there. describe: device and memory."""

    step: Callable[[], Any]
    wait: Callable[[Any], Any]
    describe: Callable[[], dict]


def make_torch_loop(task: Task, way: str) -> Loop:
    """Return a loop of PyTorch: `nchw` as documented, `nhwc` with all that helps without a compiler, or compiled."""
    import torch

    from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
    from howmanygpus.measure.frameworks.torch.walker import build

    device, is_fast = torch.device("cuda" if torch.cuda.is_available() else "cpu"), way != "nchw"
    torch.backends.cudnn.benchmark = is_fast
    layout = torch.channels_last if is_fast else torch.contiguous_format
    network = build(task.model, task.image_shape, task.num_classes, LayerContext(batchnorm="local"))
    network = network.to(device, memory_format=layout).train()
    rates = {"lr": task.learning_rate, "momentum": task.momentum}
    optimizer = torch.optim.SGD(network.parameters(), **rates, fused=is_fast or None)
    shape = (task.batch_size, *task.image_shape)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, device=device)
    labels = torch.randint(0, task.num_classes, shape[:1], device=device)

    def compute_loss(images, labels):
        x = (images.permute(0, 3, 1, 2).to(torch.float32, memory_format=layout) - MEAN) / STD
        with torch.autocast(device.type, torch.bfloat16):
            logits = network(x)
        return torch.nn.functional.cross_entropy(logits.float(), labels)

    if way in ("compile", "graphs"):
        compute_loss = torch.compile(compute_loss, dynamic=False, mode="reduce-overhead" if way == "graphs" else None)

    def step():
        if way == "graphs":
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad()
        loss = compute_loss(images, labels)
        loss.backward()
        optimizer.step()
        return loss

    def describe() -> dict:
        is_cuda = device.type == "cuda"
        peak_gib = torch.cuda.max_memory_allocated() / GIB if is_cuda else None
        name = torch.cuda.get_device_name() if is_cuda else "cpu"
        return {"device": name, "peak_memory_gib": peak_gib, "version": torch.__version__}

    return Loop(step, lambda loss: torch.cuda.synchronize() if device.type == "cuda" else None, describe)


def forget_torch() -> None:
    """Free the memory of the last loop of PyTorch, its peak and its compiled code."""
    import gc

    import torch

    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def make_jax_loop(task: Task) -> Loop:
    """Return a loop over one jitted step, whose state is a flat list so that calling it takes the host little time."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax
    from flax import nnx

    from howmanygpus.measure.frameworks.flax.layers.context import LayerContext
    from howmanygpus.measure.frameworks.flax.walker import build

    network = build(task.model, task.image_shape, task.num_classes, LayerContext(batchnorm="local", dtype=jnp.bfloat16))
    network.train()
    graph, parameters, others = nnx.split(network, nnx.Param, ...)
    leaves, tree = jax.tree.flatten((parameters, others))
    num_parameters = len(jax.tree.leaves(parameters))
    optimizer = optax.sgd(task.learning_rate, momentum=task.momentum)

    @partial(jax.jit, donate_argnums=(0, 1))
    def train_step(leaves, moments, images, labels):
        def compute_loss(own):
            network = nnx.merge(graph, *jax.tree.unflatten(tree, [*own, *leaves[num_parameters:]]), copy=True)
            logits = network((images.astype(jnp.float32) - MEAN) / STD).astype(jnp.float32)
            loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
            return loss, jax.tree.leaves(nnx.split(network, nnx.Param, ...)[2])

        own = leaves[:num_parameters]
        (loss, others), gradients = jax.value_and_grad(compute_loss, has_aux=True)(own)
        updates, moments = optimizer.update(gradients, moments)
        return [*optax.apply_updates(own, updates), *others], moments, loss

    random = np.random.default_rng(0)
    images = jax.device_put(random.integers(0, 256, (task.batch_size, *task.image_shape), dtype=np.uint8))
    labels = jax.device_put(random.integers(0, task.num_classes, task.batch_size).astype(np.int32))
    state = [leaves, optimizer.init(leaves[:num_parameters])]

    def step():
        state[0], state[1], loss = train_step(*state, images, labels)
        return loss

    def describe() -> dict:
        (device, *_), peak = jax.devices(), None
        if device.platform != "cpu":
            peak = device.memory_stats()["peak_bytes_in_use"] / GIB
        return {"device": device.device_kind, "peak_memory_gib": peak, "version": jax.__version__}

    return Loop(step, lambda loss: loss.block_until_ready(), describe)


WAYS: dict[str, tuple[str, Callable[[Task], Loop]]] = {
    **{way: ("pytorch_ddp", partial(make_torch_loop, way=way)) for way in ("nhwc", "compile", "nchw", "graphs")},
    "jax": ("jax_sharding", make_jax_loop),
}
"""Framework of the workflow that each way rivals, and what makes its loop."""
FIRST_WAYS = ("nhwc", "compile", "jax", "nchw")
"""Ways that are trained if none are named, in order of worth."""


def measure(loop: Loop, task: Task, num_steps: int) -> dict:
    """Return images/s and seconds of a step, after the first and a fifth of the steps, and the host's part of it."""
    started = time.perf_counter()
    loop.wait(loop.step())
    first_step_s = time.perf_counter() - started
    for _ in range(max(1, num_steps // 5)):
        loss = loop.step()
    loop.wait(loss)
    started = time.perf_counter()
    for _ in range(num_steps):
        loss = loop.step()
    host_s = time.perf_counter() - started
    loop.wait(loss)
    elapsed_s = time.perf_counter() - started
    rates = {"images_per_s": num_steps * task.batch_size / elapsed_s, "step_s": elapsed_s / num_steps}
    rates |= {"host_step_s": host_s / num_steps, "first_step_s": first_step_s}
    return rates | {"loss": float(loss) if math.isfinite(loss) else None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", type=json.loads, required=True, help="JSON: the fields of Task")
    parser.add_argument("--steps", type=int, required=True, help="measured steps")
    parser.add_argument("ways", nargs="+", choices=WAYS, help="ways of training, of one framework")
    arguments = parser.parse_args()
    task = Task(**arguments.task | {"image_shape": tuple(arguments.task["image_shape"])})
    for way in arguments.ways:
        framework, make_loop = WAYS[way]
        loop: Loop | None = None
        row = {"model": task.model, "batch_size": task.batch_size, "way": way}
        try:
            loop = make_loop(task)
            row |= measure(loop, task, arguments.steps) | loop.describe()
        except Exception as error:  # the next way may work
            row["error"] = f"{type(error).__name__}: {str(error)[:500]}"
        print(json.dumps(row), flush=True)
        loop = None
        if framework == "pytorch_ddp":
            forget_torch()


if __name__ == "__main__":
    main()

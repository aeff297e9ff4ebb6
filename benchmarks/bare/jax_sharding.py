"""An endless loop over a jitted flax nnx and optax step on one device, as users of JAX write it."""

import sys

import jax
import numpy as np
import optax
from clock import report
from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.context import LayerContext
from howmanygpus.measure.frameworks.flax.walker import build

data_dir, batch_size, report_steps = sys.argv[1], *map(int, sys.argv[2:4])
images = np.load(f"{data_dir}/train_images.npy").astype(np.float32) / 127.5 - 1
labels = np.load(f"{data_dir}/train_labels.npy")
model = build("resnet44", (32, 32, 3), 10, LayerContext(batchnorm="local"))
model.train()
graph, parameters, state = nnx.split(model, nnx.Param, ...)
optimizer = optax.sgd(0.01, momentum=0.9)
optimizer_state = optimizer.init(parameters)


@jax.jit(donate_argnums=(0, 1, 2))
def train_step(parameters, state, optimizer_state, images, labels):
    def compute_loss(parameters):
        model = nnx.merge(graph, parameters, state, copy=True)
        loss = optax.softmax_cross_entropy_with_integer_labels(model(images), labels).mean()
        return loss, nnx.split(model, nnx.Param, ...)[2]

    (loss, state), gradients = jax.value_and_grad(compute_loss, has_aux=True)(parameters)
    updates, optimizer_state = optimizer.update(gradients, optimizer_state)
    return optax.apply_updates(parameters, updates), state, optimizer_state, loss


random, steps = np.random.default_rng(), 0
while True:
    for _ in range(report_steps):
        batch = random.integers(len(images), size=batch_size)
        parameters, state, optimizer_state, loss = train_step(
            parameters, state, optimizer_state, images[batch], labels[batch]
        )
    loss.block_until_ready()
    steps += report_steps
    report(steps * batch_size)

"""
Compute the cases of test_layers.py with the layers of one family, in the family's environment.

The arguments are the family and a folder. The folder has cases.<family>.json and, for every case, the inputs
(<case>.npz: x, upstream and weights). The results are written beside them (<case>.<family>.npz): `y`, and `gradient`,
which is the gradient of sum(upstream * y) by x. For batch normalisation they include `evaluated`, which is the output
in evaluation after one batch, and the running `mean` and `variance` after that.
"""

import importlib
import json
import sys
from pathlib import Path

import numpy as np


def find_layer(family: str, layer: str):
    """Return the family's function of that name, from the file of its layers that has it."""
    folder = Path(importlib.import_module(f"howmanygpus.measure.frameworks.{family}.layers").__file__).parent
    for path in sorted(folder.glob("*.py")):
        module = importlib.import_module(f"howmanygpus.measure.frameworks.{family}.layers.{path.stem}")
        function = getattr(module, layer, None)
        if getattr(function, "__module__", None) == module.__name__:
            return function
    raise LookupError(f"no layer {layer} in {folder}")


def place(array: np.ndarray, first: bool = True) -> np.ndarray:
    """Move the channels of images before or behind rows and columns. Return any other array unchanged."""
    if array.ndim != 4:
        return array
    return np.ascontiguousarray(array.transpose((0, 3, 1, 2) if first else (0, 2, 3, 1)))


EVAL_BATCHNORM = "eval_batchnorm"
"""Option of batch normalisation that layers find in their context."""
WITH_WEIGHTS = ("conv", "dense", "batchnorm", "layernorm", "tokens")
NUM_PIXELS = 6 * 7
OF_TOKENS = {"layernorm": 4, "attend": 12, "class_token": 4}
"""Layers of sequences, and the values of each token."""


def drop_context(options: dict) -> dict:
    return {name: value for name, value in options.items() if name != EVAL_BATCHNORM}


def find_context(options: dict) -> dict:
    """Return what a layer's context has besides its defaults."""
    return {name: value for name, value in options.items() if name == EVAL_BATCHNORM}


def build(family: str, layer: str, context, in_channels: int, options: dict):
    """Return the layer as an object with weights, or None if it is a plain function."""
    options = drop_context(options)
    outputs = {"conv": "out_channels", "dense": "out_features"}.get(layer)
    sizes = [*([NUM_PIXELS] if layer == "tokens" else []), in_channels, *([options.pop(outputs)] if outputs else [])]
    if layer == "conv":
        sizes.append(options.pop("kernel"))
    return find_layer(family, layer)(context, *sizes, **options)


def call(family: str, layer: str, built, x, options: dict):
    """Return the layer's output on x, whose channels are at the family's position."""
    if layer == "dense":
        return built(x[:, :, 0, 0] if family != "flax" else x[:, 0, 0])
    if layer in OF_TOKENS:
        x = find_layer(family, "flatten")(x).reshape(len(x), -1, OF_TOKENS[layer])
    if built is not None:
        return built(x)
    if layer == "concatenate":
        return find_layer(family, layer)([x, -x])
    return find_layer(family, layer)(x, **options)


def compute_torch(layer, options, x, upstream, weights):
    import torch

    from howmanygpus.measure.frameworks.torch import family
    from howmanygpus.measure.frameworks.torch.layers.context import LayerContext

    holder, built = torch.nn.Module(), None
    if layer in WITH_WEIGHTS:
        built = holder.layer = build(
            "torch", layer, LayerContext("local", **find_context(options)), x.shape[3], options
        )
    if layer == "batchnorm":
        built.inflation = (x.size / x.shape[3]) / (x.size / x.shape[3] - 1)
    named = {f"layer.{name}": array for name, array in weights.items()}
    family.load_weights(holder, named)
    tensor = torch.from_numpy(place(x)).requires_grad_()
    y = call("torch", layer, built, tensor, options)
    y.backward(torch.from_numpy(place(upstream)))
    seen = {"y": place(y.detach().numpy(), False), "gradient": place(tensor.grad.numpy(), False)}
    if layer == "batchnorm":
        seen["evaluated"] = place(holder.eval().layer(tensor.detach()).detach().numpy(), False)
        seen |= {name.partition(".")[2]: array for name, array in family.read_weights(holder, named).items()}
    return seen


def compute_keras(layer, options, x, upstream, weights):
    import keras
    import tensorflow as tf

    from howmanygpus.measure.frameworks.keras import family
    from howmanygpus.measure.frameworks.keras.layers.context import LayerContext

    inputs, function, options = keras.Input(x.shape[1:]), find_layer("keras", layer), dict(options)
    context = LayerContext("local", **find_context(options))
    as_sequence = inputs
    if layer in OF_TOKENS:
        as_sequence = keras.ops.reshape(inputs, (-1, x[0].size // OF_TOKENS[layer], OF_TOKENS[layer]))
    if layer in WITH_WEIGHTS:
        sizes = [options.pop(name) for name in ("out_channels", "out_features", "kernel") if name in options]
        given = inputs[:, 0, 0, :] if layer == "dense" else as_sequence
        outputs = function(context, given, "layer", *sizes, **drop_context(options))
    else:
        outputs = function([inputs, -inputs]) if layer == "concatenate" else function(as_sequence, **options)
    model = keras.Model(inputs, outputs)
    family.load_weights(model, {f"layer.{name}": array for name, array in weights.items()})
    tensor = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        y = model(tensor, training=True)
        total = tf.reduce_sum(y * upstream)
    seen = {"y": y.numpy(), "gradient": tf.convert_to_tensor(tape.gradient(total, tensor)).numpy()}
    if layer == "batchnorm":
        seen["evaluated"] = model(tensor, training=False).numpy()
        seen |= {name.partition(".")[2]: array for name, array in family.read_weights(model).items()}
    return seen


def compute_flax(layer, options, x, upstream, weights):
    import jax
    from flax import nnx

    from howmanygpus.measure.frameworks.flax import family
    from howmanygpus.measure.frameworks.flax.layers.context import LayerContext

    jax.config.update("jax_default_matmul_precision", "highest")
    holder = nnx.Module()
    if layer in WITH_WEIGHTS:
        holder.layer = build("flax", layer, LayerContext("local", **find_context(options)), x.shape[3], options)
    # Outside of a traced program, flax would write running statistics into arrays of NumPy, which are not its own.
    family.load_weights(holder, {f"layer.{name}": jax.numpy.asarray(array) for name, array in weights.items()})
    holder.train()
    graph, state = nnx.split(holder)

    def compute(given):
        # This uses a copy, because a traced function may not change the statistics of a layer outside it.
        own = nnx.merge(graph, state, copy=True)
        return call("flax", layer, getattr(own, "layer", None), given, options)

    y, pull_back = jax.vjp(compute, x)
    seen = {"y": np.asarray(y), "gradient": np.asarray(pull_back(upstream)[0])}
    if layer == "batchnorm":
        holder.layer(x)
        holder.eval()
        seen["evaluated"] = np.asarray(holder.layer(x))
        state = nnx.state(holder, (nnx.Param, nnx.BatchStat))
        seen |= {name.partition(".")[2]: array for name, array in family.read_weights(state).items()}
    return seen


def compute_gluon(layer, options, x, upstream, weights):
    import mxnet as mx

    from howmanygpus.measure.frameworks.gluon import family
    from howmanygpus.measure.frameworks.gluon.layers.context import LayerContext

    class Holder(mx.gluon.nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.layer = None
            if layer in WITH_WEIGHTS:
                self.layer = build(
                    "gluon", layer, LayerContext("local", 1, **find_context(options)), x.shape[3], options
                )

        def hybrid_forward(self, F, x):
            if layer == "dense":
                return self.layer(F.reshape(F.slice(x, begin=(None, None, 0, 0), end=(None, None, 1, 1)), (0, -1)))
            return call("gluon", layer, self.layer, x, options)

    seen = {}
    # What evaluates by the batch cannot be hybridised.
    for form in ("hybridised", "") if options.get(EVAL_BATCHNORM) != "batch" else ("",):
        holder = Holder()
        holder.initialize()
        roles = {name: getattr(holder.layer, family.ROLES[name]) for name in weights}
        family.load_weights(roles, weights)
        if form:
            holder.hybridize()
        tensor = mx.nd.array(place(x))
        tensor.attach_grad()
        with mx.autograd.record():
            y = holder(tensor)
        y.backward(mx.nd.array(place(upstream)))
        now = {"y": place(y.asnumpy(), False), "gradient": place(tensor.grad.asnumpy(), False)}
        if layer == "batchnorm":
            # MXNet updates the statistics when the output has been computed.
            now["evaluated"] = place(holder(tensor).asnumpy(), False)
            now |= {name: roles[name].data().asnumpy() for name in weights}
        assert not seen or all(np.array_equal(now[name], seen[name]) for name in now), f"{layer} differs if hybridised"
        seen = now
    return seen


def compute_chainer(layer, options, x, upstream, weights):
    import chainer

    from howmanygpus.measure.frameworks.chainer import family
    from howmanygpus.measure.frameworks.chainer.layers.context import LayerContext

    class Holder(family.Network):
        def __init__(self):
            chainer.Chain.__init__(self)
            with self.init_scope():
                self.model = chainer.Chain()
            with self.model.init_scope():
                if layer in WITH_WEIGHTS:
                    self.model.layer = build(
                        "chainer", layer, LayerContext("local", **find_context(options)), x.shape[3], options
                    )

    holder, named = Holder(), {f"layer.{name}": array for name, array in weights.items()}
    built = getattr(holder.model, "layer", None)
    if layer == "batchnorm":
        built.inflation = (x.size / x.shape[3]) / (x.size / x.shape[3] - 1)
    holder.load_weights(named)
    variable = chainer.Variable(place(x))
    with chainer.using_config("train", True):
        y = call("chainer", layer, built, variable, options)
    y.grad = place(upstream)
    y.backward()
    seen = {"y": place(y.array, False), "gradient": place(variable.grad, False)}
    if layer == "batchnorm":
        with chainer.using_config("train", False):
            seen["evaluated"] = place(built(variable).array, False)
        seen |= {name.partition(".")[2]: array for name, array in holder.read_weights(named).items()}
    return seen


def main() -> None:
    family, folder = sys.argv[1], Path(sys.argv[2])
    compute = globals()[f"compute_{family}"]
    for name, (layer, options) in json.loads((folder / f"cases.{family}.json").read_text()).items():
        options = {key: as_tuple(value) for key, value in options.items()}
        arrays = dict(np.load(folder / f"{name}.npz"))
        seen = compute(layer, options, arrays.pop("x"), arrays.pop("upstream"), arrays)
        np.savez(folder / f"{name}.{family}.npz", **seen)


def as_tuple(value):
    """Convert a list from JSON to a tuple, because JSON has no tuples."""
    return tuple(map(as_tuple, value)) if isinstance(value, list) else value


if __name__ == "__main__":
    main()

"""Models in users' files are initialised by their framework, and wrong ones are refused with file, fault and remedy."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from project import ROOT

TORCH = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, channels, num_classes):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, 4, 3), nn.BatchNorm2d(4)
        self.last = nn.LazyLinear(num_classes)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.last(self.change(x.flatten(1)))

    def change(self, x):
        return x

def build(image_shape, num_classes):
    return Net(image_shape[2], num_classes)
"""
KERAS = """
import keras
from keras import layers

class Net(keras.Model):
    def __init__(self, num_classes):
        super().__init__()
        self.conv, self.norm = layers.Conv2D(4, 3), layers.BatchNormalization()
        self.last = layers.Dense(num_classes)

    def call(self, x, training=False):
        x = keras.ops.relu(self.norm(self.conv(x), training=training))
        return self.last(self.change(keras.ops.reshape(x, (-1, 6 * 6 * 4)), training))

    def change(self, x, training):
        return x

def build(image_shape, num_classes):
    return Net(num_classes)
"""
FLAX = """
import jax.numpy as jnp
from flax import nnx

class Net(nnx.Module):
    def __init__(self, channels, num_classes, rngs):
        self.conv = nnx.Conv(channels, 4, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.last = nnx.Linear(4, num_classes, rngs=rngs)

    def __call__(self, x):
        return self.last(self.change(nnx.relu(self.norm(self.conv(x))).mean(axis=(1, 2))))

    def change(self, x):
        return x

def build(image_shape, num_classes, *, rngs):
    return Net(image_shape[2], num_classes, rngs)
"""
TEXTS = {"torch": TORCH, "keras": KERAS, "flax": FLAX}
ENVIRONMENTS = {"torch": "pytorch-cpu", "keras": "tensorflow-cpu", "flax": "jax-cpu"}
ARRAYS = {
    "torch": [
        *("conv.bias.vector", "conv.weight.matrix", "last.bias.vector", "last.weight.matrix", "norm.bias.vector"),
        *("norm.running_mean.state", "norm.running_var.state", "norm.weight.vector"),
    ],
    "keras": [
        *("0.net.conv2d.kernel.matrix", "1.net.conv2d.bias.vector", "2.net.batch_normalization.gamma.vector"),
        *("3.net.batch_normalization.beta.vector", "4.net.batch_normalization.moving_mean.state"),
        *("5.net.batch_normalization.moving_variance.state", "6.net.dense.kernel.matrix", "7.net.dense.bias.vector"),
    ],
    "flax": [
        *("conv.bias.vector", "conv.kernel.matrix", "last.bias.vector", "last.kernel.matrix", "norm.bias.vector"),
        *("norm.mean.state", "norm.scale.vector", "norm.var.state"),
    ],
}
SAME = "    def change(self, x):\n        return x"
SAME_IN_KERAS = "    def change(self, x, training):\n        return x"
EVERYWHERE = {
    "import": (lambda text: f"import a_package_that_is_not_here\n{text}", "cannot be imported: ModuleNotFoundError"),
    "exit": (lambda text: f"{text}\nraise SystemExit(3)", "cannot be imported: SystemExit: 3"),
    "function": (lambda text: text.replace("def build", "def make"), "has no function build; define build(image_sh"),
    "raises": (
        lambda text: f"{text}    raise ValueError('no idea')\n".replace("    return Net", "    _ = Net"),
        "raised Va",
    ),
    "nothing": (lambda text: text.replace("    return Net(", "    Net("), "build returned NoneType; return a"),
    "classes": (
        lambda text: text.replace("    return Net(", "    num_classes += 1\n    return Net("),
        "returned (2, 6) of f",
    ),
    "forward": (lambda text: text.replace("self.last(self", "self.lost(self"), "the model raised AttributeError"),
    "not_finite": (lambda text: text.replace("return self.last(", "return 1e38 * 1e38 * self.last("), "not finite"),
    "tuple": (lambda text: text.replace("return self.last(", "return 1, self.last("), "returned tuple; return one"),
}
OF_FAMILY = {
    "torch": {
        "integers": (
            "return self.last(self.change(x.flatten(1)))",
            "return self.last(self.change(x.flatten(1))).long()",
            "the model returned (2, 5) of int64 for 2 images; return float logits (2, 5)",
        ),
        "unused": (
            "self.last =",
            "self.lost = nn.Linear(2, 2)\n        self.last =",
            "lost.weight, lost.bias take no part",
        ),
        "random": (SAME, f"{SAME} + torch.rand(1)", "in evaluation returns other logits for the same images"),
    },
    "keras": {
        "integers": (
            "return self.last(self.change(keras.ops.reshape(x, (-1, 6 * 6 * 4)), training))",
            'return keras.ops.cast(self.last(keras.ops.reshape(x, (-1, 6 * 6 * 4))), "int32")',
            "the model returned (2, 5) of int32 for 2 images; return float logits (2, 5)",
        ),
        "random": (SAME_IN_KERAS, f"{SAME_IN_KERAS} + keras.random.normal((1,))", "in evaluation returns other logits"),
    },
    "flax": {
        "integers": (
            "mean(axis=(1, 2))))",
            "mean(axis=(1, 2)))).astype(int)",
            "the model returned (2, 5) of int32 for 2 images; return float logits (2, 5)",
        ),
        "dropout": (
            "self.conv =",
            "self.drop = nnx.Dropout(0.5, rngs=rngs)\n        self.conv =",
            "has variables of Rng",
        ),
    },
}
PLAIN = "import random\nfrom torch import nn\ndef build(image_shape, num_classes):\n    "
WHOLE = {
    "torch": {
        "frozen": (
            f"{PLAIN}return nn.Sequential(nn.Flatten(), nn.Linear(192, num_classes)).requires_grad_(False)\n",
            "the model has no parameter to train",
        ),
        "changing": (
            f"{PLAIN}width = random.SystemRandom().randrange(9999)\n"
            "    return nn.Sequential(nn.Flatten(), nn.Linear(192, width), nn.Linear(width, num_classes))\n",
            "build returned another model when called again",
        ),
    }
}
ODD = {
    "torch": """
import random
import numpy as np
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.first, self.last = nn.Linear(192, 8), nn.Linear(8, num_classes)
        {made}

    def forward(self, x):
        x = torch.relu(self.first(x.flatten(1)))
        {done}
        return self.last(x)

def build(image_shape, num_classes):
    return Net(num_classes)
""",
    "keras": """
import random
import keras
import numpy as np
import tensorflow as tf
from keras import layers

class Net(keras.Model):
    def __init__(self, num_classes):
        super().__init__()
        self.first, self.last = layers.Dense(8), layers.Dense(num_classes)
        {made}

    def call(self, x, training=False):
        x = keras.ops.relu(self.first(keras.ops.reshape(x, (-1, 192))))
        {done}
        return self.last(x)

def build(image_shape, num_classes):
    return Net(num_classes)
""",
    "flax": """
import random
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

class Net(nnx.Module):
    def __init__(self, num_classes, rngs, dtype):
        self.first = nnx.Linear(192, 8, rngs=rngs, dtype=dtype)
        self.last = nnx.Linear(8, num_classes, rngs=rngs, dtype=dtype)
        {made}

    def __call__(self, x):
        x = nnx.relu(self.first(x.reshape(len(x), -1)))
        {done}
        return self.last(x)

def build(image_shape, num_classes, *, rngs, dtype=None):
    return Net(num_classes, rngs, dtype)
""",
}
"""A model of each family with places for an oddity."""
UNSEEDED = "np.random.default_rng().permutation(8).tolist()"
REFUSED = {
    "torch": {
        "softmax": ("pass", "return self.last(x).softmax(1)", "sum is 1 for every image, as a softmax does"),
        "sigmoid": ("pass", "return self.last(x).sigmoid()", "as a sigmoid does"),
        "seldom_random": ("pass", "x = x + (torch.rand(()) < 0.4)", "in evaluation returns other logits"),
        "complex": (
            "self.spectral = nn.Parameter(torch.randn(8, dtype=torch.cfloat))",
            "x = (x * self.spectral).real",
            "the parameter spectral is complex64; make it a float32 parameter",
        ),
        "double": ("self.first.double()", "pass", "the parameter first.weight is float64; keep"),
        "sparse": (
            'self.register_buffer("table", torch.eye(8).to_sparse_csr())',
            "x = x @ self.table.to_dense()",
            "table is sparse, and cannot be stored with the weights; make it dense",
        ),
        "experts": (
            "self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))",
            "x = self.experts[int(x.mean() > 9)](x)",
            "experts.1.weight, experts.1.bias take no part in the logits; remove them, or set requires_grad = False, "
            "or, if the images decide which take part, multiply what they compute by zero",
        ),
        "layerdrop": (
            "self.gain = nn.Parameter(torch.ones(8))",
            "x = x if self.training and torch.rand(()) < 0.2 else x * self.gain",
            "gain take no part in the logits in some steps",
        ),
        "wired": (f"self.wiring = {UNSEEDED}", "x = x[:, self.wiring]", "different outputs in evaluation"),
        "wired_in_training": (
            f"self.wiring = {UNSEEDED}",
            "x = x[:, self.wiring] if self.training else x",
            "different outputs in training",
        ),
        "not_finite_parameter": (
            'self.gain = nn.Parameter(torch.full((8,), float("inf")))',
            "x = torch.minimum(x, self.gain)",
            "initial weights are not finite in gain",
        ),
        "bf16_index_put": (
            "pass",
            "y = torch.zeros(len(x), 8); y[torch.arange(len(x))] = self.first(torch.ones(len(x), 192)); x = x + y",
            "in training in bf16, by autocast, raised RuntimeError",
        ),
    },
    "keras": {
        "softmax": ("pass", "return keras.ops.softmax(self.last(x))", "sum is 1 for every image, as a softmax does"),
        "policy": (
            'keras.config.set_dtype_policy("mixed_bfloat16")',
            "pass",
            "the file sets the precision policy mixed",
        ),
        "layer_in_half": (
            'self.last = layers.Dense(num_classes, dtype="mixed_float16")',
            "pass",
            "computes in float16",
        ),
        "double": ('self.first = layers.Dense(8, dtype="float64")', "pass", "is float64; keep weights in float32"),
        "numpy": ("pass", "x = x + float(np.random.rand()) * training", "draws from numpy.random or random"),
        "wired": (
            f"self.wiring = {UNSEEDED}",
            "x = keras.ops.take(x, self.wiring, axis=1)",
            "different outputs in evaluation",
        ),
        "graph": (
            "pass",
            "x = x if not training or float(keras.ops.sum(x)) > 0 else 2 * x",
            "in a graph of TensorFlow",
        ),
        "bf16_concat": ("pass", "x = x + tf.zeros(8)", "in training in bf16 raised InvalidArgumentError"),
    },
    "flax": {
        "softmax": ("pass", "return nnx.softmax(self.last(x))", "sum is 1 for every image, as a softmax does"),
        "coarse": (
            "self.first = nnx.Linear(192, 8, rngs=rngs, param_dtype=jnp.bfloat16)",
            "pass",
            "is bfloat16; keep parameters in float32",
        ),
        "numpy": ("pass", "x = x + float(np.random.rand())", "in evaluation returns other logits"),
        "numpy_in_training": (
            "self.norm = nnx.BatchNorm(8, rngs=rngs)",
            "x = self.norm(x) + (0 if self.norm.use_running_average else float(np.random.rand()))",
            "draws from numpy.random or random",
        ),
        "wired": (f"self.wiring = {UNSEEDED}", "x = x[:, np.array(self.wiring)]", "different outputs in evaluation"),
        "bf16_scan": (
            "pass",
            "x = jax.lax.scan(lambda carry, row: (carry + row * jnp.ones(8), 0), x[0], x)[0] + x",
            "the model in bf16 raised TypeError",
        ),
    },
}
"""What an odd model makes and does, and words of its error. Names with `bf16` are refused only in that precision."""
ACCEPTED = {
    "torch": {
        "mask": (
            'self.register_buffer("mask", torch.triu(torch.full((8, 8), float("-inf")), 1))',
            "x = x @ self.mask.softmax(-1)",
        ),
        "expanded": (
            'self.register_buffer("gain", torch.full((1,), 0.5).expand(8))',
            "x = x * self.gain",
        ),
        "drawn": (
            'self.register_buffer("kept", torch.tensor([random.random() * np.random.rand() for _ in range(8)]))',
            "x = x * self.kept",
        ),
        "seldom": ("pass", "x = nn.functional.dropout(x, 1e-4, self.training)"),
        "seldom_of_numpy": ("pass", "x = 0 * x if self.training and random.random() < 1e-4 else x"),
        "seldom_of_own": (
            "self.generator = np.random.default_rng(1)",
            "x = 0 * x if self.training and self.generator.random() < 1e-4 else x",
        ),
        "in_vain": ("pass", "x = 0 * x if torch.rand(()) < 0.4 and self.training else x"),
        "remembers": (
            'self.register_buffer("mean", torch.zeros(8))',
            "self.mean += 0.1 * x.detach().mean(0) * self.training; x = x - self.mean.clone()",
        ),
        "threads": ('torch.set_float32_matmul_precision("high")', "pass"),
    },
    "keras": {
        "drawn": (
            "kept = [random.random() * np.random.rand() for _ in range(8)]; "
            'self.kept = self.add_weight(shape=(8,), initializer=lambda *_, **__: keras.ops.array(kept, "float32"))',
            "x = x * self.kept",
        ),
        "seldom": ("self.drop = layers.Dropout(1e-4)", "x = self.drop(x, training=training)"),
        "seldom_of_keras": ("pass", "x = keras.random.dropout(x, 1e-4) if training else x"),
        "seldom_of_tensorflow": ("pass", "x = tf.nn.dropout(x, 1e-4) if training else x"),
        "last_in_float32": ('self.last = layers.Dense(num_classes, dtype="float32")', "pass"),
    },
    "flax": {
        "drawn": (
            "self.kept = nnx.Param(jnp.array([random.random() * np.random.rand() for _ in range(8)]))",
            "x = x * self.kept[...]",
        ),
    },
}
"""What an odd model makes and does that is right."""
DROPOUT = {
    "torch": (SAME, SAME.replace("return x", "return nn.functional.dropout(x, 0.5, self.training)")),
    "keras": (
        SAME_IN_KERAS,
        SAME_IN_KERAS.replace("return x", "return keras.random.dropout(x, 0.5) if training else x"),
    ),
}


def list_cases(family: str) -> dict[str, tuple[str, str]]:
    """Return the text of each wrong file and the words of its error, by the names of the cases."""
    text = TEXTS[family]
    texts = {name: (change(text), words) for name, (change, words) in EVERYWHERE.items()}
    for name, (old, new, words) in OF_FAMILY[family].items():
        texts[name] = (text.replace(old, new), words)
    texts |= WHOLE.get(family, {})
    for name, (made, done, words) in REFUSED[family].items():
        texts[name] = (ODD[family].format(made=made, done=done), words)
    assert all(changed != text for changed, _ in texts.values())
    return texts


@pytest.fixture(scope="module", params=TEXTS)
def ended(request, kept, environment_python):
    """Return the family, what each file ended with, and the words that its error should have."""
    family, cases = request.param, list_cases(request.param)

    def make(folder):
        texts = {name: text for name, (text, _) in cases.items()}
        texts |= {"fine": TEXTS[family], "draws": TEXTS[family].replace(*DROPOUT.get(family, ("", "")))}
        texts |= {name: ODD[family].format(made=made, done=done) for name, (made, done) in ACCEPTED[family].items()}
        texts |= {name.removeprefix("bf16_"): texts[name] for name in REFUSED[family] if name.startswith("bf16")}
        for name, text in texts.items():
            (folder / f"{name}.py").write_text(text)
        (folder / "cases.json").write_text(json.dumps({name: str(folder / f"{name}.py") for name in texts}))
        script = Path(__file__).with_name("initialize_models.py")
        words = [script, family, folder / "cases.json", folder / "ended.json"]
        variables = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib"), "CUDA_VISIBLE_DEVICES": ""}
        command = [environment_python(ENVIRONMENTS[family]), *words]
        done = subprocess.run(command, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]

    found = json.loads((kept(f"own-models-{family}", ENVIRONMENTS[family], make) / "ended.json").read_text())
    return family, found, {name: words for name, (_, words) in cases.items()}


def test_weights_are_drawn_by_the_framework_and_its_seed(ended):
    family, found, _ = ended
    fine = found["fine"]
    assert fine["arrays"] == sorted(ARRAYS[family])
    assert fine["same"] and fine["differs"], "the seed alone decides"
    assert found["draws"]["draws"] == (family in DROPOUT) and not fine["draws"]


def test_odd_models_are_accepted_and_rare_draws_seen(ended):
    family, found, _ = ended
    right = [*ACCEPTED[family], *(name.removeprefix("bf16_") for name in REFUSED[family] if name.startswith("bf16"))]
    for name in right:
        assert isinstance(found[name], dict), found[name]
        assert found[name]["same"], f"{name}: the seed alone decides"
        assert found[name]["draws"] == (name.startswith("seldom") or name == "in_vain"), name


def test_each_wrong_file_ends_in_its_error(ended):
    _, found, words = ended
    for name, expected in words.items():
        message = found[name]
        assert isinstance(message, str), f"{name} was accepted"
        assert expected in message and f"{name}.py" in message and "; " in message, message

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
            f"{PLAIN}width = random.randrange(9999)\n"
            "    return nn.Sequential(nn.Flatten(), nn.Linear(192, width), nn.Linear(width, num_classes))\n",
            "build returned another model when called again",
        ),
    }
}
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
    assert all(changed != text for changed, _ in texts.values())
    return texts


@pytest.fixture(scope="module", params=TEXTS)
def ended(request, kept, environment_python):
    """Return the family, what each file ended with, and the words that its error should have."""
    family, cases = request.param, list_cases(request.param)

    def make(folder):
        texts = {name: text for name, (text, _) in cases.items()}
        texts |= {"fine": TEXTS[family], "draws": TEXTS[family].replace(*DROPOUT.get(family, ("", "")))}
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


def test_each_wrong_file_ends_in_its_error(ended):
    _, found, words = ended
    for name, expected in words.items():
        message = found[name]
        assert isinstance(message, str), f"{name} was accepted"
        assert expected in message and f"{name}.py" in message and "; " in message, message

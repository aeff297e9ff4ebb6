"""Every wrong file of a user's model ends in its error before anything starts: value, place and remedy."""

import pytest

from helpers.wrong_models import LETTERS, UNNAMED, enter_folder, refuse_model

TORCH = "import torch\ndef build(image_shape, num_classes, width=8):\n    return None\n"
FLAX = "from flax import nnx\ndef build(image_shape, num_classes, *, rngs):\n    return None\n"
HOW = "write def build(image_shape, num_classes, **options)"

FILES = {
    "does not exist": ("gone.py", None, {}, 's.model: "gone.py" does not exist, seen from {here}; correct the path'),
    "null byte": (
        "net.py",
        "import torch\nx = '\x00'\n",
        {},
        's.model: "net.py" is not valid Python (source code string cannot contain null bytes); correct it',
    ),
    "suffix": ("./net.txt", TORCH, {}, 's.model: "./net.txt" is no file of Python; give it the suffix .py'),
    "digit": ("2nd.py", TORCH, {}, f's.model: "2nd.py" {UNNAMED}; rename the file {LETTERS}'),
    "capitals": ("My-Net.py", TORCH, {}, f's.model: "My-Net.py" {UNNAMED}; rename the file {LETTERS}'),
    "keyword": ("class.py", TORCH, {}, f's.model: "class.py" {UNNAMED}; rename the file {LETTERS}'),
    "taken": (
        "resnet44.py",
        TORCH,
        {},
        's.model: "resnet44.py" has the name of the workflow\'s own network resnet44; rename the file',
    ),
    "syntax": (
        "net.py",
        "import torch\ndef build(:\n",
        {},
        's.model: "net.py" is not valid Python in line 2 (invalid syntax); correct it',
    ),
    "other function": (
        "net.py",
        "import torch\ndef make(a): pass\n",
        {},
        f's.model: "net.py" has no function build, only make; {HOW}',
    ),
    "no function": ("net.py", "import torch\n", {}, f's.model: "net.py" has no function build; {HOW}'),
    "class": (
        "net.py",
        "import torch\nclass build: pass\n",
        {},
        f's.model: "net.py" has a build in line 2 that is no plain function; {HOW}',
    ),
    "coroutine": (
        "net.py",
        "import torch\nasync def build(a, b): pass\n",
        {},
        f's.model: "net.py" has a build in line 2 that is no plain function; {HOW}',
    ),
    "parameters": (
        "net.py",
        "import torch\ndef build(image_shape): return 1\n",
        {},
        f's.model: "net.py" has a function build in line 2 that takes 1 of image_shape and num_classes; {HOW}',
    ),
    "parameters in another order": (
        "net.py",
        "import torch\ndef build(num_classes, image_shape): return 1\n",
        {},
        f's.model: "net.py" has a function build in line 2 with num_classes before image_shape; {HOW}',
    ),
    "without a value": (
        "net.py",
        "import torch\ndef build(a, b, width): return 1\n",
        {},
        "s.model_options: build in line 2 of net.py needs width; give it here, or give it a default there",
    ),
    "unknown option": (
        "net.py",
        TORCH,
        {"model_options": {"witdh": 4}},
        "s.model_options.witdh: 4 is no parameter of build in line 2 of net.py; did you mean width?",
    ),
    "filled in": (
        "net.py",
        TORCH,
        {"model_options": {"num_classes": 4}},
        "s.model_options.num_classes: 4 is filled in by the workflow; remove it",
    ),
    "no family": (
        "net.py",
        "def build(a, b): pass\n",
        {},
        's.model: "net.py" imports none of torch, keras, tensorflow and flax; import one, or give '
        "`model_family`, which "
        "is torch, keras, flax",
    ),
    "two families": (
        "net.py",
        f"import keras\n{TORCH}",
        {},
        's.model: "net.py" imports packages of torch and keras; say which builds the model by `model_family`, which is '
        "torch, keras, flax",
    ),
    "nothing returned": (
        "net.py",
        "import torch\ndef build(image_shape, num_classes):\n    torch.nn.Flatten()\n",
        {},
        's.model: "net.py" has a function build in line 2 that returns nothing; return the model',
    ),
    "no rngs": (
        "net.py",
        FLAX.replace(", *, rngs", ""),
        {},
        's.model: "net.py" has a function build in line 2 without a parameter rngs, from which flax draws the '
        "initial weights; write def build(image_shape, num_classes, *, rngs, **options)",
    ),
    "other family": (
        "net.py",
        TORCH,
        {"frameworks": ["keras_mirrored"]},
        's.frameworks: ["keras_mirrored"] has none that trains net.py, a model of PyTorch; name some of pytorch_ddp, '
        "pytorch_dp, horovod_pytorch",
    ),
    "file beside it": (
        "net.py",
        "import broken\n" + TORCH,
        {},
        's.model: "net.py" imports broken.py, which is not valid Python in line 1 (invalid syntax); correct it',
    ),
    "relative": (
        "net.py",
        "from .blocks import Block\n" + TORCH,
        {},
        's.model: "net.py" imports .blocks relatively, which a single file cannot; write `import blocks` for a file '
        "beside it",
    ),
    "family of a network": (
        "small_cnn",
        None,
        {"model_family": "torch"},
        's.model_family: "torch" is given, but the model small_cnn is no file of yours; leave the key out',
    ),
    "batch": (
        "net.py",
        TORCH,
        {"per_device_batch_size": [2000]},
        "s.per_device_batch_size: 2000 on 1 device is more than the 1437 training images; lower it or num_gpus",
    ),
    "not divisible": (
        "net.py",
        TORCH,
        {"scaling": "strong", "num_gpus": [1, 2], "per_device_batch_size": [7]},
        "s.num_gpus: 2 does not divide the global batch of 7 images under strong scaling; choose a "
        "per_device_batch_size "
        "that every device count divides",
    ),
}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    enter_folder(tmp_path, monkeypatch)


@pytest.mark.parametrize(("model", "text", "changes", "message"), FILES.values(), ids=FILES)
def test_a_wrong_file_is_refused(tmp_path, model, text, changes, message):
    (tmp_path / "broken.py").write_text("def (")
    if text is not None:
        (tmp_path / model).write_text(text)
    assert refuse_model(model, **changes) == message.replace("{here}", str(tmp_path))

"""Every wrong folder of a user's model ends in its error before anything starts: value, place and remedy."""

import re
import shutil

import pytest

from helpers.wrong_models import LETTERS, UNNAMED, enter_folder, refuse_model
from project import ROOT

OF_FOLDER = "write def build(image_shape, num_classes, context, width)"


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    enter_folder(tmp_path, monkeypatch)


def replace(file: str, old: str, new: str):
    """Return a change of a folder."""

    def change(folder):
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new))

    return change


def write(file: str, text: str):
    return lambda folder: (folder / file).write_text(text)


def remove(file: str):
    return lambda folder: (folder / file).unlink()


FOLDERS = {
    "no parameters.py": (
        remove("parameters.py"),
        {},
        's.model: "./net" is a folder without network.py and without parameters.py; write the network\'s layout in '
        "network.py, or its canonical arrays in parameters.py, or name a single file, such as model.py, with a "
        "function build",
    ),
    "no torch.py": (
        remove("torch.py"),
        {"frameworks": ["keras_mirrored"]},
        's.model: "./net" has no torch.py, from which the parity gate computes its reference; write it, also '
        "for studies "
        "of other frameworks",
    ),
    "no file of a family": (
        remove("keras.py"),
        {"frameworks": ["keras_mirrored"]},
        's.model: "./net" is not written for keras_mirrored; write net/keras.py or leave keras_mirrored out',
    ),
    "syntax": (
        write("torch.py", "x = 1\ndef build(:\n"),
        {},
        's.model: "./net" has net/torch.py, which is not valid Python in line 2 (invalid syntax); correct it',
    ),
    "missing module": (
        replace("torch.py", "import torch\n", "import torch\nfrom .blocks import Block\n"),
        {},
        's.model: "./net" is not complete: net/torch.py imports blocks, which is not in the folder; add the '
        "file or correct "
        "the import",
    ),
    "not relative": (
        lambda folder: (
            write("blocks.py", "WIDTH = 3\n")(folder),
            replace("torch.py", "import torch\n", "import torch, blocks\n")(folder),
        ),
        {},
        's.model: "./net" has net/torch.py, which imports blocks as if it were installed; write `from '
        ".blocks import ...` "
        "or `from . import blocks`",
    ),
    "parameters.py does not import": (
        write("parameters.py", "import torch_is_not_here\n"),
        {},
        's.model: "./net" has a parameters.py that cannot be imported (ModuleNotFoundError: No module named '
        "'torch_is_not_here' in parameters.py, line 1); correct it; it can import numpy, "
        "howmanygpus.measure.models and files "
        "of the folder, but no framework",
    ),
    "no function parameters": (
        replace("parameters.py", "def parameters", "def arrays"),
        {},
        's.model: "./net" has a parameters.py without a function parameters; write def parameters(image_shape, '
        "num_classes, **options)",
    ),
    "options are a list": (
        write("parameters.py", "OPTIONS = ['width']\ndef parameters(a, b): pass\n"),
        {},
        's.model: "./net" has OPTIONS that are no dictionary of rules; write it like {"width": {"type": "integer", '
        '"minimum": 1, "default": 16}}',
    ),
    "option without a default": (
        replace("parameters.py", ', "default": 16', ""),
        {},
        's.model: "./net" has OPTIONS whose width has no default; add "default": ...',
    ),
    "rule that is none": (
        replace("parameters.py", '"type": "integer"', '"type": "whole"'),
        {},
        "s.model: \"./net\" has OPTIONS whose width is no rule of JSON Schema ('whole' is not valid under "
        "any of the given "
        "schemas); correct it",
    ),
    "default against its rule": (
        replace("parameters.py", '"default": 16', '"default": 0'),
        {},
        's.model: "./net" has OPTIONS whose width has a default against its own rule (0 is less than the '
        "minimum of 1); "
        "change the default or the rule",
    ),
    "unknown option": (
        None,
        {"model_options": {"witdh": 4}},
        's.model_options: unknown key "witdh"; did you mean width?',
    ),
    "value of an option": (
        None,
        {"model_options": {"width": 0}},
        "s.model_options.width: 0 is too small; give at least 1",
    ),
    "no build": (
        replace("torch.py", "def build", "def make"),
        {},
        f's.model: "net/torch.py" has no function build, only make; {OF_FOLDER}',
    ),
    "build without a context": (
        replace(
            "torch.py", ', context: LayerContext, width: int) -> nn.Module:\n    """A', ') -> nn.Module:\n    """A'
        ),
        {},
        f's.model: "net/torch.py" has a function build that takes 2 of image_shape, num_classes, context; {OF_FOLDER}',
    ),
    "build without an option": (
        replace("keras.py", "context: LayerContext, width: int)", "context: LayerContext)"),
        {"frameworks": ["keras_mirrored"]},
        's.model: "net/keras.py" has a function build that does not take the option width; write def '
        "build(x, num_classes, "
        "context, width)",
    ),
    "build with more": (
        replace("keras.py", "width: int)", "width: int, depth: int)"),
        {"frameworks": ["keras_mirrored"]},
        's.model: "net/keras.py" has a function build that needs depth, which is no option of parameters.py; add it to '
        "OPTIONS or give it a default",
    ),
    "parameters raises": (
        replace("parameters.py", "    draws = {}\n", "    draws = {}\n    draws['x']\n"),
        {},
        "s.model: \"./net\" has a parameters.py whose parameters((8, 8, 1), 10, width=16) raised KeyError: 'x' in "
        "parameters.py, line {line}; correct the function, or the options in the config",
    ),
    "parameters returns nothing": (
        replace("parameters.py", "    return draws\n", "\n"),
        {},
        's.model: "./net" has a function parameters that returns no dictionary from names of arrays to their '
        "draws; return "
        'one like {"dense.kernel": he_normal(64, num_classes), "dense.bias": constant(0.0, 10)}',
    ),
    "role of an array": (
        replace("parameters.py", "dense.kernel", "dense.weight"),
        {},
        "s.model: \"./net\" has a parameters.py with the array 'dense.weight'; write the layer's name, "
        "a dot and one "
        "of kernel, bias, scale, offset, mean, variance, token, position",
    ),
    "smallest_map": (
        replace("parameters.py", "(size + 1) // 2", "size / 2"),
        {},
        's.model: "./net" has a function smallest_map that returns 4.0 for images of 8 pixels; return a '
        "whole number, 0 if "
        "nothing is left of the images",
    ),
    "negative smallest_map": (
        replace("parameters.py", "(size + 1) // 2", "size - 9"),
        {},
        's.model: "./net" has a function smallest_map that returns -1 for images of 8 pixels; return a '
        "whole number, 0 if "
        "nothing is left of the images",
    ),
    "too small images of any size": (
        replace("parameters.py", "(size + 1) // 2", "0"),
        {},
        's.model: "net" leaves nothing of images of 8x8 pixels, nor of any up to 16384x16384; make the network '
        "shorter by model_options",
    ),
    "too small images": (
        replace("parameters.py", "(size + 1) // 2", "size // 16"),
        {},
        's.model: "net" leaves nothing of images of 8x8 pixels; take images of at least 16x16, or make the '
        "network shorter "
        "by model_options",
    ),
    "too small images, and none of another size": (
        replace("parameters.py", "(size + 1) // 2", "{8: 0, 20: 5}[size]"),
        {},
        's.model: "net" leaves nothing of images of 8x8 pixels; take images of at least 20x20, or make the '
        "network shorter "
        "by model_options",
    ),
    "model_family": (
        None,
        {"model_family": "torch"},
        's.model_family: "torch" is given, but the folder is for several families; leave the key out',
    ),
}
NAMES = {
    "My-Net": f's.model: "./My-Net" {UNNAMED}; rename the folder {LETTERS}',
    "resnet44": 's.model: "./resnet44" has the name of the workflow\'s own network resnet44; rename the folder',
    "residual": 's.model: "./residual" has the name of the workflow\'s own module residual; rename the folder',
    "own_net": 's.model: "./own_net" has a name that begins with own_, as files of the workflow do; rename it',
}


@pytest.mark.parametrize(("change", "changes", "message"), FOLDERS.values(), ids=FOLDERS)
def test_a_wrong_folder_is_refused(tmp_path, change, changes, message):
    shutil.copytree(ROOT / "examples/model_folder/silu_net", tmp_path / "net")
    if change:
        change(tmp_path / "net")
    lines = (
        (tmp_path / "net" / "parameters.py").read_text().split("\n")
        if (tmp_path / "net/parameters.py").exists()
        else []
    )
    line = next((str(number) for number, text in enumerate(lines, 1) if "draws['x']" in text), "")
    assert refuse_model("./net", **changes) == message.replace("{line}", line)


@pytest.mark.parametrize(("name", "message"), NAMES.items(), ids=NAMES)
def test_a_folder_with_a_wrong_name_is_refused(tmp_path, name, message):
    shutil.copytree(ROOT / "examples/model_folder/silu_net", tmp_path / name)
    assert refuse_model(f"./{name}") == message


def test_a_folder_without_a_slash_is_suggested(tmp_path):
    (tmp_path / "net").mkdir()
    assert refuse_model("net") == 's.model: "net" is not a known model; write ./net for your own folder'


DENSE = 'Dense("dense", num_classes)'
LAYOUTS = {
    "both": (
        write("parameters.py", ""),
        {},
        "has both network.py, for all families, and parameters.py; delete parameters.py and the families' files, or "
        "network.py",
    ),
    "no lay_out": (
        replace("network.py", "def lay_out", "def lay"),
        {},
        "has a network.py without a function lay_out; write def lay_out(num_classes, **options)",
    ),
    "an option that it does not take": (
        replace("network.py", "width: int) -> Layout", "size: int) -> Layout"),
        {},
        "has a network.py whose lay_out(10, width=16) raised TypeError: lay_out() got an unexpected keyword argument "
        "'width'; correct the function, or the options in the config",
    ),
    "no layout": (
        replace("network.py", "return Layout(chain(", "return list(("),
        {},
        "has a function lay_out that returns list; return a Layout of howmanygpus.measure.models.layout",
    ),
    "one name twice": (
        replace("network.py", '"third"', '"second"'),
        {},
        "has a network.py whose lay_out(...).list_draws((8, 8, 1)) raised ValueError: several layers are called "
        "second; a layer belongs to its name; correct the function, or the options in the config",
    ),
    "no logits": (
        replace("network.py", f", {DENSE}", ""),
        {},
        'has a layout that ends with (16,) instead of (10,); let it end with Dense("dense", num_classes), after '
        "GlobalAveragePool or Flatten",
    ),
    "a layer that a family lacks": (
        replace("network.py", "\nOPTIONS", "from howmanygpus.measure.models.layers.gelu import Gelu\n\nOPTIONS"),
        {"frameworks": ["pytorch_ddp", "mxnet_gluon"]},
        "has layers that mxnet_gluon lacks: gelu; write measure/frameworks/gluon/layers/gelu.py or leave "
        "mxnet_gluon out",
    ),
}


@pytest.mark.parametrize(("change", "changes", "message"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_wrong_layout_is_refused(tmp_path, change, changes, message):
    (tmp_path / "net").mkdir()
    text = (ROOT / "docs" / "own_model.md").read_text()
    example = re.search(r"<!-- example: network.py -->\n```\w+\n(.*?)```", text, re.DOTALL)[1]
    (tmp_path / "net" / "network.py").write_text(example)
    change(tmp_path / "net")
    assert refuse_model("./net", **changes).endswith(f'net" {message}')

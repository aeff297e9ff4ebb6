"""A torch.py of a user's folder that does not fit its parameters.py ends in its error before anything is compared."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from project import ROOT

EXAMPLE = ROOT / "examples" / "model_folder" / "silu_net"
DENSE = "        self.dense = dense(context, width, num_classes)\n"
CALL = "return self.dense(global_average_pool(x))"
CASES = {
    "imports": (
        ("import torch\n", "import torch\nimport not_here\n"),
        "{file} cannot be imported: ModuleNotFoundError: No module named 'not_here'; correct it",
    ),
    "raises": (
        ("    return SiluNet(", "    raise ValueError('no idea')\n    return SiluNet("),
        "{file} has a build that raised: ValueError: no idea; correct it",
    ),
    "nothing": (
        ("    return SiluNet(", "    SiluNet("),
        "{file}: build returned NoneType; return a torch.nn.Module",
    ),
    "lacks": (
        ("self.second_norm", "self.other_norm"),
        "{file}: the model lacks second_norm.weight, which is second_norm.scale of parameters.py; register "
        "the layer as "
        "second_norm or correct the name there",
    ),
    "shape": (
        ("self.second = conv(context, width, width, 3", "self.second = conv(context, width, width, 5"),
        "{file}: second.weight has shape (4, 4, 5, 5), and second.kernel of parameters.py means (4, 4, 3, "
        "3); correct one "
        "of them; a kernel of parameters.py is (height, width, in, out) or (in, out)",
    ),
    "more": (
        (DENSE, f"{DENSE}        self.more = nn.Linear(2, 2)\n"),
        "{file}: the model has more.bias, more.weight, not in parameters.py; add them there under the "
        "layer's name with "
        ".kernel, .bias, .scale, .offset, .mean or .variance",
    ),
    "frozen": (
        (DENSE, f"{DENSE}        self.first.weight.requires_grad = False\n"),
        "{file}: first.weight needs no gradient; train all of the model, as the other families do",
    ),
    "forward": (
        (CALL, "return self.lost(x)"),
        "{file} has a model that raised: AttributeError: 'SiluNet' object has no attribute 'lost'; correct it",
    ),
    "relu": (
        (CALL, "return self.dense(torch.relu(global_average_pool(x)))"),
        "{file}: model relu calls torch.relu, for whose rounding the parity gate cannot allow; in its "
        "torch.py use relu of "
        "howmanygpus.measure.frameworks.torch.layers.relu",
    ),
    "images": (
        (CALL, "return self.dense(global_average_pool(x))[0]"),
        "{file}: the model returned (5,) for 2 images; return logits (2, 5)",
    ),
    "tuple": (
        (CALL, f"{CALL}, x"),
        "{file}: the model returned tuple for 2 images; return logits (2, 5)",
    ),
    "infinite": (
        (CALL, f"{CALL} / 0"),
        "{file}: the model returned logits that are not finite; correct it or its initial weights",
    ),
    "apart": (
        (CALL, "return global_average_pool(x).repeat(1, 2)[:, :5]"),
        "{file}: dense.weight, dense.bias take no part in the logits; remove them, or train them",
    ),
}


@pytest.fixture(scope="module")
def ended(environment_python, kept):
    """Return what the example and each wrong folder ended with. A folder has its case's name."""

    def make(top):
        for name, ((old, new), _) in (CASES | {"fine": (("", ""), "")}).items():
            file = shutil.copytree(EXAMPLE, top / name) / "torch.py"
            assert old in file.read_text(), name
            file.write_text(file.read_text().replace(old, new))
        (top / "cases.json").write_text(json.dumps({name: str(top / name) for name in (*CASES, "fine")}))
        script = Path(__file__).with_name("check_folders.py")
        command = [environment_python("pytorch-cpu"), script, top / "cases.json", top / "ended.json"]
        variables = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib"), "CUDA_VISIBLE_DEVICES": ""}
        done = subprocess.run(command, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]

    top = kept("own-folders", "pytorch-cpu", make)
    return json.loads((top / "ended.json").read_text()), top


def test_the_example_is_right(ended):
    assert "fine" not in ended[0]


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_file_ends_in_its_error(name, ended):
    found, top = ended
    assert found.get(name, "accepted") == CASES[name][1].replace("{file}", str(top / name / "torch.py"))

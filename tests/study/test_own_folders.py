"""A user's folder is planned like a network of the workflow, and its code reruns its own runs."""

import re
import shutil
import sys

import pytest

from helpers.wrong_models import CPU, enter_folder
from howmanygpus.invocation.rules.training import TrainingRules
from howmanygpus.measure.models.own import add_folder
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.study.invalidation.code import LIBRARY, collect_training_code, hash_reference, hash_weights
from howmanygpus.study.invalidation.syntax import read_code
from howmanygpus.study.plan import Plan
from project import ROOT, study

EXAMPLE = ROOT / "examples" / "model_folder" / "silu_net"
ALL = ["pytorch_ddp", "keras_mirrored", "jax_sharding"]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    enter_folder(tmp_path, monkeypatch)
    shutil.copytree(EXAMPLE, tmp_path / "net")


def make_plan(model="./net", **changes) -> Plan:
    read_code.cache_clear()
    given = study(model=model, **{"frameworks": ALL, "devices": ["cpu"], "parity": "required"} | changes)
    return Plan({"studies": {"s": given}}, CPU)


def edit(path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_every_framework_trains_it_from_the_same_weights_and_the_gates_own_reference():
    plan = make_plan(model_options={"width": 4})
    (name,) = plan.networks
    assert name.startswith("net-") and plan.networks[name] == {"width": 4}
    assert not plan.own_models and plan.model_folders["net"].path == "net"
    specs = [plan.studies["s"].spec(run) for run in plan.runs.values()]
    assert {(spec["model"], spec["model_folder"], spec["model_file"]) for spec in specs} == {("net", "net", None)}
    assert {spec["weights_file"] for spec in specs} == {f"results/weights/{name}_8x8x1_classes10_seed1.safetensors"}
    assert not any(run.unsupported for run in plan.runs.values())
    assert all(path.startswith(f"results/parity/{name}_8x8x1_classes10_local_") for path in plan.verdicts.values())
    assert all(cell.describe()["model_folder"] == "net" for cell in plan.cells.values())


def test_options_that_are_not_given_have_their_defaults():
    assert make_plan().studies["s"].config["model_options"] == {"width": 16}
    assert list(make_plan().networks) == list(make_plan(model_options={"width": 16}).networks)


class Wildcards:
    """What Snakemake hands to the functions of the rules."""

    def __init__(self, **values):
        vars(self).update(values)


def read_parameters(plan: Plan) -> dict[str, tuple]:
    """Return what Snakemake compares of each framework's run, and of the weights and the reference."""
    rules, folder = TrainingRules(plan), plan.model_folders["net"]
    runs = {run.framework: Wildcards(run=path) for path, run in plan.runs.items()}
    found = {name: (rules.code(each), rules.settings(each), plan.verdicts[each.run]) for name, each in runs.items()}
    network = Wildcards(model="net", options="")
    assert rules.weights_code(network) == hash_weights(folder) and rules.reference_code(network) == hash_reference(
        folder
    )
    return found | {"weights": (hash_weights(folder),), "reference": (hash_reference(folder),)}


def list_changes(before: dict, after: dict) -> set[str]:
    return {name for name in before if before[name] != after[name]}


def test_changed_code_reruns_only_jobs_that_execute_it(tmp_path):
    net = tmp_path / "net"
    (net / "parts.py").write_text("STRIDE = 2\n")
    edit(net / "torch.py", "import torch\n", "import torch\n\nfrom .parts import STRIDE\n")
    before = read_parameters(make_plan())
    edit(net / "torch.py", "class SiluNet", "# A comment.\nclass SiluNet")
    assert not list_changes(before, read_parameters(make_plan()))
    for file, old, new, changed in [
        ("parts.py", "2", "3", {"pytorch_ddp", "reference"}),
        ("keras.py", "epsilon=1e-5", "epsilon=1e-4", {"keras_mirrored"}),
        ("parameters.py", "he_normal(width, num", "he_normal(width, 1 * num", {"weights", "reference"}),
        ("__init__.py", "", "NAME = 'net'\n", {*ALL, "weights", "reference"}),
    ]:
        before = read_parameters(make_plan())
        if new.startswith("NAME"):
            (net / file).write_text(new)
        else:
            edit(net / file, old, new)
        assert list_changes(before, read_parameters(make_plan())) == changed, file
    before = read_parameters(make_plan())
    shutil.move(net, tmp_path / "moved" / "net")
    assert not list_changes(before, read_parameters(make_plan("moved/net"))), "another place"


def test_the_layers_that_it_imports_are_code_of_its_runs():
    folder = make_plan().model_folders["net"]
    layers = {
        f"{LIBRARY}/howmanygpus/measure/frameworks/torch/layers/{name}.py" for name in ("conv", "batchnorm", "dense")
    }
    found = set(collect_training_code("pytorch_ddp", folder))
    assert layers <= found and not any("layers/relu" in path or "own_models" in path for path in found)
    assert layers & set(collect_training_code("keras_mirrored", folder)) == set()


@pytest.mark.parametrize(
    "line", ["from . import parts", "from .parts import X", "from howmanygpus.measure.models.net.parts import X"]
)
def test_every_way_to_import_a_file_of_the_folder_is_followed(tmp_path, line):
    (tmp_path / "net" / "parts.py").write_text("X = 1\n")
    edit(tmp_path / "net" / "torch.py", "import torch\n", f"import torch\n\n{line}\n")
    names = [path.name for path in make_plan().model_folders["net"].find_files("torch")]
    assert names == ["parts.py", "torch.py"]


def test_a_folder_with_a_reused_name_is_imported_again(tmp_path):
    (tmp_path / "net" / "__init__.py").write_text("from .parts import X\n")
    for value in (1, 2):
        (tmp_path / "net" / "parts.py").write_text(f"X = {value} + 0 * {10**value}\n")
        assert value == sys.modules[add_folder("net")].X


def test_the_example_is_written_for_its_frameworks_and_can_be_planned(monkeypatch):
    monkeypatch.chdir(ROOT)
    families = {path.stem for path in EXAMPLE.glob("*.py")} - {"parameters"}
    frameworks = [name for name, entry in FRAMEWORKS.items() if entry.family in families]
    plan = make_plan("examples/model_folder/silu_net", frameworks=frameworks)
    assert families == {"torch", "keras", "flax"} and {run.framework for run in plan.runs.values()} == set(frameworks)


FAMILIES = ["pytorch_ddp", "keras_mirrored", "jax_sharding", "mxnet_gluon", "chainer_mn"]


@pytest.fixture
def laid_out(tmp_path):
    """Return the file of a folder whose network is the layout of the documentation."""
    text = (ROOT / "docs" / "own_model.md").read_text()
    shutil.rmtree(tmp_path / "net")
    (tmp_path / "net").mkdir()
    file = tmp_path / "net" / "network.py"
    file.write_text(re.search(r"<!-- example: network.py -->\n```\w+\n(.*?)```", text, re.DOTALL)[1])
    return file


def test_a_layout_alone_is_a_network_for_all_families(laid_out):
    plan = make_plan(frameworks=FAMILIES, model_options={"width": 4})
    assert {run.framework for run in plan.runs.values()} == set(FAMILIES)
    assert not any(run.unsupported for run in plan.runs.values())
    before = read_parameters(plan)
    edit(laid_out, "def convolve", "# A comment.\ndef convolve")
    assert not list_changes(before, read_parameters(make_plan(frameworks=FAMILIES, model_options={"width": 4})))
    edit(laid_out, "stride=2", "stride=1")
    changed = list_changes(before, read_parameters(make_plan(frameworks=FAMILIES, model_options={"width": 4})))
    assert changed == {*FAMILIES, "weights", "reference"}


def test_the_layers_of_a_layout_are_code_of_its_runs(laid_out):
    folder = make_plan(frameworks=FAMILIES).model_folders["net"]
    found = [path for path in collect_training_code("chainer_mn", folder) if "/frameworks/" in path]
    layers = {path.rpartition("/")[2] for path in found if "/layers/" in path}
    assert layers == {"batchnorm.py", "context.py", "conv.py", "dense.py", "global_pooling.py", "relu.py"}
    assert not [path for path in found if "/chainer/" not in path and path.endswith("walker.py")]

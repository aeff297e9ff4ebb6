"""What a user's file is sure to import is compared with its environment, whether that is built or not."""

import hashlib
import json
import shutil
import sys
from pathlib import Path

import pytest

from howmanygpus.environments.build import hash_pins
from howmanygpus.environments.cache import VARIABLE, find_cache
from howmanygpus.environments.pins import find_pins
from howmanygpus.plan.config.errors import ConfigError
from howmanygpus.plan.config.machine import Device, Machine
from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.plan.invalidation import pins
from howmanygpus.plan.invalidation.syntax import read_code
from howmanygpus.plan.own import modules as modules_of
from howmanygpus.plan.own.imports import check_imports, list_imports
from howmanygpus.plan.own.model import FAMILIES, find_environment
from howmanygpus.plan.plan import Plan
from project import ROOT, study
from refusing import CPU

NAME = "pytorch-cpu"
CERTAIN = "import torch\nimport numpy, json\nfrom einops import rearrange\n"
UNCERTAIN = """
import torch, howmanygpus.files
from typing import TYPE_CHECKING

try:
    import xformers
except ImportError:
    xformers = None
if TYPE_CHECKING:
    import timm


def unused():
    import apex


def build(image_shape, num_classes):
    if num_classes > 1000:
        import timm
    return torch.nn.Flatten()
"""


@pytest.fixture(autouse=True)
def nothing_is_built(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    monkeypatch.chdir(ROOT)
    modules_of.find_modules.cache_clear()
    yield
    modules_of.find_modules.cache_clear()


def refuse(tmp_path, text: str) -> str:
    file = tmp_path / "net.py"
    file.write_text(text)
    try:
        check_imports("studies.s.model", str(file), file, NAME)
    except ConfigError as error:
        return str(error)
    return ""


def test_a_module_that_is_not_there_is_refused_before_the_environment_is_built(tmp_path):
    assert " imports einops in line 3, which is not in pytorch-cpu; add its package to " in refuse(tmp_path, CERTAIN)


def test_what_may_never_be_imported_is_accepted(tmp_path):
    assert refuse(tmp_path, UNCERTAIN) == ""
    assert refuse(tmp_path, f"import sys\nsys.path.append('elsewhere')\n{CERTAIN}") == ""


def test_a_built_environment_says_itself_what_it_has(tmp_path):
    folder = find_cache() / f"{NAME}-{hash_pins(find_pins(NAME))[:12]}"
    packages = folder / "lib" / "python3.11" / "site-packages"
    for name in ("torch", "numpy", "numpy.libs", "einops", "einops-1.0.dist-info"):
        (packages / name).mkdir(parents=True)
    (packages / "compiled.cpython-311-x86_64-linux-gnu.so").touch()
    (folder / "complete.json").write_text("{}")
    assert refuse(tmp_path, CERTAIN + "import compiled\n") == ""
    assert " imports timm in line 4," in refuse(tmp_path, CERTAIN + "import timm\n")


def test_nothing_is_known_of_other_pins_and_of_existing_interpreters(tmp_path, monkeypatch):
    monkeypatch.setattr(pins, "EXISTING", pins.EXISTING)
    monkeypatch.setitem(pins.EXISTING, NAME, {"python": "/usr/bin/python3", "modules": []})
    assert refuse(tmp_path, CERTAIN) == ""
    monkeypatch.delitem(pins.EXISTING, NAME)
    known = json.loads((ROOT / modules_of.KNOWN).read_text())
    known[NAME]["pins"] = "of others"
    (tmp_path / "modules.json").write_text(json.dumps(known))
    monkeypatch.setattr(modules_of, "KNOWN", tmp_path / "modules.json")
    assert refuse(tmp_path, CERTAIN) == ""


def build(name: str, modules: tuple[str, ...] = (), wheel: str | None = None) -> Path:
    """Leave what a built environment with these modules leaves in the cache; return its folder of packages."""
    digest = hash_pins(find_pins(name))
    if wheel:
        digest = hashlib.sha256(f"{digest} {wheel}".encode()).hexdigest()
    folder = find_cache() / f"{name}-{digest[:12]}"
    packages = folder / "lib" / "python3.11" / "site-packages"
    for module in modules:
        (packages / module).mkdir(parents=True, exist_ok=True)
    (folder / "complete.json").write_text(json.dumps({"horovod": {"sha256": wheel}} if wheel else {}))
    modules_of.find_modules.cache_clear()
    return packages


def test_a_built_environment_with_horovod_is_found_by_its_wheel():
    build("horovod-pytorch-cpu", ("horovod", "einops"), wheel="abc")
    assert modules_of.find_modules("horovod-pytorch-cpu") == {"horovod", "einops"}


def test_nothing_is_known_of_an_environment_that_takes_modules_from_elsewhere():
    packages = build(NAME, ("torch",))
    (packages / "distutils-precedence.pth").touch()
    assert modules_of.find_modules(NAME) == {"torch"}
    (packages / "__editable__.mine-1.0.pth").touch()
    modules_of.find_modules.cache_clear()
    assert modules_of.find_modules(NAME) is None


@pytest.mark.parametrize(
    "text",
    [
        "def build(a, b):\n    if b > 9:\n        return small()\n    import timm\n",
        "def build(a, b):\n    import timm\ndef build(a, b):\n    return 1\n",
        "@other\ndef build(a, b):\n    import timm\n",
        "import helper\nimport timm\n",
        "from sys import path\npath.append('elsewhere')\nimport timm\n",
        "import site\nsite.addsitedir('elsewhere')\nimport timm\n",
    ],
    ids=["after a return", "replaced build", "decorated build", "path set beside", "path by name", "site"],
)
def test_an_import_that_may_succeed_or_never_be_done_is_accepted(tmp_path, text):
    (tmp_path / "helper.py").write_text("import sys\nsys.path.append('elsewhere')\n")
    assert refuse(tmp_path, f"import torch\n{text}") == ""


def test_modules_beside_the_file_are_followed_once(tmp_path):
    (tmp_path / "first.py").write_text("import second\n")
    (tmp_path / "second.py").write_text("import first, gone\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "net.py").write_text("import first, second, package.inside\n")
    (found,) = list_imports(tmp_path / "net.py")
    assert (found.module, found.file, found.line) == ("gone", tmp_path / "second.py", 1)


def test_files_of_a_folder_are_followed_relatively(tmp_path):
    """An absolute import never finds a file of the folder, such as torch.py."""
    texts = {
        "__init__": "from howmanygpus.files import hold_lock\nimport of_start\nthere = 1\n",
        "keras": "import keras, torch\nfrom . import blocks, there\nfrom .parts.deep import Deep\nfrom ..relu import b",
        "torch": "import of_torch\n",
        "blocks": "from . import blocks\nimport of_blocks\n",
        "there": "import never\n",
        "parts/__init__": "import of_parts\n",
        "parts/deep": "from ..blocks import there\nimport of_deep\n",
    }
    (tmp_path / "parts").mkdir()
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    found = {each.module for each in list_imports(tmp_path / "keras.py", is_folder=True)}
    assert found == {"keras", "torch", "of_start", "of_blocks", "of_parts", "of_deep"}


@pytest.fixture
def net(tmp_path):
    """A copy of the folder of the examples, of which every framework but MXNet and Chainer can train."""
    return Path(shutil.copytree(ROOT / "examples" / "model_folder" / "silu_net", tmp_path / "net"))


def refuse_study(model: Path, machine=CPU, **changes) -> str:
    """Return what planning says of a study, without what says what to do instead."""
    read_code.cache_clear()
    given = study(model=str(model), **{"frameworks": ["pytorch_ddp"], "devices": ["cpu"]} | changes)
    try:
        Plan({"studies": {"s": given}}, machine)
    except ConfigError as error:
        return str(error).partition("; ")[0].replace(str(model), "NET")
    return ""


@pytest.mark.parametrize(
    ("framework", "family", "environment"),
    [
        ("keras_mirrored", "keras", "tensorflow-cpu"),
        ("jax_sharding", "flax", "jax-cpu"),
        ("mxnet_gluon", "gluon", "mxnet-cpu"),
        ("chainer_mn", "chainer", "chainer-cpu"),
        ("horovod_tensorflow", "keras", "horovod-tensorflow-cpu"),
    ],
)
def test_each_file_of_a_folder_is_compared_with_the_environment_of_its_runs(net, framework, family, environment):
    file = net / f"{family}.py"
    text = (
        file.read_text()
        if file.exists()
        else "def build(image_shape, num_classes, *others, **options):\n    return 1\n"
    )
    file.write_text(text)
    assert refuse_study(net, frameworks=[framework]) == ""
    file.write_text(text + "import einops\n")
    line = len(text.splitlines()) + 1
    assert refuse_study(net, frameworks=[framework]) == (
        f'studies.s.model: "NET" has NET/{family}.py, which imports einops in line {line}, which is not in '
        f"{environment}, where {framework} trains it on cpu"
    )
    assert refuse_study(net) == "", "this study does not execute the file"


def test_each_environment_that_executes_a_file_is_asked(net):
    """The reference is computed in the environment without Horovod."""
    file = net / "torch.py"
    file.write_text(f"{file.read_text()}\nimport horovod\n")
    build(NAME, ("torch", "numpy", "horovod"))
    assert refuse_study(net, frameworks=["horovod_pytorch"]) == ""
    file.write_text(f"{file.read_text()}\nimport einops\n")
    build(NAME, ("einops",))
    assert "is not in horovod-pytorch-cpu, where horovod_pytorch" in refuse_study(net, frameworks=["horovod_pytorch"])


CUDA = Machine(
    "machine.yaml", {"cpu": Device(8, 1), "v100": Device(4, 1, "cuda", 1, "7.0"), "cuda": Device(4, 1, "cuda")}
)


def test_the_environments_are_those_of_the_devices_of_runs_that_can_be_done(net):
    """Nothing is known of the environments for GPUs as long as they are not built."""
    file = net / "flax.py"
    file.write_text(f"{file.read_text()}\nimport einops\n")
    on_gpus = {"frameworks": ["jax_sharding"], "devices": ["cuda"]}
    assert refuse_study(net, CUDA, **on_gpus) == ""
    build("jax-cuda13", ("jax", "flax", "numpy"))
    assert "einops" in refuse_study(net, CUDA, **on_gpus)
    assert "which is not in jax-cuda13, where jax_sharding trains it on cuda" in refuse_study(net, CUDA, **on_gpus)
    unsupported = on_gpus | {"devices": ["v100"], "frameworks": ["jax_sharding", "keras_mirrored"]}
    assert refuse_study(net, CUDA, **unsupported) == "", "JAX is built for later GPUs"


def test_existing_interpreters_are_not_known_also_where_the_plan_is_made_again(net, monkeypatch):
    file = net / "torch.py"
    file.write_text(f"{file.read_text()}\nimport einops\n")
    monkeypatch.setitem(pins.EXISTING, NAME, {"python": "/usr/bin/python3", "modules": []})
    read_code.cache_clear()
    given = study(model=str(net), frameworks=["pytorch_ddp"], devices=["cpu"])
    request = json.loads(Plan({"studies": {"s": given}}, CPU).studies["s"].request())
    # The process that writes a study's plan reads no machine file.
    monkeypatch.delitem(pins.EXISTING, NAME)
    assert Plan.from_request(request).runs


def test_a_single_file_is_compared_with_the_environments_of_its_runs(tmp_path):
    file = tmp_path / "small.py"
    file.write_text("import torch, horovod\ndef build(image_shape, num_classes):\n    return torch.nn.Flatten()\n")
    build(NAME, ("torch", "horovod"))
    assert refuse_study(file, frameworks=["horovod_pytorch"]) == ""
    build("horovod-pytorch-cpu", ("torch",), wheel="abc")
    found = refuse_study(file, frameworks=["horovod_pytorch", "keras_mirrored"])
    assert found.endswith(
        "horovod in line 1, which is not in horovod-pytorch-cpu, where horovod_pytorch trains it on cpu"
    )


@pytest.mark.parametrize("example", sorted((ROOT / "examples").rglob("*.py")), ids=lambda path: path.stem)
def test_nothing_in_the_examples_is_refused(example):
    family = {"pytorch_net": "torch", "keras_net": "keras", "flax_net": "flax"}.get(example.stem, example.stem)
    if family in FAMILIES:
        check_imports("studies.s.model", str(example), example, find_environment(family))


def test_the_known_modules_are_those_of_the_pins_in_force():
    known = json.loads(Path(modules_of.KNOWN).read_text())
    assert set(known) == {entry.environments["cpu"] for entry in FRAMEWORKS.values()}
    assert all(modules_of.find_modules(name) for name in known), f"run `make references` with {sys.version}"

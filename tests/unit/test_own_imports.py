"""What a user's file is sure to import is compared with its environment, whether that is built or not."""

import json
import sys
from pathlib import Path

import pytest

from howmanygpus.environments.build import hash_pins
from howmanygpus.environments.cache import VARIABLE, find_cache
from howmanygpus.environments.pins import find_pins
from howmanygpus.plan.config.errors import ConfigError
from howmanygpus.plan.invalidation import pins
from howmanygpus.plan.own import modules
from howmanygpus.plan.own.imports import check_imports, list_imports
from howmanygpus.plan.own.model import FAMILIES, find_environment
from project import ROOT

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
    modules.find_modules.cache_clear()
    yield
    modules.find_modules.cache_clear()


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
    known = json.loads((ROOT / modules.KNOWN).read_text())
    known[NAME]["pins"] = "of others"
    (tmp_path / "modules.json").write_text(json.dumps(known))
    monkeypatch.setattr(modules, "KNOWN", tmp_path / "modules.json")
    assert refuse(tmp_path, CERTAIN) == ""


def test_modules_beside_the_file_are_followed_once(tmp_path):
    (tmp_path / "first.py").write_text("import second\n")
    (tmp_path / "second.py").write_text("import first, gone\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "net.py").write_text("import first, second, package.inside\n")
    (found,) = list_imports(tmp_path / "net.py")
    assert (found.module, found.file, found.line) == ("gone", tmp_path / "second.py", 1)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").rglob("*.py")), ids=lambda path: path.stem)
def test_nothing_in_the_examples_is_refused(example):
    family = {"pytorch_net": "torch", "keras_net": "keras", "flax_net": "flax"}.get(example.stem, example.stem)
    if family in FAMILIES:
        check_imports("studies.s.model", str(example), example, find_environment(family))


def test_the_known_modules_are_those_of_the_pins_in_force():
    known = json.loads(Path(modules.KNOWN).read_text())
    assert set(known) == set(map(find_environment, FAMILIES))
    assert all(modules.find_modules(name) for name in known), f"run `make references` with {sys.version}"

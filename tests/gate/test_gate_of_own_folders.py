"""The gate of a model in a user's folder: every family does what the reference does, and a wrong file fails."""

import re
import shutil
from pathlib import Path

import pytest

from gate.observing import Observer, names_of
from howmanygpus.gate.judge import judge
from howmanygpus.registry import FRAMEWORKS
from project import ROOT

EXAMPLE = ROOT / "examples" / "model_folder" / "silu_net"
MORE = Path(__file__).parent / EXAMPLE.name
"""Files of the families that the example is not written for, named silu_<family>.py."""
OPTIONS = {"width": 4}
FRAMEWORKS_OF_FAMILIES = ("pytorch_ddp", "keras_mirrored", "jax_sharding", "mxnet_gluon", "chainer_mn")
WITH_BF16 = [name for name in FRAMEWORKS_OF_FAMILIES if "bf16" in FRAMEWORKS[name].precisions["cpu"]]
OTHER = "keras_mirrored"
"""The framework whose file computes something else in the folder `other_net`."""
CELLS = {
    "fp32": ("silu_net", "fp32", FRAMEWORKS_OF_FAMILIES),
    "bf16": ("silu_net", "bf16", WITH_BF16),
    "other": ("other_net", "fp32", [OTHER]),
    "laid_out": ("laid_out_net", "fp32", FRAMEWORKS_OF_FAMILIES),
}
"""Folder and precision of each cell, and the frameworks that do it, in one start for all cells."""


class FolderObserver(Observer):
    """Observes folders below one, whose code is part of what observations are kept by."""

    def __init__(self, top, *arguments):
        super().__init__(*arguments)
        self.top = top
        text = "".join(path.read_text() for path in sorted(top.rglob("*.py")))
        self._code, self._observing = self._code + text, self._observing + text

    def judge(self, framework: str, key: str) -> dict:
        cells = {
            name: {"model": model, "model_folder": str(self.top / model), "model_options": OPTIONS, "precision": how}
            for name, (model, how, frameworks) in CELLS.items()
            if framework in frameworks
        }
        observed = self.observe(names_of(framework), FRAMEWORKS[framework].environments["cpu"], cells, 2)
        return judge({(2, 1): observed / key}, self.task(cells[key]))


@pytest.fixture(scope="module")
def folders(tmp_path_factory, environment_python, scratch):
    top = tmp_path_factory.mktemp("folders")
    for name in ("silu_net", "other_net"):
        shutil.copytree(EXAMPLE, top / name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in MORE.glob("silu_*.py"):
            shutil.copy2(path, top / name / path.name.removeprefix("silu_"))
    file = top / "other_net" / f"{FRAMEWORKS[OTHER].family}.py"
    file.write_text(file.read_text().replace("activations.silu", "activations.gelu"))
    (top / "laid_out_net").mkdir()
    text = (ROOT / "docs" / "own_model.md").read_text()
    example = re.search(r"<!-- example: network.py -->\n```\w+\n(.*?)```", text, re.DOTALL)[1]
    (top / "laid_out_net" / "network.py").write_text(example)
    return FolderObserver(top, ROOT / "workflow" / "lib", scratch, environment_python)


@pytest.mark.parametrize("cell", ["fp32", "laid_out"])
@pytest.mark.parametrize("framework", FRAMEWORKS_OF_FAMILIES)
def test_every_family_does_the_work_of_the_reference(framework, cell, folders):
    verdict = folders.judge(framework, cell)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    assert {"weights", "gradients", "updates_own", "statistics"} <= {row["check"] for row in verdict["checks"]}


@pytest.mark.parametrize("framework", WITH_BF16)
def test_bf16_is_within_its_noise(framework, folders):
    verdict = folders.judge(framework, "bf16")
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    direction = next(row for row in verdict["checks"] if row["check"] == "direction")
    assert direction["value"] > 1e-6, "the framework computed in float32"


def test_a_family_that_computes_something_else_fails(folders):
    verdict = folders.judge(OTHER, "other")
    assert verdict["status"] == "failed" and "evaluation" in verdict["reason"]

"""The gate of a model in a user's folder: every family does what torch.py does in float64, and a wrong file fails."""

import shutil

import pytest

from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.report.parity.judge import judge
from parity.observing import Observer, names_of
from project import ROOT

EXAMPLE = ROOT / "examples" / "model_folder" / "silu_net"
FRAMEWORKS_OF_FAMILIES = ("pytorch_ddp", "keras_mirrored", "jax_sharding")


class FolderObserver(Observer):
    """Observes one folder, whose code is part of what observations are kept by."""

    def __init__(self, folder, *arguments):
        super().__init__(*arguments)
        self.folder = folder
        text = "".join(path.read_text() for path in sorted(folder.glob("*.py")))
        self._code, self._observing = self._code + text, self._observing + text

    def judge(self, framework: str) -> dict:
        cell = {"model": self.folder.name, "model_folder": str(self.folder), "model_options": {"width": 4}}
        environment = FRAMEWORKS[framework].environments["cpu"]
        observed = self.observe(names_of(framework), environment, {self.folder.parent.name: cell}, 2)
        return judge({(2, 1): observed / self.folder.parent.name}, self.task(cell))


@pytest.mark.parametrize("framework", FRAMEWORKS_OF_FAMILIES)
def test_every_family_does_the_work_of_the_reference(framework, environment_python, tmp_path):
    observer = FolderObserver(EXAMPLE, ROOT / "workflow" / "lib", tmp_path, environment_python)
    verdict = observer.judge(framework)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    assert {"weights", "gradients", "updates_adam", "statistics"} <= {row["check"] for row in verdict["checks"]}


def test_a_family_that_computes_something_else_fails(environment_python, tmp_path):
    other = shutil.copytree(EXAMPLE, tmp_path / "other_activation" / "silu_net")
    text = (other / "keras.py").read_text()
    (other / "keras.py").write_text(text.replace("activations.silu", "activations.gelu"))
    observer = FolderObserver(other, ROOT / "workflow" / "lib", tmp_path, environment_python)
    verdict = observer.judge("keras_mirrored")
    assert verdict["status"] == "failed" and "evaluation" in verdict["reason"]

"""Every framework computes the sigmoid loss and label smoothing as the reference writes them out."""

import json

import numpy as np
import pytest

from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.report.parity.judge import judge
from parity.faults import FAMILIES
from parity.observing import Observer, names_of
from project import FAKES, ROOT
from training.launching import BY_MPI

SMALL = {"model": "small_cnn", **BY_MPI}
CELLS = {
    "sigmoid": SMALL | {"loss": "_multilabel"},
    "smoothed": SMALL | {"loss": "_smoothing0.1", "label_smoothing": 0.1},
}


@pytest.fixture(scope="session")
def gate(environment_python, tmp_path_factory):
    return Observer(ROOT / "workflow" / "lib", tmp_path_factory.mktemp("observed"), environment_python)


@pytest.mark.parametrize("framework", list(FRAMEWORKS))
@pytest.mark.parametrize("loss", CELLS)
def test_every_backend_has_the_losses_of_the_reference(framework, loss, gate):
    """On two devices, if the framework has them on CPUs: they have different numbers of known labels."""
    num_devices = FRAMEWORKS[framework].max_devices.get("cpu", 2)
    environment = FRAMEWORKS[framework].environments["cpu"]
    folder = gate.observe(names_of(framework), environment, CELLS, num_devices)
    verdict = judge({(num_devices, 1): folder / loss}, gate.task("small_cnn", loss=CELLS[loss]["loss"]))
    assert (verdict["status"], verdict["reason"]) == ("passed", "")

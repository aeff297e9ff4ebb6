"""Every framework computes the sigmoid loss and label smoothing as the reference writes them out."""

import shutil

import pytest

from howmanygpus.plan.config.schema import study_defaults
from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.plan.loaders import find_missing_loader
from howmanygpus.plan.parity import TrainingPath
from howmanygpus.report.parity.judge import judge
from parity.faults import FAMILIES
from parity.observing import Observer, names_of
from project import ROOT
from training.launching import BY_MPI

SMALL = {"model": "small_cnn", **BY_MPI}
CELLS = {
    "sigmoid": SMALL | {"loss": "_multilabel"},
    "smoothed": SMALL | {"loss": "_smoothing0.1", "label_smoothing": 0.1},
}


@pytest.fixture(scope="session")
def gate(environment_python, tmp_path_factory):
    return Observer(ROOT / "workflow" / "lib", tmp_path_factory.mktemp("observed"), environment_python)


def cells_of(framework: str) -> dict[str, dict]:
    """Return the cells of a framework: both losses, and several labels by its own loader."""
    settings = study_defaults() | {"loader": "native"}
    if find_missing_loader(framework, "png", settings):
        return CELLS
    return CELLS | {"native": CELLS["sigmoid"] | vars(TrainingPath.find(framework, "png", settings)) | BY_MPI}


@pytest.mark.parametrize(
    ("framework", "cell"), [(framework, cell) for framework in FRAMEWORKS for cell in cells_of(framework)]
)
def test_every_backend_has_the_losses_of_the_reference(framework, cell, gate):
    """On two devices, if the framework has them on CPUs: they have different numbers of known labels."""
    num_devices = FRAMEWORKS[framework].max_devices.get("cpu", 2)
    cells, environment = cells_of(framework), FRAMEWORKS[framework].environments["cpu"]
    folder = gate.observe(names_of(framework), environment, cells, num_devices)
    verdict = judge({(num_devices, 1): folder / cell}, gate.task(cells[cell]))
    assert (verdict["status"], verdict["reason"]) == ("passed", "")


WEIGHTS = {
    "torch": ("targets.abs()", "torch.ones_like(targets)"),
    "keras": ("ops.abs(targets) * ", ""),
    "flax": ("jnp.abs(targets) * ", ""),
    "gluon": (", mx.nd.abs(targets)", ""),
    "chainer": (" * abs(targets)", ""),
}
"""Where the loss of each family weighs the labels, and what it would be without."""
SHARED = {
    "missing_is_absent": ("np.where(labels == MISSING, np.float32(0), -weight)", "-weight"),
    "mean_of_means": (
        "int(known[whole[step].samples].sum())",
        "int((labels != MISSING).sum()) * spec.num_gpus",
    ),
}
"""Faults in what all families share: missing labels are taken for absent ones; each process counts its own labels."""
FAULTS = {family: (f"frameworks/losses/{family}.py", *fault, family) for family, fault in WEIGHTS.items()}
FAULTS |= {name: ("loop/targets.py", *fault, "torch") for name, fault in SHARED.items()}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_loss_that_ignores_missing_labels_is_caught(fault, gate, environment_python, tmp_path):
    """Also one whose mean over two devices is not that over all known labels."""
    file, correct, wrong, family = FAULTS[fault]
    library = shutil.copytree(
        ROOT / "workflow" / "lib", tmp_path / f"losses-{fault}", ignore=shutil.ignore_patterns("__pycache__")
    )
    path = library / "howmanygpus" / "train" / file
    assert path.read_text().count(correct) == 1
    path.write_text(path.read_text().replace(correct, wrong))
    planted = FAMILIES[family]
    faulty = Observer(library, tmp_path / "observed", environment_python)
    seen = faulty.observe(names_of(planted.strategy), planted.environment, {"sigmoid": CELLS["sigmoid"]}, 2)
    verdict = judge({(2, 1): seen / "sigmoid"}, gate.task({"model": "small_cnn", "loss": "_multilabel"}))
    assert verdict["status"] == "failed"
    assert "loss" in {row["check"] for row in verdict["checks"] if not row["passed"]}

"""The parity gate passes every backend, and catches each planted fault by the check that names it."""

import shutil

import pytest

from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.report.parity.judge import judge
from howmanygpus.report.parity.page import render_page, tabulate
from howmanygpus.train.parity.task import CRASHED, OPTIMIZERS
from parity.observing import CELL, Observer, names_of
from project import FAKES, ONLY_SGD, ROOT
from training.launching import BY_MPI

DEPTH, SHALLOW_DEPTH = "BLOCKS_PER_STAGE = 7", "BLOCKS_PER_STAGE = 1"
SMALL = {"model": "small_cnn", **BY_MPI}
DEEP = {"model": "resnet44"}


def supports(framework: str, cell: dict) -> bool:
    entry = FRAMEWORKS[framework]
    batchnorm, precision = cell.get("batchnorm", "local"), cell.get("precision", "fp32")
    return batchnorm in entry.batchnorm["cpu"] and precision in entry.precisions["cpu"]


ON_ONE = {"small": SMALL, "small_bf16": SMALL | {"precision": "bf16"}}
"""Cells that each framework is observed at on one device: with biases and pooling."""
ON_TWO = {"deep": DEEP, "deep_synchronized": DEEP | {"batchnorm": "synchronized"}}
"""On two, if the framework can: with BatchNorm and shortcuts. XLA optimises the code of both."""


@pytest.fixture(scope="session")
def copies(tmp_path_factory):
    """A function from a name to a copy of the library with faulty backends, and fewer blocks in resnet44.

    `gate` is the gate as it is; `faults` does its tasks with one optimizer and one fault after the other.
    """
    folder = tmp_path_factory.mktemp("library")
    for name in ("gate", "faults"):
        library = shutil.copytree(
            ROOT / "workflow" / "lib", folder / name, ignore=shutil.ignore_patterns("__pycache__")
        )
        train = library / "howmanygpus" / "train"
        parameters = train / "models" / "resnet44" / "parameters.py"
        assert parameters.read_text().count(DEPTH) == 1
        parameters.write_text(parameters.read_text().replace(DEPTH, SHALLOW_DEPTH))
    for name, (family, *_) in FAULTY.items():
        shutil.copy2(FAKES / f"{name}.py", train / "frameworks" / family / f"{name}.py")
    with open(train / "parity" / "task.py", "a") as file:
        file.write(ONLY_SGD)
    (train / "parity" / "probe.py").rename(train / "parity" / "renamed_probe.py")
    shutil.copy2(FAKES / "probe_of_faults.py", train / "parity" / "probe.py")
    return lambda name: folder / name


@pytest.fixture(scope="session")
def gate(copies, environment_python, tmp_path_factory):
    return Observer(copies("gate"), tmp_path_factory.mktemp("observed"), environment_python)


@pytest.fixture(scope="session")
def faulty_gate(copies, environment_python, tmp_path_factory):
    return Observer(copies("faults"), tmp_path_factory.mktemp("observed_faults"), environment_python)


@pytest.fixture(scope="session")
def judge_cell(gate):
    """A function from a framework, cells and one of them to the verdict, with what one start for all of them did."""

    def get(framework, cells, key, num_devices, precision=None):
        supported = {name: cell for name, cell in cells.items() if supports(framework, cell)}
        environment = FRAMEWORKS[framework].environments["cpu"]
        folder = gate.observe(names_of(framework), environment, supported, num_devices)
        cell = CELL | cells[key]
        task = gate.task(cell["model"], cell["batchnorm"])
        return judge({(num_devices, 1): folder / key}, task, precision or cell["precision"])

    return get


@pytest.mark.parametrize("framework", list(FRAMEWORKS))
def test_every_backend_passes_on_one_device(framework, judge_cell):
    verdict = judge_cell(framework, ON_ONE, "small", 1)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    assert {f"updates_{name}" for name in OPTIMIZERS} <= {row["check"] for row in verdict["checks"]}


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if supports(name, ON_ONE["small_bf16"])])
def test_bf16_is_within_its_tolerance_and_beyond_that_of_fp32(framework, judge_cell):
    verdict = judge_cell(framework, ON_ONE, "small_bf16", 1)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    assert judge_cell(framework, ON_ONE, "small_bf16", 1, precision="fp32")["status"] == "failed"


@pytest.mark.parametrize("framework", list(FRAMEWORKS))
def test_every_backend_passes_on_two_devices(framework, judge_cell):
    num_devices = FRAMEWORKS[framework].max_devices.get("cpu", 2)
    verdict = judge_cell(framework, ON_TWO, "deep", num_devices)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    assert {row["devices"] for row in verdict["checks"]} == {num_devices}
    assert {f"updates_{name}" for name in OPTIMIZERS} <= {row["check"] for row in verdict["checks"]}
    page = render_page(tabulate([{"task": "a_task", "framework": framework, **CELL, **DEEP, **verdict}]))
    assert framework in page and "averaging" in page


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if supports(name, ON_TWO["deep_synchronized"])])
def test_synchronized_batchnorm_uses_the_global_batchs_statistics(framework, judge_cell):
    verdict = judge_cell(framework, ON_TWO, "deep_synchronized", 2)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")


AVERAGING = {"gradients_not_averaged": "averaging", "gradients_summed": "averaging"}
NONE = {"none": ""}
"""The last, so that a fault that outlives its turn is seen."""
FAULTS = {
    "small_cnn": {
        **AVERAGING,
        "anothers_data": "batches",
        "rate_inside_momentum": "updates_sgd",
        "shuffled_labels": "loss",
        "stale_weights": "weights",
        "permuted_weights": "weights",
        "dropout_left_on": "repeatable",
        **NONE,
    },
    "resnet44": {"wrong_epsilon": "evaluation", "batch_statistics": "independent", **NONE},
}
"""For each model, the faults that it shows, with the check that names each of them."""
FAULTY = {
    "faulty": ("torch", "torchrun", "pytorch-cpu"),
    "faulty_horovod": ("torch", "horovodrun", "horovod-pytorch-cpu"),
    "faulty_horovod_tensorflow": ("keras", "horovodrun", "horovod-tensorflow-cpu"),
    "faulty_horovod_keras": ("keras", "horovodrun", "horovod-tensorflow-cpu"),
}
"""Backends with faults: family, launcher and environment."""
PLANTED = [("faulty", model, fault) for model, faults in FAULTS.items() for fault in faults]
PLANTED += [(backend, "small_cnn", fault) for backend in list(FAULTY)[1:] for fault in AVERAGING | NONE]


@pytest.fixture(scope="session")
def see_faults(faulty_gate):
    """A function from a backend and a model to the folder of what one start did, with a folder for each fault."""

    def get(backend, model):
        family, launcher, environment = FAULTY[backend]
        names = {"framework": backend, "family": family, "strategy": backend, "launcher": launcher}
        faults = [fault for name, of, fault in PLANTED if (name, of) == (backend, model)]
        cells = {model: {"model": model, **BY_MPI}}
        return faulty_gate.observe(names, environment, cells, 2, PLANTED_FAULTS=",".join(faults)) / model

    return get


@pytest.mark.parametrize(("backend", "model", "fault"), PLANTED)
def test_each_fault_is_caught_by_the_check_that_names_it(
    backend, model, fault, see_faults, faulty_gate, monkeypatch, tmp_path
):
    """One start of a backend does the task with all of them, and with none."""
    monkeypatch.delitem(OPTIMIZERS, "adam")
    seen = see_faults(backend, model)
    folder = shutil.copytree(seen / fault, tmp_path / "seen")
    shutil.copy2(seen / "sgd.spec.json", folder)
    verdict = judge({(2, 1): folder}, faulty_gate.task(model), CELL["precision"])
    assert verdict["reason"].partition(" ")[0] == FAULTS[model][fault]
    assert verdict["status"] == ("passed" if fault == "none" else "failed")


def test_a_crash_fails_its_own_cell_and_another_start_does_the_rest(faulty_gate):
    """One model crashes at its first task; the one after it is observed all the same."""
    family, launcher, environment = FAULTY["faulty"]
    names = {"framework": "faulty", "family": family, "strategy": "faulty", "launcher": launcher}
    cells = {"first": {"model": "small_cnn", "precision": "no_such_precision"}, "second": {"model": "small_cnn"}}
    seen = faulty_gate.observe(names, environment, cells, 1, PLANTED_FAULTS="none", CRASH_AT="no_such_precision")
    assert (seen / "first" / CRASHED).exists() and not (seen / "second" / CRASHED).exists()
    verdict = judge({(1, 1): seen / "first"}, faulty_gate.task("small_cnn"), "fp32")
    assert verdict["status"] == "failed"
    assert "the task could not be done on 1 devices: RuntimeError: told to crash" in verdict["reason"]

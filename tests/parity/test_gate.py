"""The parity gate passes every backend, and catches each planted fault by the check that names it."""

import functools
import json
import os
import shutil
import subprocess

import pytest

from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.report.parity.judge import judge
from howmanygpus.report.parity.page import render_page, tabulate
from howmanygpus.train.parity.task import OPTIMIZERS
from project import FAKES, ONLY_SGD, ROOT
from training.launching import BY_MPI

LIBRARY = ROOT / "workflow" / "lib"
CELL = {"precision": "fp32", "device": "cpu", "device_kind": "cpu", "batchnorm": "local", "loss_on_every_device": False}
CELL |= {"cores_per_device": 1}
DEPTH, SHALLOW_DEPTH = "BLOCKS_PER_STAGE = 7", "BLOCKS_PER_STAGE = 1"


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """A copy with faulty backends, and with fewer blocks in resnet44, which frameworks then build sooner."""
    library = tmp_path_factory.mktemp("library") / "lib"
    shutil.copytree(LIBRARY, library, ignore=shutil.ignore_patterns("__pycache__"))
    package = library / "howmanygpus" / "train"
    for name in FAULTY:
        shutil.copy2(FAKES / f"{name}.py", package / "frameworks" / FAULTY[name][0] / f"{name}.py")
    parameters = package / "models" / "resnet44" / "parameters.py"
    assert parameters.read_text().count(DEPTH) == 1
    parameters.write_text(parameters.read_text().replace(DEPTH, SHALLOW_DEPTH))
    return library


@pytest.fixture(scope="session")
def library_of_sgd(library):
    """The same, whose gate does its task with one optimizer in the place of two."""
    copy = library.with_name("lib_of_sgd")
    shutil.copytree(library, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with open(copy / "howmanygpus" / "train" / "parity" / "task.py", "a") as file:
        file.write(ONLY_SGD)
    return copy


@pytest.fixture(scope="session")
def task(environment_python, tmp_path_factory, library):
    """A function from a model and its BatchNorm to the folder of its task and reference."""
    done = {}

    def get(model, batchnorm="local"):
        if (model, batchnorm) not in done:
            folder = tmp_path_factory.mktemp(f"task_{model}_{batchnorm}")
            command = [environment_python("pytorch-cpu"), "-W", "ignore", "-m", "howmanygpus.train.parity.reference"]
            command += ["--model", model, "--image-shape", "8", "8", "1", "--num-classes", "10"]
            command += ["--batchnorm", batchnorm, "--folder", str(folder)]
            subprocess.run(command, env=os.environ | {"PYTHONPATH": str(library)}, check=True)
            done[model, batchnorm] = folder
        return done[model, batchnorm]

    return get


@pytest.fixture(scope="session")
def library_of_faults(library_of_sgd):
    """And whose probe does it with one fault after the other."""
    copy = library_of_sgd.with_name("lib_of_faults")
    shutil.copytree(library_of_sgd, copy, ignore=shutil.ignore_patterns("__pycache__"))
    parity = copy / "howmanygpus" / "train" / "parity"
    (parity / "probe.py").rename(parity / "renamed_probe.py")
    shutil.copy2(FAKES / "probe_of_faults.py", parity / "probe.py")
    return copy


@pytest.fixture
def check(library, tmp_path):
    """A function to the verdict on a backend that is started with `names`."""
    return functools.partial(observe_and_judge, library, tmp_path)


@pytest.fixture
def check_sgd(library_of_sgd, tmp_path, monkeypatch):
    """The same, from the steps of one optimizer."""
    monkeypatch.delitem(OPTIMIZERS, "adam")
    return functools.partial(observe_and_judge, library_of_sgd, tmp_path)


def observe_and_judge(library, folder, python, task, cell, names, device_counts):
    observed = {(count, 1): folder / str(count) for count in device_counts}
    for (num_devices, _), path in observed.items():
        observe(library, path, python, task, cell, names, num_devices)
    return judge(observed, task, (CELL | cell)["precision"])


def observe(library, folder, python, task, cell, names, num_devices, **changes):
    """Have a backend do the task; what was seen is in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [python, "-m", "howmanygpus.train.parity.observe", "--framework", json.dumps(names)]
    command += ["--cell", json.dumps(CELL | cell), "--task", str(task)]
    command += ["--num-devices", str(num_devices), "--folder", str(folder)]
    environment = os.environ | {"PYTHONPATH": str(library), **changes}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-1000:] + result.stderr[-3000:]


def names_of(framework):
    entry = FRAMEWORKS[framework]
    return {"framework": framework} | {key: getattr(entry, key) for key in ("family", "strategy", "launcher")}


FIRST_OF_FAMILY = {entry.family: name for name, entry in reversed(FRAMEWORKS.items())}.values()
"""They take both optimizers. That all others train alike with Adam is seen in their runs (tests/training/)."""


@pytest.mark.usefixtures("compile_soon")
@pytest.mark.parametrize("framework", list(FRAMEWORKS))
def test_every_backend_passes_on_one_device(framework, request, task, environment_python):
    """With biases and pooling."""
    check = request.getfixturevalue("check" if framework in FIRST_OF_FAMILY else "check_sgd")
    entry, cell, names = FRAMEWORKS[framework], {"model": "small_cnn", **BY_MPI}, names_of(framework)
    verdict = check(environment_python(entry.environments["cpu"]), task("small_cnn"), cell, names, [1])
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    assert {f"updates_{name}" for name in OPTIMIZERS} <= {row["check"] for row in verdict["checks"]}


@pytest.mark.parametrize("framework", list(FRAMEWORKS))
def test_every_backend_passes(framework, check_sgd, task, environment_python):
    """On two devices, where the framework can, with BatchNorm and shortcuts; of JAX the code that XLA optimises."""
    entry, cell, names = FRAMEWORKS[framework], {"model": "resnet44"}, names_of(framework)
    counts = [entry.max_devices.get("cpu", 2)]
    verdict = check_sgd(environment_python(entry.environments["cpu"]), task("resnet44"), cell, names, counts)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    assert {row["devices"] for row in verdict["checks"]} == set(counts)
    assert "updates_adam" not in {row["check"] for row in verdict["checks"]}
    page = render_page(tabulate([{"task": "a_task", "framework": framework, **CELL, **cell, **verdict}]))
    assert framework in page and "averaging" in page


@pytest.mark.usefixtures("compile_soon")
@pytest.mark.parametrize(
    "framework", [name for name, entry in FRAMEWORKS.items() if "synchronized" in entry.batchnorm["cpu"]]
)
def test_synchronized_batchnorm_takes_the_global_batchs_statistics(framework, check_sgd, task, environment_python):
    cell, python = {"model": "resnet44", "batchnorm": "synchronized"}, FRAMEWORKS[framework].environments["cpu"]
    folder = task("resnet44", "synchronized")
    verdict = check_sgd(environment_python(python), folder, cell, names_of(framework), [2])
    assert (verdict["status"], verdict["reason"]) == ("passed", "")


@pytest.mark.parametrize("framework", [name for name, entry in FRAMEWORKS.items() if "bf16" in entry.precisions["cpu"]])
def test_bf16_is_within_its_tolerance_and_beyond_that_of_fp32(framework, check_sgd, task, environment_python, tmp_path):
    cell = {"model": "small_cnn", "precision": "bf16", **BY_MPI}
    python = FRAMEWORKS[framework].environments["cpu"]
    verdict = check_sgd(environment_python(python), task("small_cnn"), cell, names_of(framework), [1])
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    assert judge({(1, 1): tmp_path / "1"}, task("small_cnn"), "fp32")["status"] == "failed"


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
"""By the model that shows them: the check that names each."""
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
def see_faults(library_of_faults, environment_python, task, tmp_path_factory):
    """A function from a backend and a model to the folder of what was seen, with a folder for each fault."""
    seen = {}

    def get(backend, model):
        if (backend, model) not in seen:
            seen[backend, model] = folder = tmp_path_factory.mktemp(f"{backend}_{model}") / "seen"
            family, launcher, environment = FAULTY[backend]
            names = {"framework": backend, "family": family, "strategy": backend, "launcher": launcher}
            faults = [fault for name, of, fault in PLANTED if (name, of) == (backend, model)]
            for fault in faults:
                (folder / fault).mkdir(parents=True)
            python, cell = environment_python(environment), {"model": model, **BY_MPI}
            observe(library_of_faults, folder, python, task(model), cell, names, 2, PLANTED_FAULTS=",".join(faults))
            for fault in faults:
                shutil.copy2(folder / "sgd.spec.json", folder / fault)
        return seen[backend, model]

    return get


@pytest.mark.parametrize(("backend", "model", "fault"), PLANTED)
def test_each_fault_is_caught_by_the_check_that_names_it(backend, model, fault, see_faults, task, monkeypatch):
    """One start of a backend does the task with all of them, and with none."""
    monkeypatch.delitem(OPTIMIZERS, "adam")
    verdict = judge({(2, 1): see_faults(backend, model) / fault}, task(model), CELL["precision"])
    assert verdict["reason"].partition(" ")[0] == FAULTS[model][fault]
    assert verdict["status"] == ("passed" if fault == "none" else "failed")

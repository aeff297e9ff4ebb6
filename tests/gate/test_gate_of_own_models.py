"""The gate of models in users' files: strategies and numbers of devices of each family do what one device does."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gate.faults import EXCHANGED, FAMILIES, NONE
from gate.observing import CELL, DEFAULTS, NUM_CLASSES, SHAPE, Observer, judge_fault, names_of
from helpers.observations import keep
from howmanygpus.gate import causes
from howmanygpus.gate.judge import OwnComparison, judge
from howmanygpus.gate.page import render_page, tabulate
from howmanygpus.registry import FRAMEWORKS
from project import FAKES, ROOT

FILES = {"torch": "pytorch_net", "keras": "keras_net", "flax": "flax_net"}
ENVIRONMENTS = {"torch": "pytorch-cpu", "keras": "tensorflow-cpu", "flax": "jax-cpu"}
CASES = {
    "pytorch_ddp": {},
    "horovod_pytorch": {"horovod_controller": "mpi"},
    "tensorflow_mirrored": {"batchnorm": "synchronized"},
    "keras_mirrored": {},
    "horovod_keras": {"horovod_controller": "mpi"},
    "horovod_tensorflow": {"horovod_controller": "mpi"},
    "jax_sharding": {"batchnorm": "synchronized"},
}
"""What differs from the usual, on two devices."""
OPTIONS = {"width": 4, "depth": 1}
EXAMPLES, STILL, DROPPING = ROOT / "examples" / "model", FAKES / "still_nets", FAKES / "dropping_nets"
ODD, PENALISED, MIXING = (FAKES / f"{name}_nets" for name in ("odd", "penalised", "mixing"))


OWN_FAULTS = {"summed": "norm", "own_statistics": "united", EXCHANGED: "exchange"}
"""Faults that are planted in the training of own models, and the check that names each."""
FAULTY = [("torch", EXAMPLES), ("keras", EXAMPLES), ("flax", EXAMPLES), ("torch", DROPPING), ("keras", DROPPING)]


class OwnObserver(Observer):
    """Observes the examples and fakes. Their code is part of what observations are kept by; `model_file` is one."""

    def __init__(self, *arguments, **variables):
        super().__init__(*arguments, **variables)
        files = sorted(
            path for folder in (EXAMPLES, STILL, DROPPING, ODD, PENALISED, MIXING) for path in folder.glob("*.py")
        )
        text = "".join(path.read_text() for path in files)
        self._code, self._observing = self._code + text, self._observing + text

    def task(self, cell: dict, num_devices: int = 2) -> Path:
        family, batchnorm = cell["family"], cell.get("batchnorm", "local")
        model = ["--family", family, "--model-file", cell["model_file"], "--options", json.dumps(OPTIONS)]
        model += ["--image-shape", *SHAPE, "--num-classes", NUM_CLASSES]

        def make(folder: Path) -> None:
            weights = folder / "own.safetensors"
            command = [
                self.resolve_python(ENVIRONMENTS[family]),
                "-m",
                "howmanygpus.measure.frameworks.initialize_own_model",
            ]
            variables = os.environ | {"PYTHONPATH": str(self.library)}
            subprocess.run([*command, *model, "--seed", "1", "--weights", weights], env=variables, check=True)
            words = ["-m", "howmanygpus.gate.own", *model, "--model", cell["model"]]
            words += ["--batchnorm", batchnorm, "--weights", str(weights.with_suffix(".json"))]
            words += ["--variation", CELL["variation"], *DEFAULTS, "--devices", "1", "2"]
            # Only the examples are judged in fp16, and a model that cannot compute in bf16 needs none of it.
            words += ["--precisions", "fp16"] if Path(cell["model_file"]).parent == EXAMPLES else []
            self._run(ENVIRONMENTS[family], words, folder)

        return keep(
            f"own-task-{Path(cell['model_file']).parent.name}-{family}-{batchnorm}", [self._code], self.scratch, make
        )


@pytest.fixture(scope="module")
def own_gate(environment_python, scratch):
    return OwnObserver(ROOT / "workflow" / "lib", scratch, environment_python)


@pytest.fixture(scope="module")
def judge_own_fault(own_gate, copies, environment_python, scratch, compiled, tmp_path_factory):
    """A function from a family, a folder of models and a fault to the verdict on two devices."""
    observer = OwnObserver(copies("faults"), scratch, environment_python, **compiled)
    observer.task = own_gate.task

    def get(family: str, models: Path, fault: str) -> dict:
        planted, file = FAMILIES[family], models / f"{FILES[family]}.py"
        names = {"framework": planted.strategy, "family": family, "strategy": "planted", "launcher": planted.launcher}
        cell = {"model": FILES[family], "model_file": str(file), "model_options": OPTIONS, "family": family}
        faults = ",".join(f"{each}:all:all" for each in (*OWN_FAULTS, NONE))
        seen = observer.observe(names, planted.environment, {models.name: cell}, 2, PLANTED_FAULTS=faults) / models.name
        return judge_fault(seen, fault, own_gate.task(cell), tmp_path_factory.mktemp("own"), None, OwnComparison)

    return get


@pytest.fixture(scope="module")
def judge_own(own_gate):
    """A function from a framework and a precision to the verdict, with what one start did in all precisions.

    change: from the folder of what was observed to another one.
    """

    def get(framework: str, precision: str, models: Path = EXAMPLES, change=lambda folder: folder) -> dict:
        family = FRAMEWORKS[framework].family
        file = models / f"{FILES[family]}.py"
        cell = {"model": FILES[family], "model_file": str(file), "model_options": OPTIONS, "family": family}
        cell |= CASES.get(framework, {}) if models == EXAMPLES else {}
        precisions = [name for name in ("fp32", "fp16") if name in FRAMEWORKS[framework].precisions["cpu"]]
        cells = {name: cell | {"precision": name} for name in precisions if models == EXAMPLES or name == precision}
        folder = own_gate.observe(names_of(framework), FRAMEWORKS[framework].environments["cpu"], cells, 2)
        return judge({(2, 1): change(folder / precision)}, own_gate.task(cell), None, OwnComparison)

    return get


@pytest.mark.parametrize("framework", CASES)
def test_two_devices_match_one(framework, judge_own):
    verdict = judge_own(framework, "fp32")
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    checks = {row["check"] for row in verdict["checks"]}
    assert {"losses", "gradients", "updates_sgd", "updates_own", "replicas"} <= checks
    assert {"statistics", "evaluation_after", "evaluation_first"} <= checks
    assert not verdict["not_compared"]


def test_products_that_cannot_be_read_are_said_not_to_be_compared(judge_own, tmp_path):
    def hide_backward_pass(folder: Path) -> Path:
        hidden = shutil.copytree(folder, tmp_path / "hidden")
        for path in hidden.glob("*.rank*.json"):
            facts = json.loads(path.read_text())
            facts["numbers"]["formats"]["backward"] = []
            path.write_text(json.dumps(facts))
        return hidden

    verdict = judge_own("pytorch_ddp", "fp32", change=hide_backward_pass)
    (said,) = verdict["not_compared"]
    assert verdict["status"] == "passed" and "backward" in said and "forward" not in said


@pytest.mark.parametrize("framework", [name for name in CASES if "fp16" in FRAMEWORKS[name].precisions["cpu"]])
def test_they_do_so_in_fp16_and_skip_no_step(framework, judge_own):
    verdict = judge_own(framework, "fp16")
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    direction = next(row for row in verdict["checks"] if row["check"] == "direction")
    assert direction["value"] > 1e-9, "the framework computed in float32"
    assert "skipped" in {row["check"] for row in verdict["checks"]}


@pytest.mark.parametrize("framework", ["pytorch_ddp", "keras_mirrored", "jax_sharding"])
def test_arrays_that_do_not_move_are_not_taken_for_rounded_ones(framework, judge_own):
    """A closed branch, scales of ones without gradients and, in PyTorch, a frozen parameter."""
    verdict = judge_own(framework, "fp32", STILL)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")


@pytest.mark.parametrize(
    "framework", ["pytorch_ddp", "horovod_pytorch", "tensorflow_mirrored", "tensorflow_multiworker", "horovod_keras"]
)
def test_a_model_that_draws_random_numbers_passes_and_the_page_says_what_was_not_compared(framework, judge_own):
    verdict = judge_own(framework, "fp32", DROPPING)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    said = "; ".join(verdict["not_compared"])
    assert "directions" in said and "norm" in {row["check"] for row in verdict["checks"]}
    cell = CELL | {"framework": framework, "model": "net", "task": "one"}
    assert said in render_page(tabulate([verdict | cell]))


@pytest.mark.parametrize("framework", [*(name for name in CASES if name != "jax_sharding"), "tensorflow_multiworker"])
def test_a_model_with_odd_buffers_and_statistics_of_its_own_passes(framework, judge_own):
    """In PyTorch also a mask of -inf, an expanded buffer, a wiring that each process draws, and nothing in bf16."""
    verdict = judge_own(framework, "fp32", ODD)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    assert {"statistics", "united"} <= {row["check"] for row in verdict["checks"]}


@pytest.mark.parametrize("framework", ["tensorflow_mirrored", "keras_mirrored", "horovod_tensorflow", "horovod_keras"])
def test_all_strategies_of_keras_add_the_losses_of_layers(framework, judge_own):
    verdict = judge_own(framework, "fp32", PENALISED)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")


def test_a_failed_verdict_names_its_likeliest_cause(judge_own):
    verdict = judge_own("pytorch_ddp", "fp32", MIXING)
    assert verdict["status"] == "failed" and verdict["reason"].endswith(causes.MIXING)


@pytest.mark.parametrize("fault", OWN_FAULTS)
@pytest.mark.parametrize(("family", "models"), FAULTY)
def test_each_fault_in_the_training_of_an_own_model_is_caught_by_its_check(family, models, fault, judge_own_fault):
    verdict = judge_own_fault(family, models, fault)
    failed = {row["check"] for row in verdict["checks"] if not row["passed"]}
    assert OWN_FAULTS[fault] in failed


@pytest.mark.parametrize(("family", "models"), FAULTY)
def test_an_own_model_passes_after_the_faults(family, models, judge_own_fault):
    verdict = judge_own_fault(family, models, NONE)
    assert (verdict["status"], verdict["reason"]) == ("passed", "")

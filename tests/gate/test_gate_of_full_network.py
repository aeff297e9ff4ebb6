"""
ResNet-18 with all its layers and 11 million parameters passes the gate in PyTorch, on one device and on two.

The other tests gate short networks. This one does the task with sgd alone and does not choose among images, because the
reference of a large network takes long. Its verdicts are kept, and not the arrays, which have a gigabyte.
"""

import json
import shutil

import pytest

from gate.observing import CELL, CODE, DEFAULTS, Observer, names_of
from helpers.observations import LIBRARY, hash_code, keep
from howmanygpus.gate.judge import judge
from howmanygpus.gate.task import OPTIMIZERS
from howmanygpus.study.invalidation.pins import hash_pins
from project import ROOT

SHAPE, NUM_CLASSES = ("32", "32", "3"), "10"
FRAMEWORK, ENVIRONMENT = "pytorch_ddp", "pytorch-cpu"
CELL_OF_FULL = CELL | {"framework": FRAMEWORK, "model": "resnet18", "crop": [int(size) for size in SHAPE[:2]]}
LAYOUTS = (1, 2)
FEWER = """
from howmanygpus.gate import observe, reference, task
del task.OPTIMIZERS["own"]
reference.NUM_CANDIDATES = 1
"""


class FullObserver(Observer):
    def do(self, module: str, words: list[str], folder) -> None:
        self._run(ENVIRONMENT, ["-W", "ignore", "-c", f"{FEWER}{module}.main()", *words], folder)

    def judge(self, top) -> dict[str, dict]:
        """Return the verdict on each number of devices. top: an empty folder, whose arrays are removed."""
        words = ["--model", CELL_OF_FULL["model"], "--image-shape", *SHAPE, "--num-classes", NUM_CLASSES]
        self.do(
            "reference",
            [
                *(*words, "--batchnorm", CELL_OF_FULL["batchnorm"], "--variation", CELL["variation"], *DEFAULTS),
                *("--devices", *map(str, LAYOUTS)),
            ],
            top / "task",
        )
        cells = {"full": CELL_OF_FULL | {"task": str(top / "task")}}
        words = [
            "--request",
            json.dumps({"framework": names_of(FRAMEWORK), "cells": cells}),
            "--keys",
            "full",
            *DEFAULTS,
        ]
        verdicts = {}
        for number in LAYOUTS:
            placement = ["--placement", json.dumps(self.placement(number))]
            self.do("observe", [*words, "--num-devices", str(number), *placement], top / str(number))
            verdicts[str(number)] = judge({(number, 1): top / str(number) / "full"}, top / "task")
            shutil.rmtree(top / str(number))
        shutil.rmtree(top / "task")
        return verdicts


@pytest.fixture(scope="module")
def verdicts(scratch, environment_python):
    observer = FullObserver(ROOT / "workflow" / "lib", scratch, environment_python)

    def make(folder):
        with pytest.MonkeyPatch.context() as patch:
            patch.delitem(OPTIMIZERS, "own")
            (folder / "verdicts.json").write_text(json.dumps(observer.judge(folder)))

    code = [hash_code({ROOT / "workflow" / "lib": CODE, LIBRARY: ("gate/*.py",)}), FEWER]
    key = [*code, CELL_OF_FULL, SHAPE, NUM_CLASSES, hash_pins(ENVIRONMENT), hash_pins("workflow")]
    return json.loads((keep("full-resnet18", key, scratch, make) / "verdicts.json").read_text())


@pytest.mark.parametrize("num_devices", LAYOUTS)
def test_a_full_network_passes_the_gate(num_devices, verdicts):
    verdict = verdicts[str(num_devices)]
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    checks = {row["check"]: row for row in verdict["checks"]}
    assert {"losses", "averaging", "gradients", "updates_sgd", "statistics"} <= checks.keys()
    assert ("replicas" in checks) == (num_devices > 1), "one replica has no other to be compared with"
    assert checks["weights"]["detail"].startswith("11181642 trainable parameters")

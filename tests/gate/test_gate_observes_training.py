"""What the gate observes of a training step: products, products of the backward pass, the exchange of gradients."""

import json
import math
import shutil

import pytest
from safetensors.numpy import load_file

from gate.cells import DEEP, NETWORKS, SMALL, count_devices
from gate.faults import FAMILIES
from gate.observing import names_of
from howmanygpus.gate.coverage import describe_gaps
from howmanygpus.gate.judge import judge
from howmanygpus.gate.task import WEIGHTS
from howmanygpus.registry import FRAMEWORKS
from measure.launching import BY_MPI

CELLS = {"fp32": SMALL, "bf16": SMALL | {"precision": "bf16"}, "deep": DEEP | BY_MPI}
FORMATS = {"fp32": "float32", "bf16": "bfloat16", "deep": "float32"}
PLANTED = {"trained_in_float32": ("bf16",), "backward_in_float32": ("bf16",), "exchanged_in_float16": ("fp32", "bf16")}
"""Faults and the cells that they are planted in."""


def read_numbers(folder):
    facts = [json.loads(path.read_text()) for path in sorted(folder.glob("*.rank*.json"))]
    assert facts
    return [(fact["numbers"], fact["num_processes"]) for fact in facts]


def count_bytes(task):
    """Return the bytes of all gradients in float32."""
    arrays = load_file(task / WEIGHTS)
    return sum(4 * math.prod(arrays[name].shape) for name in arrays if not name.endswith((".mean", ".variance")))


@pytest.mark.parametrize("num_devices", [1, 2])
@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if count_devices(name) > 1])
def test_a_training_step_shows_its_formats_and_what_it_exchanges(framework, num_devices, gate):
    entry = FRAMEWORKS[framework]
    cells = {name: cell for name, cell in CELLS.items() if cell.get("precision", "fp32") in entry.precisions["cpu"]}
    folder = gate.observe(names_of(framework), entry.environments["cpu"], cells, num_devices)
    for name, cell in cells.items():
        for numbers, num_processes in read_numbers(folder / name):
            assert numbers["formats"]["activations"] == numbers["formats"]["backward"] == [FORMATS[name]]
            total = count_bytes(gate.task(cell)) * num_devices // num_processes
            # With one device, DistributedDataParallel and ChainerMN exchange with themselves, and others do not.
            assert numbers["exchanged"] == {"float32": total} or (num_devices == 1 and not numbers["exchanged"])


def test_an_exchange_that_cannot_be_observed_is_not_judged(gate, tmp_path):
    """DataParallel's cannot. On CPUs it uses one device, so that what DistributedDataParallel did stands for it."""
    seen = gate.observe(names_of("pytorch_ddp"), "pytorch-cpu", {"fp32": SMALL}, 2) / "fp32"
    folder = shutil.copytree(seen, tmp_path / "seen")
    verdict = judge({(2, 1): folder}, gate.task(SMALL))
    assert verdict["status"] == "passed" and "exchange" not in describe_gaps(verdict)
    for path in folder.glob("*.rank*.json"):
        facts = json.loads(path.read_text())
        facts["numbers"]["exchanged"] = None
        path.write_text(json.dumps(facts))
    verdict = judge({(2, 1): folder}, gate.task(SMALL))
    assert verdict["status"] == "passed" and "exchange" in describe_gaps(verdict)


@pytest.mark.parametrize("framework", ["pytorch_ddp", "jax_sharding", "tensorflow_mirrored"])
def test_attention_computes_its_products_in_the_precision(framework, gate):
    """Its backward pass also takes sums that are always in float32, and that are no operands of a product."""
    cell = NETWORKS["vit_b16"] | {"precision": "bf16"}
    folder = gate.observe(names_of(framework), FRAMEWORKS[framework].environments["cpu"], {"vit": cell}, 1)
    ((numbers, _),) = read_numbers(folder / "vit")[:1]
    assert numbers["formats"]["activations"] == numbers["formats"]["backward"] == ["bfloat16"]


@pytest.mark.parametrize("framework", ["horovod_tensorflow", "horovod_keras"])
def test_a_compression_shows_in_what_is_exchanged(framework, gate):
    cell = SMALL | {"gradient_compression": "fp16"}
    environment = FRAMEWORKS[framework].environments["cpu"]
    folder = gate.observe(names_of(framework), environment, {"small": cell}, 2)
    for numbers, _ in read_numbers(folder / "small"):
        assert numbers["exchanged"] == {"float16": count_bytes(gate.task(cell)) // 2}


@pytest.mark.parametrize("family", ["keras", "flax", "gluon", "chainer"])
def test_formats_of_the_training_alone_and_of_the_exchange_are_seen(family, faulty_gate):
    planted = FAMILIES[family]
    names = {"framework": planted.strategy, "family": family, "strategy": "planted", "launcher": planted.launcher}
    cells = {name: CELLS[name] for name in ("fp32", "bf16") if name == "fp32" or planted.has_bf16}
    faults = [(fault, cell) for fault, at in PLANTED.items() for cell in at if cell in cells]
    listed = ",".join(f"{fault}:sgd:{cell}" for fault, cell in faults)
    folder = faulty_gate.observe(names, planted.environment, cells, 2, PLANTED_FAULTS=listed)
    for fault, cell in faults:
        numbers, num_processes = read_numbers(folder / cell / fault)[-1]
        formats, exchanged = numbers["formats"], numbers["exchanged"]
        total = 2 * count_bytes(faulty_gate.task(CELLS[cell])) // num_processes
        assert exchanged == ({"float16": total // 2} if fault == "exchanged_in_float16" else {"float32": total})
        if fault == "backward_in_float32":
            assert "float32" in formats["backward"] and "bfloat16" in formats["activations"]
        else:
            seen = "float32" if fault == "trained_in_float32" else FORMATS[cell]
            assert formats["activations"] == formats["backward"] == [seen]

"""The parity gate passes what PyTorch compiles, which the tier `best` does on GPUs alone; here it is for CPUs."""

import shutil

import pytest

from gate.cells import DEEP, SMALL
from gate.observing import names_of
from howmanygpus.gate.judge import judge

SMALLEST, DEEPER = {"small": SMALL | {"tier": "best"}}, {"deep": DEEP | {"tier": "best"}}
CELLS_ON = {1: SMALLEST | DEEPER, 2: SMALLEST}


@pytest.mark.skipif(shutil.which("g++") is None, reason="PyTorch compiles for CPUs with g++, which is missing")
@pytest.mark.parametrize("num_devices", CELLS_ON)
def test_compiled_networks_pass(compiling_gate, num_devices):
    """On one device without DDP, on two by parts as large as DDP's buckets. Each network is compiled."""
    cells = CELLS_ON[num_devices]
    names = names_of("pytorch_ddp") | {"strategy": "compiled_ddp"}
    folder = compiling_gate.observe(names, "pytorch-cpu", cells, num_devices)
    for key, cell in cells.items():
        verdict = judge({(num_devices, 1): folder / key}, compiling_gate.task(cell))
        assert (verdict["status"], verdict["reason"]) == ("passed", "")

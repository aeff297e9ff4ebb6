"""The all-reduce preflight measures each process's own GPU. A stand-in replaces PyTorch."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from helpers.specs import make_spec
from howmanygpus.measure import allreduce


class Tensor:
    def fill_(self, value):
        return self

    def item(self):
        return 0.001


@pytest.fixture
def called(monkeypatch):
    """Return the list of calls that depend on the current GPU, in order, with the GPU that was current."""
    calls, current = [], [0]

    def note(name):
        return lambda *arguments, **options: calls.append((name, current[0]))

    torch, dist = ModuleType("torch"), ModuleType("torch.distributed")
    torch.device = lambda kind, index=0: SimpleNamespace(type=kind, index=index)
    torch.tensor = lambda *arguments, **options: Tensor()
    torch.ones = lambda size, **options: calls.append((f"{size} numbers", current[0])) or Tensor()
    torch.float64 = None
    torch.cuda = SimpleNamespace(
        set_device=lambda device: current.__setitem__(0, device.index), synchronize=note("synchronize")
    )
    dist.init_process_group, dist.all_reduce = note("init"), note("all_reduce")
    dist.barrier, dist.destroy_process_group = note("barrier"), note("destroy")
    dist.ReduceOp = SimpleNamespace(AVG=0, SUM=1, MAX=2)
    torch.distributed = dist
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.distributed", dist)
    monkeypatch.setattr(allreduce, "bind_to_device_cores", lambda *arguments: None)
    monkeypatch.setenv("LOCAL_RANK", "3")
    return calls


def test_each_process_synchronises_its_own_gpu(called, tmp_path):
    rows = allreduce.measure(make_spec(num_gpus=4, device="cuda", device_kind="cuda"), allreduce.SIZES_MIB, tmp_path)
    assert [row["size_mib"] for row in rows] == list(allreduce.SIZES_MIB)
    assert {name for name, _ in called} >= {"init", "barrier", "synchronize", "all_reduce"}
    assert {gpu for _, gpu in called} == {3}, "with GPU 0 current, the copies of GPU 3 are not waited for"


def test_an_array_has_exactly_as_many_numbers_as_its_bytes(called, tmp_path):
    """The gradients of resnet50 are no whole number of MiB."""
    allreduce.measure(make_spec(num_gpus=4, device="cuda", device_kind="cuda"), [4 * 25_557_032 / 2**20], tmp_path)
    assert ("25557032 numbers", 3) in called

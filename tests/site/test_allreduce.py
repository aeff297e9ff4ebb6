"""The all-reduce preflight measures each process's own GPU. A stand-in replaces PyTorch."""

import json
import os
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from helpers.messages import says
from helpers.specs import make_spec
from howmanygpus.measure import allreduce
from howmanygpus.site.network import describe_exchange
from project import ROOT


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


def measure_by_script(folder, environment, judge, link):
    """Measure the all-reduce of two CPU devices. link: what their link can do, in GB/s."""
    device = {"device": "cpu", "device_kind": "cpu", "cores_per_device": 1}
    options = {"device": json.dumps(device), "num-devices": "2", "num-nodes": "1", "placement": '{"bind_cores": false}'}
    options |= {"studies": "s", "environment": str(environment), "link": json.dumps({"within_node": link})}
    options |= {"judge": judge, "record": str(folder / "record.json")}
    command = [sys.executable, str(ROOT / "workflow/scripts/measure_allreduce.py")]
    command += [word for name, value in options.items() for word in (f"--{name}", value)]
    surroundings = os.environ | {"PYTHONPATH": str(ROOT / "workflow/lib")}
    return subprocess.run(command, cwd=folder, env=surroundings, capture_output=True, text=True)


def test_the_preflight_names_the_interface_of_gloo_and_judges_its_link(environment_record, tmp_path):
    environment = environment_record("pytorch-cpu")
    told = measure_by_script(tmp_path, environment, "report", link=1e4)
    assert told.returncode == 0, told.stderr
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["transport"]["within_node"]["interfaces"] and record["transport"]["library"] == "gloo"
    (finding,) = record["findings"]
    assert says(finding["text"], "2 x cpu", "of 10,000 GB/s", "gloo") and finding["text"] in told.stdout
    (tmp_path / "record.json").unlink()
    refused = measure_by_script(tmp_path, environment, "refuse", link=1e4)
    assert refused.returncode and not (tmp_path / "record.json").exists()
    assert says(refused.stderr, "judge_network: refuse", "2 x cpu", "of 10,000 GB/s", "judge_network: report")


def test_what_cannot_be_read_is_one_sentence(tmp_path):
    (tmp_path / "sockets.0.json").write_text("{")
    found = describe_exchange(tmp_path, "cpu", 1)
    assert found["transport"] is found["network"] is None and "JSONDecodeError" in found["problem"]


@pytest.mark.parametrize("num_nodes", [1, 2])
def test_an_nccl_that_prints_nothing_fails_nothing(tmp_path, num_nodes):
    found = describe_exchange(tmp_path, "cuda", num_nodes, root=tmp_path)
    assert found["transport"]["not_recognised"] == "NCCL printed nothing" and found["network"]["gpus"] == []

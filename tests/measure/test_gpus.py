"""A run gets GPUs, parts of them and cores near them, and its record says which. A stand-in replaces NVML."""

import os

import pytest

from helpers.nvml import FakeGpu, FakeNvml
from helpers.specs import make_spec
from howmanygpus.measure.frameworks.flax.memory import preallocate_gpu_memory
from howmanygpus.measure.host import gpus, processes
from howmanygpus.measure.host.devices import assign_devices, describe_topology
from howmanygpus.site import node_check

NEAR, FAR = (0, 1, 2, 3), (4, 5, 6, 7)
BOARDS = [FakeGpu("GPU-far", FAR), FakeGpu("GPU-near", NEAR, peers=("GPU-third",)), FakeGpu("GPU-third", NEAR)]
SPLIT = [FakeGpu("GPU-whole"), FakeGpu("GPU-split", parts=("MIG-a", "MIG-b"))]


@pytest.fixture
def host(monkeypatch):
    """Return a function that gives this machine GPUs. It has two NUMA nodes of four cores, with one thread each."""
    nodes = {0: set(NEAR), 1: set(FAR)}
    for module in (processes, gpus, "howmanygpus.measure.host.devices"):
        name = module if isinstance(module, str) else module.__name__
        monkeypatch.setattr(f"{name}.list_numa_nodes", lambda: nodes)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {*NEAR, *FAR})
    monkeypatch.setattr(processes, "position_among_siblings", lambda core: 0)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return lambda *boards: FakeNvml(list(boards)).install(monkeypatch)


def assign(num_gpus, cores_per_device=2, **changes):
    return assign_devices(make_spec(num_gpus=num_gpus, cores_per_device=cores_per_device, **changes))


def on_gpus(num_gpus):
    return assign(num_gpus, device="cuda", device_kind="cuda")


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, ["GPU-whole", "MIG-a", "MIG-b"]),
        ("MIG-b", ["MIG-b"]),
        ("MIG-b,GPU-whole", ["MIG-b", "GPU-whole"]),
        ("1,0", ["MIG-a", "MIG-b", "GPU-whole"]),
    ],
)
def test_the_parts_of_a_split_gpu_are_devices(host, monkeypatch, visible, expected):
    host(*SPLIT)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpus.list_gpu_uuids() == expected


@pytest.mark.parametrize(
    ("visible", "expected"), [(None, ["GPU-b", "GPU-c"]), ("1,0", ["GPU-c", "GPU-b"]), ("0, 1", ["GPU-b", "GPU-c"])]
)
def test_gpus_that_a_cgroup_denies_have_no_number(host, monkeypatch, visible, expected):
    """NVML counts them, but CUDA numbers the others from zero. CUDA ignores spaces."""
    host(FakeGpu("GPU-a", denied=True), FakeGpu("GPU-b"), FakeGpu("GPU-c"))
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpus.list_gpu_uuids() == expected


@pytest.mark.parametrize(("visible", "expected"), [("1,7,0", ["GPU-b"]), ("-1,0", []), ("0,", ["GPU-a"]), ("", [])])
def test_an_entry_that_names_no_gpu_ends_the_list(host, monkeypatch, visible, expected):
    """CUDA ignores what follows it; a run would use a GPU that the user has hidden."""
    host(FakeGpu("GPU-a"), FakeGpu("GPU-b"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpus.list_gpu_uuids() == expected


def test_all_processes_number_gpus_like_nvml(host, monkeypatch):
    """By default CUDA begins with the GPU that it takes for the fastest."""
    host(FakeGpu("GPU-slow"), FakeGpu("GPU-fast"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    variables = on_gpus(1).variables
    assert (variables["CUDA_VISIBLE_DEVICES"], variables["CUDA_DEVICE_ORDER"]) == ("GPU-fast", "PCI_BUS_ID")


def test_parts_of_gpus_cannot_be_used_together(host, monkeypatch):
    """A program of CUDA would see the first one only."""
    host(*SPLIT)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b")
    assert on_gpus(1).gpu_uuids == ["MIG-a"]
    with pytest.raises(ValueError, match="MIG-a, MIG-b has parts of a GPU"):
        on_gpus(2)


def test_a_part_has_the_compute_capability_of_its_gpu(host, monkeypatch):
    host(*SPLIT)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-a")
    assert (gpus.read_compute_capability(), gpus.read_gpu_name()) == ("9.0", "NVIDIA H200 MIG 1g.18gb")
    probed = node_check.describe_gpu("MIG-a")
    assert (probed["compute_capability"], probed["mig"], probed["memory_gib"]) == ("9.0", True, 80.0)


def test_each_gpu_gets_cores_of_its_own_numa_node(host):
    """The first two cores are near the second GPU."""
    host(*BOARDS)
    assignment = on_gpus(2)
    assert assignment.gpu_uuids == ["GPU-far", "GPU-near"]
    assert assignment.cores_by_device == [[4, 5], [0, 1]] and assignment.cores == [4, 5, 0, 1]


def test_a_gpu_gets_remote_cores_if_its_numa_node_is_full(host):
    host(*[FakeGpu(f"GPU-{i}", NEAR) for i in range(4)])
    assert on_gpus(4).cores_by_device == [[0, 1], [2, 3], [4, 5], [6, 7]]


@pytest.mark.parametrize(
    ("num_boards", "cores"),
    [(4, [[0, 4], [1, 5], [2, 6], [3, 7]]), (2, [[0, 1], [2, 3]])],
    ids=["more threads than physical cores", "no more"],
)
def test_gpus_get_the_same_kind_of_cores_at_every_number_of_gpus(host, monkeypatch, num_boards, cores):
    """Otherwise the first GPUs would get physical cores, and the others the second threads of the same cores."""
    monkeypatch.setattr(processes, "position_among_siblings", lambda core: core // 4)
    monkeypatch.setattr(processes, "list_siblings", lambda core: [core % 4, core % 4 + 4])
    host(*[FakeGpu(f"GPU-{i}", (*NEAR, *FAR)) for i in range(num_boards)])
    for num_gpus in range(1, num_boards + 1):
        assert on_gpus(num_gpus).cores_by_device == cores[:num_gpus]


def test_a_cpu_device_has_cores_of_one_numa_node(host):
    """In the order of their numbers, the second device would have cores 3, 4 and 5 of two nodes."""
    assert assign(2, cores_per_device=3).cores_by_device == [[0, 1, 2], [4, 5, 6]]


def test_processes_are_bound_to_the_cores_of_their_device(host, monkeypatch):
    host(*BOARDS)
    bound = []
    monkeypatch.setattr("os.sched_setaffinity", lambda pid, cores: bound.append(cores))
    monkeypatch.delenv(processes.BINDING_VARIABLE, raising=False)
    for name, value in on_gpus(2).variables.items():
        monkeypatch.setenv(name, value)
    processes.bind_to_device_cores(0, 2)
    processes.bind_to_device_cores(1, 2)
    assert bound == [[4, 5], [0, 1]]


def test_the_topology_names_cores_gpus_and_links(host):
    host(*BOARDS)
    topology = describe_topology(on_gpus(3))
    assert [device["numa_nodes"] for device in topology["cores"]] == [[1], [0], [0]]
    assert topology["gpus"][1] == {
        **{"uuid": "GPU-near", "name": "NVIDIA H200", "pci_bus_id": "00000000:01:00.0", "numa_nodes": [0]}
    }
    assert {tuple(each["gpus"]): each["link"] for each in topology["links"]} == {
        ("GPU-far", "GPU-near"): "several NUMA nodes",
        ("GPU-far", "GPU-third"): "several NUMA nodes",
        ("GPU-near", "GPU-third"): "NVLink",
    }


@pytest.mark.parametrize(("memory_gib", "fraction"), [(80.0, "0.975"), (16.0, "0.875"), (4.0, "0.750")])
def test_jax_leaves_memory_of_the_gpu_for_cuda(host, monkeypatch, memory_gib, fraction):
    host(FakeGpu("GPU-large"), FakeGpu("GPU-small", memory_gib=memory_gib))
    monkeypatch.setattr("os.environ", {})
    preallocate_gpu_memory()
    assert os.environ == {"XLA_CLIENT_MEM_FRACTION": fraction}


@pytest.mark.parametrize("memory_gib", [None, 0.0])
def test_jax_keeps_its_default_where_the_gpu_shares_the_hosts_memory(host, monkeypatch, memory_gib):
    """With another fraction, the programs of the host would have hardly any memory left."""
    host(FakeGpu("GPU-own"), FakeGpu("GPU-shared", memory_gib=memory_gib))
    monkeypatch.setattr("os.environ", {})
    preallocate_gpu_memory()
    assert os.environ == {}
    assert node_check.describe_gpu("GPU-shared")["memory_gib"] is None


def test_a_fraction_of_the_users_shell_stays(host, monkeypatch):
    host(FakeGpu("GPU-one"))
    monkeypatch.setattr("os.environ", {"XLA_CLIENT_MEM_FRACTION": "0.5"})
    preallocate_gpu_memory()
    assert os.environ == {"XLA_CLIENT_MEM_FRACTION": "0.5"}

"""What a node's links can carry is read from a folder that stands for /sys, and from a pretended driver."""

import pynvml
import pytest

from helpers.nvml import FakeGpu, FakeNvml
from howmanygpus.measure.host.gpus import list_gpu_uuids
from howmanygpus.site.network.links import (
    describe_network,
    find_rdma,
    find_slingshot,
    has_nvlink,
    read_gpu_links,
    read_pairs,
    sum_rates,
)


@pytest.fixture
def make_sys(tmp_path):
    """Return a function that writes files below sys/class of a folder, and returns it. None makes a folder."""

    def make(**files):
        for name, text in files.items():
            path = tmp_path / "sys" / "class" / name.replace("__", "/")
            if text is None:
                path.mkdir(parents=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"{text}\n")
        return tmp_path

    return make


def port(name, rate, layer="InfiniBand", state="4: ACTIVE"):
    folder = f"infiniband__{name}__ports__1"
    return {f"{folder}__rate": rate, f"{folder}__link_layer": layer, f"{folder}__state": state}


def interface(name, speed, hardware=1, **more):
    facts = {f"net__{name}__device": None, f"net__{name}__type": hardware, **more}
    return facts | ({} if speed is None else {f"net__{name}__speed": speed})


@pytest.mark.parametrize(
    ("rate", "gb_per_s"),
    [
        ("56 Gb/sec (4X FDR)", 7),
        ("100 Gb/sec (4X EDR)", 12.5),
        ("200 Gb/sec (4X HDR)", 25),
        ("400 Gb/sec (4X NDR)", 50),
        ("800 Gb/sec (4X XDR)", 100),
        ("2.5 Gb/sec (1X SDR)", 0.3125),
        ("", None),
        ("unknown", None),
    ],
)
def test_an_infiniband_port_has_the_rate_of_its_file(make_sys, rate, gb_per_s):
    (found,) = describe_network(make_sys(**port("mlx5_0", rate)), [])["ports"]
    assert found == {"name": "mlx5_0:1", "gb_per_s": gb_per_s, "layer": "InfiniBand", "is_active": True}


def test_ports_that_are_down_do_not_count(make_sys):
    ports = port("mlx5_0", "200 Gb/sec (4X HDR)") | port("mlx5_1", "10 Gb/sec (4X SDR)", state="1: DOWN")
    network = describe_network(make_sys(**ports, **port("mlx5_2", "100 Gb/sec (4X EDR)", "Ethernet")), [])
    assert [each["name"] for each in find_rdma(network)] == ["mlx5_0:1", "mlx5_2:1"]
    assert sum_rates(find_rdma(network, "InfiniBand")) == 25


@pytest.mark.parametrize(("speed", "gb_per_s"), [(100_000, 12.5), (-1, None), (None, None), ("x", None), (0, None)])
def test_an_interface_has_its_speed_if_the_kernel_knows_it(make_sys, speed, gb_per_s):
    (found,) = describe_network(make_sys(**interface("eth0", speed)), [])["interfaces"]
    assert found == {"name": "eth0", "kind": "ethernet", "gb_per_s": gb_per_s}


def test_a_virtual_interface_has_no_speed_that_counts(make_sys):
    """The kernel gives 10 Gb/s to each end of a container's pair."""
    root = make_sys(net__veth0__speed=10_000, net__veth0__type=1, net__lo__type=772, net__bond0__bonding=None)
    (root / "sys/class/net/bond0/speed").write_text("50000")
    found = describe_network(root, [])["interfaces"]
    assert [(each["name"], each["gb_per_s"]) for each in found] == [("bond0", 6.25)]


def test_slingshot_is_found_by_its_interfaces_and_its_devices(make_sys):
    known = make_sys(**interface("hsn0", 200_000), **interface("hsn1", 200_000), **interface("ib0", 100_000, 32))
    network = describe_network(known, [])
    assert [each["kind"] for each in network["interfaces"]] == ["slingshot", "slingshot", "infiniband"]
    assert sum_rates(find_slingshot(network)) == 50
    assert sum_rates(find_slingshot(network | {"interfaces": [], "slingshot": ["cxi0"]})) == 25


@pytest.mark.parametrize("content", [None, "a file in place of the folder"])
def test_a_machine_without_sys_has_no_links(tmp_path, content):
    (tmp_path / "sys" / "class").mkdir(parents=True)
    if content:
        for name in ("net", "infiniband", "cxi"):
            (tmp_path / "sys" / "class" / name).write_text(content)
    network = describe_network(tmp_path, [])
    assert network == {"ports": [], "interfaces": [], "slingshot": [], "gpus": [], "pairs": []}


@pytest.fixture
def install(monkeypatch):
    """Return a function that installs pretended GPUs, and answers of NVML by the names of its functions."""

    def install(*uuids, peers=True, **answers):
        gpus = [FakeGpu(uuid, peers=tuple(set(uuids) - {uuid}) if peers else ()) for uuid in uuids]
        FakeNvml(gpus).install(monkeypatch)
        for name, value in answers.items():
            monkeypatch.setattr(pynvml, name, value if callable(value) else lambda *_, value=value: value)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        return list_gpu_uuids()

    return install


def refuse(*_):
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


@pytest.mark.parametrize(
    ("capability", "lanes", "generation", "width", "nvlink", "pcie"),
    [
        ((6, 0), 4, 3, 16, 80, 15.76),
        ((7, 0), 6, 3, 16, 150, 15.76),
        ((8, 0), 12, 4, 16, 300, 31.504),
        ((8, 6), 4, 4, 16, 56.25, 31.504),
        ((9, 0), 18, 5, 16, 450, 63.008),
        ((10, 0), 18, 6, 16, 900, 121.008),
        ((8, 9), 0, 4, 8, None, 15.752),
        ((12, 0), 0, 5, 16, None, 63.008),
    ],
)
def test_a_gpu_has_its_links_by_generation_and_lanes(install, capability, lanes, generation, width, nvlink, pcie):
    def get_state(board, link):
        return 1 if link < lanes else refuse()

    uuids = install(
        "GPU-1",
        nvmlDeviceGetCudaComputeCapability=capability,
        nvmlDeviceGetNvLinkState=get_state,
        nvmlDeviceGetMaxPcieLinkGeneration=generation,
        nvmlDeviceGetMaxPcieLinkWidth=width,
    )
    gpu = read_gpu_links(*uuids)
    assert (gpu["nvlink_gb_per_s"], gpu["pcie_gb_per_s"]) == (nvlink, pytest.approx(pcie))


def test_a_driver_without_these_fields_leaves_the_links_unknown(install, monkeypatch):
    names = ("nvmlDeviceGetNvLinkState", "nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkWidth")
    uuids = install("GPU-1", "GPU-2", nvmlDeviceGetP2PStatus=refuse, **dict.fromkeys(names, refuse))
    monkeypatch.delattr(pynvml, "nvmlDeviceGetMaxPcieLinkGeneration")
    for uuid in uuids:
        gpu = read_gpu_links(uuid)
        assert gpu["nvlink_gb_per_s"] is gpu["pcie_gb_per_s"] is None
    (pair,) = read_pairs(uuids)
    assert (pair["nvlink"], pair["peer"]) == (None, None) and not has_nvlink({"pairs": [pair]})


@pytest.mark.parametrize(
    ("answer", "is_shared"),
    [(pynvml.NVML_TOPOLOGY_SINGLE, True), (pynvml.NVML_TOPOLOGY_HOSTBRIDGE, False), (refuse, None)],
)
def test_a_pair_says_whether_it_shares_a_pcie_switch(install, answer, is_shared):
    (pair,) = read_pairs(install("GPU-1", "GPU-2", nvmlDeviceGetTopologyCommonAncestor=answer))
    assert pair["switch"] is is_shared


def test_nvlink_counts_if_it_connects_all_gpus(install):
    assert has_nvlink({"pairs": read_pairs(install("GPU-1", "GPU-2", "GPU-3"))})
    assert not has_nvlink({"pairs": read_pairs(install("GPU-1", "GPU-2", peers=False))})
    assert not has_nvlink({"pairs": []}), "one GPU has no pair"

"""An all-reduce is compared with what its link can do, and a fallback to a slow transport is named with its remedy."""

import numpy as np
import pytest

from helpers.messages import says
from howmanygpus.report.network import describe_findings, find_link, fit_latency, judge, name_transport
from howmanygpus.report.pages.node_checks import tabulate as tabulate_probes
from howmanygpus.report.tables.allreduce import tabulate

IB_PORTS = [
    {"name": f"mlx5_{number}:1", "gb_per_s": 25.0, "layer": "InfiniBand", "is_active": True} for number in range(2)
]
ROCE_PORT = {"name": "mlx5_9:1", "gb_per_s": 12.5, "layer": "Ethernet", "is_active": True}
HSN = [{"name": f"hsn{number}", "kind": "slingshot", "gb_per_s": 25.0} for number in range(4)]
ETH0 = {"name": "eth0", "kind": "ethernet", "gb_per_s": 1.25}
GPU = {"nvlink_gb_per_s": 300.0, "pcie_gb_per_s": 31.5}
SOCKETS = {"kind": "socket", "via": "NET/Socket/0", "name": "Socket", "interfaces": ["eth0"], "gpu_direct": False}
INFINIBAND = {"kind": "ib", "via": "NET/IB/0", "name": "IB", "devices": ["mlx5_0:1", "mlx5_1:1"], "gpu_direct": True}
SLINGSHOT = {"kind": "ofi", "via": "NET/AWS Libfabric/0", "name": "AWS Libfabric", "provider": "cxi", "num_devices": 4}
P2P, SHM = {"kind": "p2p", "via": "P2P/CUMEM"}, {"kind": "shm", "via": "SHM/direct/direct"}


def make_network(ports=(), interfaces=(ETH0,), slingshot=(), nvlink=False, peer=True, gpu=GPU, switch=False):
    pairs = [{"gpus": ["GPU-1", "GPU-2"], "nvlink": nvlink, "peer": peer, "switch": switch}]
    return {"ports": list(ports), "interfaces": list(interfaces), "slingshot": list(slingshot)} | {
        "gpus": [gpu, gpu],
        "pairs": pairs,
    }


def make_record(bus_gb_per_s, used, network, num_nodes=2, library="NCCL 2.21.5", settings=None, why=None, given=None):
    """Return the record of an all-reduce of 4 devices whose largest array has this bus bandwidth."""
    sizes = []
    for size_mib in (1, 16, 128):
        seconds = 1.5 * size_mib * 2**20 / bus_gb_per_s / 1e9
        sizes.append({"size_mib": size_mib, "seconds": [seconds] * 10, "median_s": seconds})
    places = {"within_node": None if num_nodes > 1 else used, "between_nodes": used if num_nodes > 1 else None}
    transport = {"library": library, **places, "settings": settings or {}, "why": why, "not_recognised": None}
    record = {"device": "a100", "num_gpus": 4, "num_nodes": num_nodes, "nodes": ["n1", "n2"], "sizes": sizes}
    return record | {"transport": transport, "network": network, "link_gb_per_s": given or {}}


def find(*arguments, **options):
    record = make_record(*arguments, **options)
    (text,) = describe_findings(record)
    return judge(record), text


@pytest.mark.parametrize(
    ("used", "network", "num_nodes", "gb_per_s"),
    [
        (INFINIBAND, make_network(IB_PORTS), 2, 50),
        (INFINIBAND | {"devices": ["mlx5_1:1"]}, make_network(IB_PORTS), 2, 25),
        (INFINIBAND | {"kind": "roce", "devices": ["mlx5_9:1"]}, make_network([*IB_PORTS, ROCE_PORT]), 2, 12.5),
        (SLINGSHOT, make_network(interfaces=HSN), 2, 100),
        (SOCKETS, make_network(), 2, 1.25),
        (P2P, make_network(nvlink=True), 1, 300),
        (P2P, make_network(), 1, 31.5),
    ],
    ids=["two rails", "one rail", "RoCE", "Slingshot", "sockets", "NVLink", "PCIe"],
)
def test_the_link_is_that_of_the_devices_in_use(used, network, num_nodes, gb_per_s):
    assert find_link(make_record(1.0, used, network, num_nodes)).gb_per_s == pytest.approx(gb_per_s)


@pytest.mark.parametrize(
    ("used", "network", "num_nodes"),
    [
        (SOCKETS | {"interfaces": ["lo"]}, make_network(), 2),
        (SOCKETS, make_network(interfaces=[ETH0 | {"gb_per_s": None}]), 2),
        (INFINIBAND, make_network(), 2),
        (INFINIBAND, make_network([IB_PORTS[0] | {"gb_per_s": None}]), 2),
        ({"kind": "plugin", "name": "FasTrak", "via": "NET/FasTrak/0"}, make_network(), 2),
        (P2P, make_network(gpu={"nvlink_gb_per_s": None, "pcie_gb_per_s": None}), 1),
        (SHM, make_network(peer=False), 1),
        (None, make_network(), 2),
        (SOCKETS, None, 2),
    ],
)
def test_an_unknown_link_is_no_finding(used, network, num_nodes):
    record = make_record(0.001, used, network, num_nodes)
    assert judge(record) is None and describe_findings(record) == []


def test_the_machine_file_states_a_link_that_drivers_do_not_tell():
    network = make_network(interfaces=[])
    record = make_record(1.0, SOCKETS, network, library="gloo", given={"between_nodes": 4.0})
    assert says(*describe_findings(record), "4 x a100 on 2 nodes", "1 of 4 GB/s", "link_gb_per_s", "network_interface")
    assert judge(make_record(1.0, SOCKETS, network, library="gloo", given={"within_node": 4.0})) is None
    assert judge(make_record(2.1, SOCKETS, network, library="gloo", given={"between_nodes": 4.0})) is None


@pytest.mark.parametrize(("bus", "is_found"), [(24.0, True), (26.0, False)])
def test_less_than_half_of_the_link_is_a_finding(bus, is_found):
    found = judge(make_record(bus, INFINIBAND, make_network(IB_PORTS)))
    assert (found is not None) == is_found
    assert not is_found or (found["code"], found["link_gb_per_s"]) == ("slow_link", 50)


@pytest.mark.parametrize(
    ("used", "network", "num_nodes", "words"),
    [
        (SOCKETS, make_network(IB_PORTS), 2, ("5 of 50 GB/s", "TCP sockets over eth0", "/dev/infiniband")),
        (SOCKETS, make_network([ROCE_PORT]), 2, ("5 of 12.5 GB/s of RoCE (mlx5_9:1)",)),
        (SOCKETS | {"interfaces": ["hsn0"]}, make_network(interfaces=HSN), 2, ("of 100", "over hsn0", "aws-ofi-nccl")),
        (SOCKETS, make_network(slingshot=["cxi0"]), 2, ("5 of 25 GB/s of Slingshot (cxi0)", "module")),
        (SHM, make_network(nvlink=True), 1, ("5 of 300 GB/s of NVLink", "shared memory")),
        (SHM, make_network(), 1, ("peer access", "shared memory", "ACS")),
    ],
    ids=["InfiniBand", "RoCE", "Slingshot over TCP", "Slingshot without an interface", "NVLink", "PCIe with peers"],
)
def test_a_fallback_is_named_beside_the_better_device(used, network, num_nodes, words):
    found, text = find(5.0, used, network, num_nodes)
    assert found["code"] == "fallback" and says(text, *words)


@pytest.mark.parametrize(
    ("used", "network", "num_nodes", "bus"),
    [
        (SOCKETS, make_network(), 2, 1.0),
        (SOCKETS, make_network([IB_PORTS[0] | {"is_active": False}]), 2, 1.0),
        (SOCKETS, make_network([ROCE_PORT]), 2, 7.0),
        (SLINGSHOT, make_network(interfaces=HSN), 2, 60.0),
        (SHM, make_network(peer=False), 1, 20.0),
        (P2P, make_network(), 1, 20.0),
    ],
    ids=["nothing better", "a port that is down", "as fast as RoCE", "with the plugin", "no peers", "PCIe"],
)
def test_what_has_nothing_better_is_no_fallback(used, network, num_nodes, bus):
    assert judge(make_record(bus, used, network, num_nodes)) is None


@pytest.mark.parametrize(
    ("name", "value", "used", "network", "num_nodes"),
    [
        ("NCCL_IB_DISABLE", "1", SOCKETS, make_network(IB_PORTS), 2),
        ("NCCL_NET", "Socket", SOCKETS, make_network(interfaces=HSN), 2),
        ("NCCL_P2P_DISABLE", "1", SHM, make_network(nvlink=True), 1),
    ],
)
def test_a_variable_that_forbids_the_better_device_is_the_remedy(name, value, used, network, num_nodes):
    _, text = find(1.0, used, network, num_nodes, settings={name: value}, why="NET/IB : No device found.")
    assert says(text, f"Unset {name} (it is {value})") and "No device" not in text


@pytest.mark.parametrize(("switch", "bus"), [(True, 5.0), (True, 16.0), (False, 5.0), (None, 5.0)])
def test_two_gpus_that_go_through_one_pcie_switch_to_the_host_are_named(switch, bus):
    texts = describe_findings(make_record(bus, SHM, make_network(peer=False, switch=switch), num_nodes=1))
    if not switch or bus > 31.5 / 2:
        assert texts == []
    else:
        assert says(*texts, "5 of 31.5 GB/s", "switch", "GPU-1, GPU-2", "CUDA_VISIBLE_DEVICES")


def test_gpus_behind_one_switch_that_reach_each_other_are_in_order():
    assert judge(make_record(20.0, P2P, make_network(switch=True), num_nodes=1)) is None


def test_gloo_has_no_better_transport_than_sockets():
    assert judge(make_record(1.0, SOCKETS, make_network(IB_PORTS), library="gloo")) is None


def test_small_arrays_say_nothing_about_the_bandwidth():
    record = make_record(0.1, INFINIBAND, make_network(IB_PORTS))
    record["sizes"] = record["sizes"][:1]
    assert judge(record) is None


def test_the_latency_has_its_error():
    chance = np.random.default_rng(1)
    sizes = [
        {"size_mib": size, "seconds": list((50e-6 + 1e-4 * size) * chance.normal(1, 0.02, 10))} for size in (1, 16, 128)
    ]
    latency_s, error_s = fit_latency(sizes)
    assert abs(latency_s - 50e-6) < 3 * error_s and 0 < error_s < 5e-6
    assert fit_latency(sizes[:1]) is None and fit_latency([{"size_mib": 1}, {"size_mib": 2}]) is None


def test_the_table_has_transport_link_and_share():
    table = tabulate({"config": {"model": "m"}}, [make_record(5.0, SOCKETS, make_network(IB_PORTS))])
    assert len(table) == 3 and table["link_gb_per_s"].eq(1.25).all() and table["link_frac"].round(9).eq(4.0).all()
    assert table["latency_us_error"].notna().all()
    assert says(table["transport"].iloc[0], "between nodes", "TCP sockets", "eth0", "NCCL 2.21.5")
    assert says(table["finding"].iloc[0], "mlx5_0:1, mlx5_1:1")


def test_a_record_without_a_transport_has_its_bandwidth():
    record = {"device": "cpu", "num_gpus": 2, "num_nodes": 1, "sizes": [{"size_mib": 16, "median_s": 0.01}]}
    table = tabulate(
        {"config": {"model": "m"}}, [record, record | {"transport": None, "network": None, "problem": "x"}]
    )
    assert table["bus_gb_per_s"].notna().all() and table["finding"].isna().all()
    assert sorted(table["transport"].fillna("")) == ["", "not read: x"]


def test_what_is_not_recognised_is_said():
    record = make_record(5.0, None, make_network())
    record["transport"]["not_recognised"] = "NCCL printed nothing"
    assert says(name_transport(record), "not recognised", "NCCL printed nothing")


def test_the_table_of_probes_has_the_transports_and_the_findings():
    record = make_record(5.0, SOCKETS, make_network(IB_PORTS))
    findings = [{"level": "warning", "text": text} for text in describe_findings(record)]
    table = tabulate_probes([], [record | {"findings": findings}])
    assert table["level"].tolist() == ["warning", "fact"]
    assert table["what"].tolist() == ["finding", "transport, 4 devices on 2 nodes"]

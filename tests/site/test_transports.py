"""The transport is named by what NCCL says. The lines have the forms of several versions, and were written for this."""

import pytest

from howmanygpus.site.network.transports import read_gloo, read_nccl


def log(version, *messages, host="node1"):
    """Return a process's log. A message that is a pair has another level than INFO."""
    lines = [f"{host}:4711:4790 [0] NCCL INFO {message}" for message in messages]
    return "\n".join([f"NCCL version {version}", *lines])


def both(text, *more):
    """Return channels between two ranks in both directions, as NCCL 2.12 and later write them."""
    return f"Channel 00/0 : 1[1] -> 2[0] [receive] via {text}", f"Channel 00/0 : 2[0] -> 1[1] [send] via {text}", *more


WITHIN = {
    "2.4, PCIe": ("p2p", "2.4.8+cuda10.1", "Ring 00 : 0[0] -> 1[1] via P2P/IPC"),
    "2.14, one process": ("p2p", "2.14.3+cuda11.7", "Channel 00/0 : 0[1a000] -> 1[1b000] via P2P/direct pointer"),
    "2.17, NVLink": ("p2p", "2.17.1+cuda12.1", "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC/read"),
    "2.21, NVLink": ("p2p", "2.21.5+cuda12.4", "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read"),
    "2.28, NVLink": ("p2p", "2.28.3+cuda13.0", "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"),
    "2.19, through another GPU": ("p2p", "2.19.3+cuda12.3", "Channel 00/0 : 0[0] -> 3[3] via P2P/indirect/1[1]"),
    "2.14, shared memory": ("shm", "2.14.3+cuda11.7", "Channel 00 : 0[1a000] -> 1[1b000] via SHM/direct/direct"),
    "2.27, shared memory": ("shm", "2.27.5+cuda12.9", "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct"),
}


@pytest.mark.parametrize("name", WITHIN)
def test_the_transport_within_a_node_is_named(name):
    kind, version, message = WITHIN[name]
    found = read_nccl([log(version, message, "Connected all rings")], num_nodes=1)
    assert found["within_node"]["kind"] == kind and found["library"] == f"NCCL {version.partition('+')[0]}"
    assert found["between_nodes"] is found["not_recognised"] is None


def test_one_pair_over_shared_memory_is_what_a_ring_waits_for():
    pairs = ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", "Channel 00 : 1[1] -> 2[2] via SHM/direct/direct")
    assert read_nccl([log("2.21.5", *pairs)], num_nodes=1)["within_node"]["kind"] == "shm"


PORTS = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_3:1/IB [RO]; OOB ib0:10.1.0.1<0>"
BETWEEN = {
    "2.14, InfiniBand": (
        ("2.14.3+cuda11.7", PORTS, "Using network IB", *both("NET/IB/0/GDRDMA")),
        {"kind": "ib", "devices": ["mlx5_0:1", "mlx5_3:1"], "gpu_direct": True},
    ),
    "2.19, InfiniBand without GPUDirect": (
        ("2.19.3+cuda12.3", PORTS, "Using non-device net plugin version 0", "Using network IB", *both("NET/IB/1")),
        {"kind": "ib", "gpu_direct": False},
    ),
    "2.28, InfiniBand": (
        (
            "2.28.3+cuda13.0",
            "NET/Plugin: Could not find: libnccl-net.so",
            PORTS,
            "Initialized NET plugin IB",
            "Assigned NET plugin IB to comm",
            "Using network IB",
            *both("NET/IB/0(3)/GDRDMA/Shared"),
        ),
        {"kind": "ib", "gpu_direct": True},
    ),
    "2.21, InfiniBand by the plugin of HPC-X": (
        ("2.21.5+cuda12.4", PORTS, "Using network IBext_v8", *both("NET/IBext_v8/0/GDRDMA")),
        {"kind": "ib", "name": "IBext_v8"},
    ),
    "2.19, RoCE": (
        (
            "2.19.3+cuda12.3",
            "NET/IB : Using [0]mlx5_10:1/RoCE [1]mlx5_11:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
            "Using network IB",
            *both("NET/IB/0/GDRDMA"),
        ),
        {"kind": "roce", "devices": ["mlx5_10:1", "mlx5_11:1"]},
    ),
    "2.4, sockets": (
        (
            "2.4.8+cuda10.1",
            "NET/Plugin : No plugin found (libnccl-net.so).",
            "NET/IB : No device found.",
            "NET/Socket : Using [0]eth0:10.0.0.1<0>",
            "Using network Socket",
            "Ring 00 : 1[1] -> 2[0] [receive] via NET/Socket/0",
        ),
        {"kind": "socket", "interfaces": ["eth0"]},
    ),
    "2.27, sockets over two interfaces": (
        (
            "2.27.5+cuda12.9",
            "NET/Socket : Using [0]hsn0:10.0.0.1<0> [1]hsn1:fe80::1%hsn1<0>",
            "Initialized NET plugin Socket",
            "Using network Socket",
            *both("NET/Socket/1"),
        ),
        {"kind": "socket", "interfaces": ["hsn0", "hsn1"]},
    ),
    "2.14, Slingshot by its plugin": (
        (
            "2.14.3+cuda11.7",
            "NET/OFI Using aws-ofi-nccl 1.6.0",
            "NET/OFI Selected Provider is cxi (found 4 nics)",
            "Using network AWS Libfabric",
            *both("NET/AWS Libfabric/1/GDRDMA"),
        ),
        {"kind": "ofi", "provider": "cxi", "num_devices": 4, "gpu_direct": True},
    ),
    "2.27, Slingshot by its plugin": (
        (
            "2.27.5+cuda12.9",
            "NET/OFI Initializing aws-ofi-nccl 1.16.2",
            "NET/OFI Selected provider is cxi, fabric is cxi (found 1 nics)",
            "Using network Libfabric",
            *both("NET/Libfabric/0/GDRDMA"),
        ),
        {"kind": "ofi", "provider": "cxi", "num_devices": 1},
    ),
    "2.26, EFA": (
        (
            "2.26.2+cuda12.8",
            "NET/OFI Selected provider is efa, fabric is efa-direct (found 4 nics)",
            "Using network Libfabric",
            *both("NET/Libfabric/0/GDRDMA"),
        ),
        {"kind": "ofi", "provider": "efa", "num_devices": 4},
    ),
    "2.25, NVLink between nodes": (
        ("2.25.1+cuda12.8", *both("P2P/MNNVL")),
        {"kind": "nvlink"},
    ),
    "another plugin": (
        ("2.21.5", "Using network FasTrak", *both("NET/FasTrak/0")),
        {"kind": "plugin", "name": "FasTrak"},
    ),
    "no channel yet": (("2.21.5", PORTS, "Using network IB"), {"kind": "ib"}),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_the_transport_between_nodes_is_named(name):
    (version, *messages), expected = BETWEEN[name]
    own = "Channel 01/0 : 0[0] -> 1[1] via P2P/IPC"
    found = read_nccl([log(version, *messages, own), log(version, *messages, host="node2")], num_nodes=2)
    assert {key: found["between_nodes"][key] for key in expected} == expected
    assert found["within_node"]["kind"] == "p2p" and found["not_recognised"] is None


def test_what_forbids_a_transport_is_kept_with_the_complaint():
    messages = (
        "NCCL_IB_DISABLE set by environment to 1.",
        "NCCL_SOCKET_IFNAME set by environment to eth0",
        "NCCL_DEBUG_FILE set by environment to /tmp/x",
        "NET/IB : No device found.",
        "Using network Socket",
    )
    found = read_nccl([log("2.21.5", *messages)], num_nodes=2)
    assert found["settings"] == {"NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "eth0"}
    assert found["why"] == "NET/IB : No device found."


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        ([], "NCCL printed nothing"),
        (["", "# no message of NCCL"], "NCCL printed nothing"),
        ([log("2.40.1", "Ranks 0 and 1 meet over WARP")], "Ranks 0 and 1 meet over WARP"),
        ([log("2.40.1", "Channel 00/0 : 0[0] -> 1[1] via WARP/7")], "WARP/7"),
    ],
    ids=["no log", "an empty log", "an unknown message", "an unknown route"],
)
@pytest.mark.parametrize("num_nodes", [1, 2])
def test_a_log_that_is_not_recognised_is_kept_with_its_line(texts, line, num_nodes):
    found = read_nccl(texts, num_nodes)
    assert found["within_node"] is found["between_nodes"] is None and found["not_recognised"] == line


def test_gloo_uses_sockets():
    found = read_gloo(["eth0", "eth0"], num_nodes=2)
    assert found["between_nodes"]["interfaces"] == ["eth0"] and found["within_node"] is None
    assert read_gloo(["lo"], num_nodes=1)["within_node"]["interfaces"] == ["lo"]

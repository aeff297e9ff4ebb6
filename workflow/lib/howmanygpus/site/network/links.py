"""
What the links of a node can carry, as its drivers say: NVLink and PCIe of its GPUs, and its network devices.

All rates are in GB/s (10^9 bytes) and in one direction. What a driver does not tell is None or left out.
"""

import re
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pynvml

from howmanygpus.measure.around.health import REFUSALS
from howmanygpus.measure.host.gpus import get_board

NVLINK = {
    "6.0": (1, 20.0),
    "7.0": (2, 25.0),
    "8.0": (3, 25.0),
    "8.6": (3, 14.0625),
    "9.0": (4, 25.0),
    "10.0": (5, 50.0),
    "10.3": (5, 50.0),
}
"""Generation, and rate of one lane (NVML's link), by compute capability.

Sources are NVIDIA's white papers on P100 (4 links, 160 GB/s in both directions), V100 (6, 300), GA100 (12, 600), GA102
(4, 112.5), GH100 (18, 900), and the data sheet of HGX B200 (18, 1800). Other cards have none.
"""
PCIE_GB_PER_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""Rate of one lane by generation, after its encoding (PCI-SIG: 2.5, 5, 8, 16, 32 and 64 GT/s; 8b/10b up to the second,
128b/130b up to the fifth, 242 of 256 bytes in the sixth)."""
CXI_GB_PER_S = 25.0
"""Rate of a Cassini (HPE Slingshot 11, 200 Gb/s), if its interface does not tell it."""
INFINIBAND_HARDWARE, ETHERNET_HARDWARE = 32, 1
"""Types of interfaces (ARPHRD_INFINIBAND and ARPHRD_ETHER in the kernel's if_arp.h)."""
MAX_LINKS = 18
"""Most NVLinks of a GPU (NVML_NVLINK_MAX_LINKS)."""


def describe_network(root: Path, gpu_uuids: Sequence[str]) -> dict[str, Any]:
    """Return the links of this node. root: the folder that holds `sys/`; / on a real machine."""
    return {
        "ports": read_ports(root),
        "interfaces": read_interfaces(root),
        "slingshot": [path.name for path in list_folder(root / "sys/class/cxi")],
        "gpus": [read_gpu_links(uuid) for uuid in gpu_uuids],
        "pairs": read_pairs(gpu_uuids),
    }


def list_folder(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def read_words(path: Path) -> str:
    """Return the content of a file of the kernel; empty if it cannot be read, as the speed of a link that is down."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def read_number(path: Path) -> float | None:
    """Return a positive number; None for a missing file and for anything else, such as the -1 of an unknown speed."""
    words = read_words(path)
    return float(words) if re.fullmatch(r"\d+", words) and int(words) > 0 else None


def read_ports(root: Path) -> list[dict[str, Any]]:
    """Return the ports of RDMA devices: name, rate, link layer and whether they are up (sysfs-class-infiniband)."""
    ports = []
    for device in list_folder(root / "sys/class/infiniband"):
        for port in list_folder(device / "ports"):
            rate = re.match(r"(\d+(?:\.\d+)?) Gb/sec", read_words(port / "rate"))
            ports.append(
                {
                    "name": f"{device.name}:{port.name}",
                    "gb_per_s": float(rate[1]) / 8 if rate else None,
                    "layer": read_words(port / "link_layer") or None,
                    "is_active": read_words(port / "state").endswith("ACTIVE"),
                }
            )
    return ports


def read_interfaces(root: Path) -> list[dict[str, Any]]:
    """Return the network interfaces that have a device of their own, with their rate and kind.

    A virtual interface, such as a bridge or that of a container, has a speed that means nothing; a bond has the speed
    of its devices. The interfaces of Slingshot are called hsn.
    """
    found = []
    for interface in list_folder(root / "sys/class/net"):
        if not ((interface / "device").exists() or (interface / "bonding").exists()):
            continue
        speed_mbit = read_number(interface / "speed")
        hardware = read_number(interface / "type")
        is_slingshot = re.fullmatch(r"hsn\d+", interface.name)
        kind = "infiniband" if hardware == INFINIBAND_HARDWARE else "slingshot" if is_slingshot else "ethernet"
        rate = None if speed_mbit is None else speed_mbit / 8000
        found.append({"name": interface.name, "kind": kind, "gb_per_s": rate})
    return found


def read_gpu_links(uuid: str) -> dict[str, Any]:
    """Return what NVML says about the links of a GPU: lanes and rate of NVLink, generation and width of PCIe.

    The generation and width are the largest that card and slot have in common, because an idle card takes fewer.
    """
    facts: dict[str, Any] = {"uuid": uuid}

    def ask(key: str, question: Callable[[], Any]) -> None:
        try:
            facts[key] = question()
        # A driver, or a binding of NVML, may lack a function.
        except (AttributeError, *REFUSALS):
            facts[key] = None

    ask("capability", lambda: ".".join(map(str, pynvml.nvmlDeviceGetCudaComputeCapability(get_board(uuid)))))
    ask("nvlink_lanes", lambda: count_nvlinks(get_board(uuid)))
    ask("pcie_generation", lambda: pynvml.nvmlDeviceGetMaxPcieLinkGeneration(get_board(uuid)))
    ask("pcie_width", lambda: pynvml.nvmlDeviceGetMaxPcieLinkWidth(get_board(uuid)))
    return facts | {"nvlink_gb_per_s": compute_nvlink(facts), "pcie_gb_per_s": compute_pcie(facts)}


def count_nvlinks(board: Any) -> int:
    """Return the number of NVLinks that are up. NVML refuses numbers that a card does not have."""
    number = 0
    for link in range(MAX_LINKS):
        try:
            number += bool(pynvml.nvmlDeviceGetNvLinkState(board, link))
        except REFUSALS:
            break
    return number


def compute_nvlink(gpu: dict[str, Any]) -> float | None:
    """Return the rate of all NVLinks of a GPU; None without any, or for a card that is not known."""
    _, lane_gb_per_s = NVLINK.get(gpu["capability"], (None, 0.0))
    return (gpu["nvlink_lanes"] or 0) * lane_gb_per_s or None


def compute_pcie(gpu: dict[str, Any]) -> float | None:
    return (gpu["pcie_width"] or 0) * PCIE_GB_PER_S.get(gpu["pcie_generation"], 0.0) or None


def read_pairs(gpu_uuids: Sequence[str]) -> list[dict[str, Any]]:
    """Return for each pair of GPUs whether NVLink connects them, one can read the memory of the other, and one PCIe
    switch has both."""
    ok, index = pynvml.NVML_P2P_STATUS_OK, (pynvml.NVML_P2P_CAPS_INDEX_NVLINK, pynvml.NVML_P2P_CAPS_INDEX_READ)
    questions = {
        "nvlink": lambda *boards: pynvml.nvmlDeviceGetP2PStatus(*boards, index[0]) == ok,
        "peer": lambda *boards: pynvml.nvmlDeviceGetP2PStatus(*boards, index[1]) == ok,
        "switch": lambda *boards: pynvml.nvmlDeviceGetTopologyCommonAncestor(*boards) == pynvml.NVML_TOPOLOGY_SINGLE,
    }
    pairs = []
    for gpus in combinations(gpu_uuids, 2):
        pair: dict[str, Any] = {"gpus": list(gpus)}
        for key, question in questions.items():
            try:
                pair[key] = question(*map(get_board, gpus))
            except (AttributeError, *REFUSALS):
                pair[key] = None
        pairs.append(pair)
    return pairs


def has_nvlink(network: dict[str, Any]) -> bool:
    """Whether NVLink connects all GPUs of a node with each other, by itself or by switches."""
    pairs = network["pairs"]
    return bool(pairs) and all(pair["nvlink"] for pair in pairs)


def sum_rates(found: Sequence[dict[str, Any]]) -> float | None:
    """Return the sum of the rates of ports or interfaces; None if there are none or one is not known."""
    rates = [each["gb_per_s"] for each in found]
    return sum(rates) if rates and None not in rates else None


def find_rdma(network: dict[str, Any], layer: str | None = None) -> list[dict[str, Any]]:
    """Return the active RDMA ports, of all link layers or of one."""
    active = [port for port in network["ports"] if port["is_active"]]
    return [port for port in active if layer in (None, port["layer"])]


def find_slingshot(network: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the devices of Slingshot with their rates."""
    interfaces = [each for each in network["interfaces"] if each["kind"] == "slingshot"]
    named = interfaces or [{"name": name, "gb_per_s": None} for name in network["slingshot"]]
    return [each | {"gb_per_s": each["gb_per_s"] or CXI_GB_PER_S} for each in named]

"""
Whether the all-reduce gets what its link can do, by the records of the all-reduce measurements.

The template network.jinja has the words. An unknown link, and a transport that was not told, is no finding.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from howmanygpus.report.words import word
from howmanygpus.site.network.links import find_rdma, find_slingshot, has_nvlink, sum_rates
from howmanygpus.site.network.transports import IB, NVLINK, OFI, P2P, ROCE, SHM, SOCKET

PAGE = "network"
LOW_FRAC = 0.5
"""Smallest share of its link that the all-reduce of a large array should get.

NCCL's tests reach 70 to 95 % of NVLink, of InfiniBand and of RoCE for arrays above 100 MB (NVIDIA, nccl-tests, issues
and PERFORMANCE.md); below half, something is wrong or shared.
"""
LARGE_MIB = 16.0
"""Size of an array from which on the bandwidth counts, and not the latency."""
FORBIDDING = {
    "NCCL_IB_DISABLE": ("1",),
    "NCCL_P2P_DISABLE": ("1",),
    "NCCL_P2P_LEVEL": ("LOC",),
    "NCCL_NET": ("Socket",),
}
"""Values of NCCL's variables that forbid the faster transport (NCCL user guide, environment variables)."""


@dataclass(frozen=True)
class Link:
    """name: code of its kind. gb_per_s: in one direction for each device or node; None if it is not known. parts: names
    of its devices."""

    name: str
    gb_per_s: float | None
    parts: tuple[str, ...] = ()


def compute_bus_bandwidth(num_devices: int, size_mib: float, seconds: float, passes: int = 2) -> float:
    """Bus bandwidth in 10^9 bytes per second: what each device sends and receives under an optimal algorithm.

    It is 2 (n - 1) / n times the size of the array over the time, and (n - 1) / n times for each reduce-scatter and
    all-gather (NVIDIA's nccl-tests, PERFORMANCE.md). passes: 2 for an all-reduce, else the number of these.
    """
    return passes * (num_devices - 1) / num_devices * size_mib * 2**20 / seconds / 1e9


def count_passes(record: dict[str, Any]) -> int:
    """Return how often each device sends its part of an array: three times if a program shards its parameters."""
    return 3 if record.get("is_sharded") else 2


def fit_latency(sizes: list[dict[str, Any]]) -> tuple[float, float] | None:
    """Return the time in seconds of an all-reduce of nothing, and its standard error; None for a single size.

    It is the offset of a line through time against size, by least squares of the relative deviations.
    sizes: of a record.
    """
    points = [(size["size_mib"], seconds) for size in sizes for seconds in size.get("seconds", [])]
    if len({size for size, _ in points}) < 2 or len(points) < 3:
        return None
    size, seconds = np.array(points).T
    design, weights = np.stack([np.ones_like(size), size], axis=1), 1 / seconds
    solution, *_ = np.linalg.lstsq(design * weights[:, None], seconds * weights, rcond=None)
    deviations = (design @ solution - seconds) * weights
    variance = (deviations @ deviations) / (len(points) - 2)
    covariance = variance * np.linalg.inv((design * weights[:, None]).T @ (design * weights[:, None]))
    return float(solution[0]), float(np.sqrt(covariance[0, 0]))


def find_place(record: dict) -> str:
    return "between_nodes" if record["num_nodes"] > 1 else "within_node"


def find_transport(record: dict) -> dict[str, Any] | None:
    """Return the transport that bounds an all-reduce: that between nodes if there are several."""
    transport = record.get("transport") or {}
    return transport.get(find_place(record))


def find_link(record: dict) -> Link | None:
    """Return the link that bounds an all-reduce, by the machine file or else by what its transport uses.

    What passes through the host's memory has none, because PCIe is not what bounds it, unless GPUs share a switch and
    so its lanes to the host.
    """
    given, used, network = (record.get("link_gb_per_s") or {}), find_transport(record), record.get("network")
    if (stated := given.get(find_place(record))) is not None:
        return Link("stated", stated)
    if not used or not network:
        return None
    kind = used["kind"]
    gpus = network["gpus"]
    if kind in (P2P, NVLINK) and has_nvlink(network):
        return Link("nvlink", _find_lowest(gpus, "nvlink_gb_per_s"))
    if kind == P2P:
        return Link("pcie", _find_lowest(gpus, "pcie_gb_per_s"))
    if kind == SHM and (pair := next((each for each in network["pairs"] if each.get("switch")), None)):
        return Link("switch", _find_lowest(gpus, "pcie_gb_per_s"), tuple(pair["gpus"]))
    if kind in (IB, ROCE):
        ports = [port for port in find_rdma(network) if port["name"] in used["devices"]] if used["devices"] else []
        return Link(kind, sum_rates(ports), tuple(port["name"] for port in ports))
    if kind == OFI and used["provider"] == "cxi":
        devices = find_slingshot(network)[: used["num_devices"]]
        return Link("slingshot", sum_rates(devices), tuple(each["name"] for each in devices))
    if kind == SOCKET and record["num_nodes"] > 1:
        named = [each for each in network["interfaces"] if each["name"] in used["interfaces"]]
        is_all = len(named) == len(used["interfaces"])
        return Link("socket", sum_rates(named) if is_all else None, tuple(used["interfaces"]))
    return None


def _find_lowest(gpus: list[dict], key: str) -> float | None:
    rates = [gpu[key] for gpu in gpus]
    return min(rates) if rates and None not in rates else None


def find_better(record: dict) -> Link | None:
    """Return the faster link that NCCL could use and does not; None if there is none or it is not known."""
    used, network = find_transport(record), record.get("network")
    if not used or not network or not record["transport"]["library"].startswith("NCCL"):
        return None
    if record["num_nodes"] == 1:
        if used["kind"] not in (SHM, SOCKET):
            return None
        if has_nvlink(network):
            return Link("nvlink", _find_lowest(network["gpus"], "nvlink_gb_per_s"))
        has_peers = bool(network["pairs"]) and all(pair["peer"] for pair in network["pairs"])
        return Link("peer", _find_lowest(network["gpus"], "pcie_gb_per_s")) if has_peers else None
    if used["kind"] != SOCKET:
        return None
    for name, devices in (
        ("slingshot", find_slingshot(network)),
        ("ib", find_rdma(network, "InfiniBand")),
        ("roce", find_rdma(network)),
    ):
        if devices:
            return Link(name, sum_rates(devices), tuple(each["name"] for each in devices))
    return None


def find_largest(record: dict) -> dict[str, Any] | None:
    """Return the largest array of a measurement, if it is large enough for its bandwidth to count."""
    largest = max(record["sizes"], key=lambda size: size["size_mib"], default=None)
    return largest if largest and largest["size_mib"] >= LARGE_MIB else None


def judge(record: dict) -> dict[str, Any] | None:
    """Return the facts of the finding on an all-reduce; None without one. record: of an all-reduce measurement.

    `code` is `fallback` or `slow_link`.
    """
    largest, used = find_largest(record), find_transport(record)
    if largest is None or record["num_gpus"] < 2:
        return None
    bus = compute_bus_bandwidth(record["num_gpus"], largest["size_mib"], largest["median_s"], count_passes(record))
    link, better = find_link(record), find_better(record)
    is_low = better and better.gb_per_s and bus < LOW_FRAC * better.gb_per_s
    if better and used and (better.name != "roce" or is_low):
        settings = record["transport"]["settings"]
        forbidden = [name for name, values in FORBIDDING.items() if settings.get(name) in values]
        return {
            "code": "fallback",
            **_describe_place(record, bus, better),
            "used": name_carrier(record),
            "forbidden": {name: settings[name] for name in forbidden},
            "why": record["transport"]["why"],
        }
    if link and link.gb_per_s and bus < LOW_FRAC * link.gb_per_s:
        return {
            "code": "slow_link",
            **_describe_place(record, bus, link),
            "used": name_carrier(record),
        }
    return None


def _describe_place(record: dict, bus: float, link: Link) -> dict[str, Any]:
    return {
        "num_gpus": record["num_gpus"],
        "device": record["device"],
        "num_nodes": record["num_nodes"],
        "bus_gb_per_s": bus,
        "link": link.name,
        "link_gb_per_s": link.gb_per_s,
        "parts": list(link.parts),
    }


def describe_findings(record: dict) -> list[str]:
    """Return the finding on an all-reduce as a list of at most one text, without the loss that it explains."""
    found = judge(record)
    return [describe_finding(found)] if found else []


def describe_finding(found: dict[str, Any], lost_frac: float | None = None, loss_frac: float | None = None) -> str:
    """Return the text of a finding. lost_frac: what it costs of the rate; loss_frac: all that is lost. None: unknown"""
    facts = {key: value for key, value in found.items() if key != "code"}
    return word(PAGE, found["code"], **facts, lost_frac=lost_frac, loss_frac=loss_frac)


def name_carrier(record: dict) -> str:
    """Return in words the transport that bounds an all-reduce; empty if it is not known."""
    used, network = find_transport(record), record.get("network") or {"pairs": []}
    if not used:
        return ""
    return f"{word(PAGE, 'carrier', one=used, has_nvlink=has_nvlink(network))} ({record['transport']['library']})"


def name_transport(record: dict) -> str | None:
    """Return in words what carries the gradients; None for a record without it."""
    transport = record.get("transport")
    if not transport:
        return word(PAGE, "not_read", problem=record["problem"]) if record.get("problem") else None
    if transport["not_recognised"]:
        return word(PAGE, "not_recognised", line=transport["not_recognised"], library=transport["library"])
    network = record.get("network") or {"pairs": []}
    places = [(place, transport[place]) for place in ("within_node", "between_nodes") if transport[place]]
    facts = {"has_nvlink": has_nvlink(network), "library": transport["library"]}
    return word(PAGE, "transport", places=places, **facts)

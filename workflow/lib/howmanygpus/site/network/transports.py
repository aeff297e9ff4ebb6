"""
Which transport a library of collectives uses, from its own messages.

NCCL says it with NCCL_DEBUG=INFO when a communicator is made and when two ranks first connect. The forms are those of
NCCL 2.4 to 2.28 and of aws-ofi-nccl 1.4 to 1.16. Gloo says nothing; its processes tell their sockets.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

NVLINK, P2P, SHM = "nvlink", "p2p", "shm"
IB, ROCE, OFI, SOCKET, PLUGIN = "ib", "roce", "ofi", "socket", "plugin"
MESSAGE = re.compile(r"NCCL (?:INFO|WARN|VERSION) (?P<text>.*)")
VERSION = re.compile(r"NCCL version (\d[\d.]*)")
VIA = re.compile(r"^(?:Channel|Ring) [\d/]+ : .* via (?P<via>.+?)\s*$")
NETWORK = re.compile(r"^Using (?:network|internal Network) (?P<name>.+?)\s*$")
PORT = re.compile(r"\[\d+\]\s*([\w.+-]+:\d+)/(IB|RoCE)")
INTERFACE = re.compile(r"\[\d+\]\s*([\w.@-]+):")
PROVIDER = re.compile(r"NET/OFI Selected provider is (\w+)(?:.*found (\d+) nics)?", re.IGNORECASE)
SETTING = re.compile(r"^(NCCL_\w+) set (?:by environment )?to (.+?)\.?$")
FAILURE = re.compile(r"NET/.*(no plugin found|could not find|cannot open|no device|failed|unable|no eligible)", re.I)
OF_TRANSPORT = re.compile(r"NCCL_(NET\w*|IB_DISABLE|IB_HCA|P2P_\w+|SHM_DISABLE|SOCKET_IFNAME|CROSS_NIC)")
"""Variables of NCCL that choose or forbid a transport."""
FORMS = "P2P", "SHM", "NET", "NVLS", "COLLNET"
MAX_LINE = 200
"""Longest line that is kept, in characters."""


def read_nccl(texts: Iterable[str], num_nodes: int) -> dict[str, Any]:
    """Return what the processes of NCCL have said. texts: the log of each process; num_nodes: of all of them.

    `within_node` and `between_nodes` have the `kind` of the transport; both are None if it is not told. `via` are
    NCCL's own words for it. Between nodes there are `devices`, `interfaces`, `provider` and `gpu_direct` as far as they
    are known. `settings` are the variables that choose a transport, `why` is the last complaint about a network, and
    `not_recognised` is the line that is none of the known forms, or that nothing was said.
    """
    lines = [line for text in texts for line in text.splitlines()]
    messages = list(read_messages(lines))
    routes = list(dict.fromkeys(match["via"] for message in messages if (match := VIA.match(message))))
    within = [route for route in routes if not is_network(route, num_nodes)]
    between = [route for route in routes if is_network(route, num_nodes)]
    found: dict[str, Any] = {
        "library": name_library(lines),
        "within_node": describe_within(within),
        "between_nodes": None,
        "settings": {match[1]: match[2] for message in messages if (match := SETTING.match(message))},
        "why": next((message[:MAX_LINE] for message in reversed(messages) if FAILURE.search(message)), None),
        "not_recognised": next((route for route in routes if route.split("/")[0] not in FORMS), None),
    }
    found["settings"] = {name: value for name, value in found["settings"].items() if OF_TRANSPORT.fullmatch(name)}
    if num_nodes > 1:
        found["between_nodes"] = describe_between(between, messages)
    elif between and not within:
        found["within_node"] = describe_between(between, messages)
    wanted = found["between_nodes"] if num_nodes > 1 else found["within_node"]
    if wanted is None and not found["not_recognised"]:
        found["not_recognised"] = (messages[-1] if messages else "NCCL printed nothing")[:MAX_LINE]
    return found


def read_messages(lines: Iterable[str]) -> Iterator[str]:
    """Yield the text of each message, without host, process and device."""
    for line in lines:
        if match := MESSAGE.search(line):
            yield match["text"].strip()


def name_library(lines: Iterable[str]) -> str:
    versions = (match[1] for line in lines if (match := VERSION.search(line)))
    return f"NCCL {next(versions, '')}".strip()


def is_network(route: str, num_nodes: int) -> bool:
    """Whether a route is one of a network. NVLink reaches other nodes of a rack as a peer (MNNVL)."""
    return route.startswith("NET/") or (num_nodes > 1 and "MNNVL" in route)


def describe_within(routes: list[str]) -> dict[str, Any] | None:
    """Return the transport within a node; the slowest counts, because a ring waits for it."""
    for kind, form in ((SHM, "SHM"), (P2P, "P2P")):
        if named := [route for route in routes if route.startswith(form)]:
            return {"kind": kind, "via": named[0]}
    return None


def describe_between(routes: list[str], messages: list[str]) -> dict[str, Any] | None:
    """Return the transport between nodes, by the routes that were taken or else by the network that was chosen."""
    if any("MNNVL" in route for route in routes):
        return {"kind": NVLINK, "via": routes[0]}
    networks = [match["name"] for message in messages if (match := NETWORK.match(message))]
    if not (routes or networks):
        return None
    name = routes[0].split("/")[1] if routes else networks[0]
    found: dict[str, Any] = {"via": routes[0] if routes else name, "name": name}
    if routes:
        found["gpu_direct"] = all("GDRDMA" in route for route in routes)
    ports = {port: layer for message in messages if "NET/IB" in message for port, layer in PORT.findall(message)}
    offered = next((match for message in messages if (match := PROVIDER.search(message))), None)
    if name == "Socket":
        used = [text for text in messages if text.startswith("NET/Socket : Using")]
        interfaces = [each for text in used for each in INTERFACE.findall(text)]
        return found | {"kind": SOCKET, "interfaces": list(dict.fromkeys(interfaces))}
    if name.startswith("IB") or name == "UCX":
        is_roce = bool(ports) and set(ports.values()) == {"RoCE"}
        return found | {"kind": ROCE if is_roce else IB, "devices": sorted(ports)}
    if offered and ("ofi" in name.lower() or "libfabric" in name.lower()):
        return found | {"kind": OFI, "provider": offered[1].lower(), "num_devices": int(offered[2] or 1)}
    return found | {"kind": PLUGIN}


def read_gloo(interfaces: Iterable[str], num_nodes: int) -> dict[str, Any]:
    """Return the same for gloo, which has TCP sockets only. interfaces: those of the processes' sockets."""
    named = sorted(set(interfaces))
    socket = {"kind": SOCKET, "via": "TCP", "name": "gloo", "interfaces": named}
    found: dict[str, Any] = {"library": "gloo", "settings": {}, "why": None, "not_recognised": None}
    return found | {
        "within_node": None if num_nodes > 1 else socket,
        "between_nodes": socket if num_nodes > 1 else None,
    }

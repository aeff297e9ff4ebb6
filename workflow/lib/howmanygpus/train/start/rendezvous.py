"""
How the processes of a run find each other: each leaves its address in a folder that all of them see.

A launcher that knows all addresses beforehand (torchrun) needs none of this; several frameworks expect a list of them,
others the first one only.
"""

import json
import os
import socket
import tempfile
import time
from pathlib import Path

import psutil

from howmanygpus.files import write_json_atomic
from howmanygpus.train.host.placement import Placement
from howmanygpus.train.spec import RunSpec

PORTS = range(20000, 32000)
"""Below those that Linux gives to outgoing connections (ip_local_port_range, from 32768), so that none takes ours."""
POLL_S = 0.2


class RendezvousError(Exception):
    """Some process did not come in time, or came twice."""


def reserve_port() -> int:
    """A port that no other run on this host takes while this process lives.

    The name of an abstract Unix socket says so (unix(7)): known wherever the port is, whatever TMPDIR is; it outlives
    exec and leaves no file. Where another program listens, the port is passed over.
    """
    start = PORTS.start + os.getpid() % len(PORTS)
    for port in (*range(start, PORTS.stop), *range(PORTS.start, start)):
        reservation = socket.socket(socket.AF_UNIX)
        try:
            reservation.bind(f"\0howmanygpus-port{port}")
        except OSError:
            reservation.close()
            continue
        if is_free(port):
            os.set_inheritable(reservation.detach(), True)
            return port
        reservation.close()
    raise RendezvousError(f"none of the ports {PORTS.start} to {PORTS.stop - 1} of {socket.gethostname()} is free")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def find_address(interface: str | None, suffix: str) -> str:
    """How other nodes reach this one: the IPv4 address of an interface, or the host name with a suffix."""
    if interface is None:
        return socket.gethostname() + suffix
    addresses = psutil.net_if_addrs()
    if interface not in addresses:
        known = ", ".join(sorted(addresses))
        raise RendezvousError(f"network_interface {interface} is not among those of {socket.gethostname()}: {known}")
    for address in addresses[interface]:
        if address.family == socket.AF_INET:
            return address.address
    raise RendezvousError(f"network_interface {interface} of {socket.gethostname()} has no IPv4 address")


def open_meeting(attempt: Path, spec: RunSpec, placement: Placement) -> Path:
    """A new folder inside an attempt's, in which the processes of one launch meet; it tells them what they are for."""
    folder = Path(tempfile.mkdtemp(prefix="processes-", dir=attempt))
    write_json_atomic(folder / "spec.json", spec.to_dict())
    write_json_atomic(folder / "placement.json", placement.to_dict())
    return folder


def read_meeting(folder: Path) -> tuple[RunSpec, Placement]:
    return RunSpec.read(folder / "spec.json"), Placement.read(folder / "placement.json")


def path_of(folder: Path, rank: int) -> Path:
    return Path(folder) / f"process{rank}.json"


def announce(folder: Path, rank: int, description: dict) -> None:
    """Leave this process's description; raises RendezvousError where its rank has been here before."""
    claim = Path(folder) / f"process{rank}.claim"
    try:
        os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        raise RendezvousError(f"process {rank} of this run was started twice; see {claim}") from None
    write_json_atomic(path_of(folder, rank), {"rank": rank, **description})


def wait_for_all(folder: Path, num_processes: int, timeout_s: float) -> list[dict]:
    """Descriptions of all processes by rank; raises RendezvousError naming those that did not come in time."""
    deadline = time.monotonic() + timeout_s
    while missing := [rank for rank in range(num_processes) if not path_of(folder, rank).exists()]:
        if time.monotonic() > deadline:
            words = ", ".join(map(str, missing[:8])) + (" and more" if len(missing) > 8 else "")
            raise RendezvousError(
                f"{len(missing)} of {num_processes} processes were not there after {timeout_s:.0f} s (rank {words})"
            )
        time.sleep(POLL_S)
    return read_all(folder)


def read_all(folder: Path) -> list[dict]:
    """Descriptions of the processes that have come, by rank."""
    found = [json.loads(path.read_text()) for path in Path(folder).glob("process*.json")]
    return sorted(found, key=lambda description: description["rank"])

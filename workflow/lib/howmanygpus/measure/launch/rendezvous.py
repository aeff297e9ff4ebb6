"""
Let the processes of a run find each other: each writes its address to a folder that all of them can read.

Some frameworks need the addresses of all processes, others only the first one. A launcher that tells its processes the
addresses (horovodrun) does not need this module.
"""

import json
import os
import socket
import tempfile
import time
from pathlib import Path

import psutil

from howmanygpus.files import write_json_atomic
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.program.spec import ProgramSpec
from howmanygpus.measure.spec import LaunchSpec, RunSpec

PORTS = range(20000, 32000)
"""Below the ports that Linux gives to outgoing connections (ip_local_port_range, from 32768), which would take ours."""
POLL_S = 0.2
LOOPBACK = "127.0.0.1"


class RendezvousError(Exception):
    """A process did not announce itself in time, or did so twice."""


def reserve_port() -> int:
    """Return a port that no other run on this host takes while this process lives.

    An abstract Unix socket (unix(7)) reserves it. Its name is valid in the same network namespace as the port, does not
    depend on TMPDIR, survives exec and leaves no file. Ports on which another program listens are skipped.
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


def name_host(suffix: str) -> str:
    """Return this host's name with a suffix, which stands before the domain, as n01-ib.cluster.org."""
    name, dot, domain = socket.gethostname().partition(".")
    return f"{name}{suffix}{dot}{domain}"


def resolve_address(placement: Placement) -> str:
    """Return how the other processes of a run reach this host.

    In a job it is the IPv4 address of an interface or the host name with a suffix. On one machine it is the loopback
    address, because a machine's own name may have no address.
    """
    interface = placement.network_interface
    if placement.scheduler == "none":
        return LOOPBACK
    if interface is None:
        return name_host(placement.rendezvous_suffix)
    addresses = psutil.net_if_addrs()
    if interface not in addresses:
        known = ", ".join(sorted(addresses))
        raise RendezvousError(f"network_interface {interface} is not among those of {socket.gethostname()}: {known}")
    for address in addresses[interface]:
        if address.family == socket.AF_INET:
            return address.address
    raise RendezvousError(f"network_interface {interface} of {socket.gethostname()} has no IPv4 address")


def open_rendezvous(attempt: Path, spec: LaunchSpec, placement: Placement) -> Path:
    """Make a folder inside an attempt's folder for the processes of one launch, with their spec and placement."""
    folder = Path(tempfile.mkdtemp(prefix="processes-", dir=attempt))
    write_json_atomic(folder / "spec.json", spec.to_dict())
    write_json_atomic(folder / "placement.json", placement.to_dict())
    return folder


def read_rendezvous(folder: Path) -> tuple[LaunchSpec, Placement]:
    """Read what open_rendezvous wrote."""
    values = json.loads((folder / "spec.json").read_text())
    if "program" in values:
        spec: LaunchSpec = ProgramSpec(**values)
    else:
        spec = RunSpec.from_dict(values) if "optimizer" in values else LaunchSpec(**values)
    return spec, Placement.read(folder / "placement.json")


def path_of(folder: Path, rank: int) -> Path:
    """Return the path of a process's description."""
    return Path(folder) / f"process{rank}.json"


def announce(folder: Path, rank: int, description: dict) -> None:
    """Write this process's description; raise RendezvousError if another process with this rank has done so."""
    claim = Path(folder) / f"process{rank}.claim"
    try:
        os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        raise RendezvousError(f"process {rank} of this run was started twice; see {claim}") from None
    write_json_atomic(path_of(folder, rank), {"rank": rank, **description})


def wait_for_all(folder: Path, num_processes: int, timeout_s: float) -> list[dict]:
    """Return the descriptions of all processes by rank; raise RendezvousError naming those missing after timeout_s."""
    deadline = time.monotonic() + timeout_s
    while missing := [rank for rank in range(num_processes) if not path_of(folder, rank).exists()]:
        if time.monotonic() > deadline:
            words = ", ".join(map(str, missing[:8])) + (" and more" if len(missing) > 8 else "")
            raise RendezvousError(
                f"{len(missing)} of {num_processes} processes were not there after {timeout_s:.0f} s (rank {words})"
            )
        time.sleep(POLL_S)
    return read_all(folder)


def exchange_again(folder: Path, rank: int, num_processes: int, found: dict) -> None:
    """Add to this process's description, and wait until all have done so. The run's time limit ends the wait.

    What processes do between their meetings may take some of them longer than the start of a process may take.
    """
    path = path_of(folder, rank)
    write_json_atomic(path, json.loads(path.read_text()) | found)
    path.with_suffix(".again").touch()
    while not all(path_of(folder, other).with_suffix(".again").exists() for other in range(num_processes)):
        time.sleep(POLL_S)


def read_all(folder: Path) -> list[dict]:
    """Return the descriptions of the processes that have announced themselves so far, by rank."""
    found = [json.loads(path.read_text()) for path in Path(folder).glob("process*.json")]
    return sorted(found, key=lambda description: description["rank"])

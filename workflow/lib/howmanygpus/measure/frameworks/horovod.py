"""Lets the processes of a Horovod run find each other, whatever launcher started them."""

import os
import socket
import threading
import time

from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

from howmanygpus.measure.spec import RunSpec

PATIENCE_S = 300.0
"""Time for the first process to serve addresses and for all others to connect. Horovod would wait for 30 seconds."""


def wait_for_server(host: str, port: int) -> None:
    """Wait until the rendezvous listens; Horovod itself would give up at once. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection((host, port), timeout=5.0).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"Horovod's rendezvous at {host}:{port} was not there after {PATIENCE_S:.0f} s"
                ) from None
            time.sleep(0.1)


def join(spec: RunSpec) -> None:
    """Set Horovod's environment variables: the controller and, if the launcher has not set them, the addresses.

    On a busy machine or a slow file system, imports take minutes, and not the same time in all processes.
    """
    controller = spec.horovod_controller
    os.environ |= {"HOROVOD_CONTROLLER": controller, "HOROVOD_CPU_OPERATIONS": controller}
    os.environ.setdefault("HOROVOD_GLOO_TIMEOUT_SECONDS", f"{PATIENCE_S:.0f}")
    if controller == "gloo" and "HOROVOD_RANK" not in os.environ:
        serve_addresses(spec)


def describe_exchange(hvd, spec: RunSpec) -> str:
    """Say how gradients are exchanged. hvd: Horovod's module for the framework, initialised."""
    if not spec.exchanges:
        return "none, without Horovod's distributed optimizer or tape"
    by = "NCCL" if spec.device_kind == "cuda" and hvd.nccl_built() else "gloo" if hvd.gloo_enabled() else "MPI"
    return f"Horovod, {by}, compression {spec.gradient_compression}"


def serve_addresses(spec: RunSpec) -> None:
    """Set the variables that horovodrun would set, from those that howmanygpus.measure.launch.rank_process has set.

    The first process serves the addresses of all processes from a thread that ends with it; gloo's pairs read them.
    """
    rank, local_rank, size = (int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
    per_node = size // spec.num_nodes
    if rank == 0:
        hosts = ",".join(f"node{node}:{per_node}" for node in range(spec.num_nodes))
        server = RendezvousHTTPServer(("", int(os.environ["MASTER_PORT"])), RendezvousHandler, False)
        # init clears all addresses. If serving began earlier, the address of a process that waits already would be
        # lost.
        server.init(get_host_assignments(parse_hosts(hosts), size))
        threading.Thread(target=server.serve_forever, name="rendezvous", daemon=True).start()
    wait_for_server(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    node = rank // per_node
    os.environ |= {
        **{"HOROVOD_RANK": str(rank), "HOROVOD_SIZE": str(size)},
        **{"HOROVOD_LOCAL_RANK": str(local_rank), "HOROVOD_LOCAL_SIZE": str(per_node)},
        **{"HOROVOD_CROSS_RANK": str(node), "HOROVOD_CROSS_SIZE": str(spec.num_nodes)},
        **{"HOROVOD_HOSTNAME": f"node{node}"},
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": os.environ["MASTER_ADDR"],
        "HOROVOD_GLOO_RENDEZVOUS_PORT": os.environ["MASTER_PORT"],
    }
    if interface := os.environ.get("GLOO_SOCKET_IFNAME"):
        os.environ["HOROVOD_GLOO_IFACE"] = interface

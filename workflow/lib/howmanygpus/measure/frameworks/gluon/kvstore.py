"""
MXNet's parameter servers, which sum over nodes.

Each node has a server besides the process that trains. The first node also has a scheduler, to which all of them
connect.
"""

import os
import socket
import subprocess
import sys

import mxnet as mx
import numpy as np

from howmanygpus.measure.host.processes import die_with_parent

PATIENCE_S = 30.0
"""Time for servers and scheduler to end by themselves."""
FIRST_KEY = 1_000_000
"""First key of gathered values, to which their number is added. Smaller keys belong to parameters."""


def split_address(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    return host, port


def resolve_own_ip(other_host: str) -> str:
    """Return the address from which this host reaches another one, without sending anything.

    Its own name may resolve to 127.0.1.1.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        route.connect((other_host, 9))
        return route.getsockname()[0]


class Servers:
    """The kvstore of a process that trains.

    The environment variables that howmanygpus.measure.launch.rank_process sets have the addresses of all processes.
    """

    def __init__(self):
        self.rank, self.num_processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        hosts, ports = zip(*(split_address(one) for one in os.environ["HOWMANYGPUS_ADDRESSES"].split(",")), strict=True)
        own_host = resolve_own_ip(hosts[(self.rank + 1) % self.num_processes])
        # ps-lite only binds to numeric addresses.
        first_host = own_host if self.rank == 0 else socket.gethostbyname(hosts[0])
        os.environ |= {
            **{"DMLC_PS_ROOT_URI": first_host, "DMLC_PS_ROOT_PORT": ports[0], "DMLC_NODE_HOST": own_host},
            **dict.fromkeys(("DMLC_NUM_WORKER", "DMLC_NUM_SERVER"), str(self.num_processes)),
        }
        roles = ("scheduler", "server") if self.rank == 0 else ("server",)
        self._helpers = [self._start(role) for role in roles]
        os.environ["DMLC_ROLE"] = "worker"
        self.store = mx.kv.create("dist_device_sync")
        self._keys = set()

    def _start(self, role: str) -> subprocess.Popen:
        """Start a server or scheduler: MXNet takes on that role when it is imported."""
        environment = os.environ | {"DMLC_ROLE": role, "CUDA_VISIBLE_DEVICES": ""}
        return subprocess.Popen([sys.executable, "-c", "import mxnet"], env=environment, preexec_fn=die_with_parent)

    def sum_gradients(self, parameters: list[mx.gluon.Parameter]) -> None:
        """Give every context of every process the sum of all gradients, in the order of the parameters."""
        for key, parameter in enumerate(parameters):
            self._sum(key, parameter.list_grad(), priority=-key)

    def _sum(self, key: int, arrays: list[mx.nd.NDArray], priority: int = 0) -> None:
        """Sum in place. gluon.Trainer uses pushpull, which MXNet 1.9.1's servers may answer with the previous sum."""
        if key not in self._keys:
            self._keys.add(key)
            self.store.init(key, mx.nd.zeros(arrays[0].shape))
        self.store.push(key, arrays, priority)
        self.store.pull(key, arrays, priority)

    def gather(self, values: np.ndarray) -> np.ndarray:
        """Return every process's values in float32, one row per process."""
        rows = np.zeros((self.num_processes, values.size), np.float32)
        rows[self.rank] = values.ravel()
        summed = mx.nd.array(rows)
        self._sum(FIRST_KEY + values.size, [summed])
        return summed.asnumpy()

    def close(self) -> None:
        """Leave the group, as all processes do. MXNet signs off when the store is deleted."""
        del self.store
        for helper in self._helpers:
            helper.wait(timeout=PATIENCE_S)

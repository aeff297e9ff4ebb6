"""What carries gradients between devices and nodes, and what it could carry."""

import json
from pathlib import Path
from typing import Any

from howmanygpus.measure.allreduce import NCCL_LOGS, SOCKETS
from howmanygpus.measure.around.health import REFUSALS
from howmanygpus.measure.host.gpus import list_gpu_uuids
from howmanygpus.site.network.links import describe_network
from howmanygpus.site.network.transports import read_gloo, read_nccl

MAX_LOG = 2**20
"""Most characters of a process's log that are read."""


def describe_exchange(folder: Path, kind: str, num_nodes: int, root: Path = Path("/")) -> dict[str, Any]:
    """Return the entries `transport` and `network` of an all-reduce's record, or why they are not known.

    folder: what the processes have left there. kind: of the devices. root: the folder that holds `sys/`. What cannot be
    read fails nothing; `problem` says it in a sentence.
    """
    try:
        if kind == "cuda":
            logs = sorted(folder.glob(NCCL_LOGS))
            transport = read_nccl([log.read_text(errors="replace")[:MAX_LOG] for log in logs], num_nodes)
        else:
            left = [json.loads(path.read_text())["interfaces"] for path in sorted(folder.glob(SOCKETS))]
            transport = read_gloo([name for names in left for name in names], num_nodes)
        network = describe_network(root, list_gpu_uuids() if kind == "cuda" else [])
    except (OSError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, *REFUSALS) as error:
        return {"transport": None, "network": None, "problem": f"{type(error).__name__}: {error}"[:300]}
    return {"transport": transport, "network": network}

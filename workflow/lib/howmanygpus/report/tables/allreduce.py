"""
Bandwidth of all-reduce operations: of arrays of fixed sizes, which the preflight measured, and of the gradients.

`gradients_of` names the network if an array has as many bytes as its gradients; it is empty for the fixed sizes. Of a
program that shards its parameters, the time is that of a reduce-scatter and two all-gathers.
"""

import pandas as pd

READS = ("allreduces",)
NEEDS_PREFLIGHT = True
COLUMNS = ("device", "num_gpus", "num_nodes", "nodes", "gradients_of", "size_mib", "median_s", "bus_gb_per_s")


def tabulate(plan: dict, allreduces: list[dict]) -> pd.DataFrame:
    """One row per device count, number of nodes and array size. allreduces: the records of the measurements."""
    rows = [
        {key: record[key] for key in ("device", "num_gpus", "num_nodes")}
        | {
            "nodes": " ".join(record.get("nodes", [])) or None,
            "gradients_of": plan["config"]["model"] if "weights" in record else None,
            "size_mib": size["size_mib"],
            "median_s": size["median_s"],
        }
        | {"bus_gb_per_s": compute_bus_bandwidth(record["num_gpus"], size["size_mib"], size["median_s"], passes)}
        for record in allreduces
        for passes in [3 if record.get("is_sharded") else 2]
        for size in record["sizes"]
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).sort_values(["device", "size_mib", "num_gpus", "num_nodes"])


def compute_bus_bandwidth(num_devices: int, size_mib: float, seconds: float, passes: int = 2) -> float:
    """Bus bandwidth in 10^9 bytes per second: what each device sends and receives under an optimal algorithm.

    It is 2 (n - 1) / n times the size of the array over the time, and (n - 1) / n times for each reduce-scatter and
    all-gather (NVIDIA's nccl-tests, PERFORMANCE.md). passes: 2 for an all-reduce, else the number of these.
    """
    return passes * (num_devices - 1) / num_devices * size_mib * 2**20 / seconds / 1e9

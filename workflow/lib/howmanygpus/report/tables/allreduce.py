"""Bandwidth of all-reduces, from what the preflight measured."""

import pandas as pd

READS = ("allreduces",)
NEEDS_PREFLIGHT = True
COLUMNS = ("device", "num_gpus", "num_nodes", "size_mib", "median_s", "bus_gb_per_s")


def tabulate(plan: dict, allreduces: list[dict]) -> pd.DataFrame:
    """One row per device count and size. allreduces: the records of the preflight.

    bus_gb_per_s: 10^9 bytes a second that each device sends and receives where the algorithm is the best possible,
    2 (n - 1) / n times the array over the median time (NVIDIA's nccl-tests, PERFORMANCE.md, "bus bandwidth").
    """
    rows = [
        {key: record[key] for key in ("device", "num_gpus", "num_nodes")}
        | {"size_mib": size["size_mib"], "median_s": size["median_s"]}
        | {"bus_gb_per_s": compute_bus_bandwidth(record["num_gpus"], size["size_mib"], size["median_s"])}
        for record in allreduces
        for size in record["sizes"]
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).sort_values(["device", "size_mib", "num_gpus"])


def compute_bus_bandwidth(num_devices: int, size_mib: float, seconds: float) -> float:
    return 2 * (num_devices - 1) / num_devices * size_mib * 2**20 / seconds / 1e9

"""
Bandwidth of all-reduce operations: of arrays of fixed sizes, which the preflight measured, and of the gradients.

`gradients_of` names the network if an array has as many bytes as its gradients; it is empty for the fixed sizes. Of a
program that shards its parameters, the time is that of a reduce-scatter and two all-gathers. `transport` is what
carries the gradients, by NCCL's own messages or gloo's sockets. `link_gb_per_s` is what its link can do in one
direction, by the drivers or the machine file, and `link_frac` the share that the all-reduce gets. `latency_us` is the
offset of a line through time against size, with its standard error. `finding` says what is wrong.
"""

from collections.abc import Iterator

import pandas as pd

from howmanygpus.report.network import (
    compute_bus_bandwidth,
    count_passes,
    describe_findings,
    find_link,
    fit_latency,
    name_transport,
)

READS = ("allreduces",)
NEEDS_PREFLIGHT = True
COLUMNS = (
    *("device", "num_gpus", "num_nodes", "nodes", "gradients_of", "size_mib", "median_s", "bus_gb_per_s"),
    *("transport", "link_gb_per_s", "link_frac", "latency_us", "latency_us_error", "finding"),
)


def tabulate(plan: dict, allreduces: list[dict]) -> pd.DataFrame:
    """One row per device count, number of nodes and array size. allreduces: the records of the measurements."""
    rows = [row for record in allreduces for row in describe(record, plan)]
    return pd.DataFrame(rows, columns=list(COLUMNS)).sort_values(["device", "size_mib", "num_gpus", "num_nodes"])


def describe(record: dict, plan: dict) -> Iterator[dict]:
    """Yield the rows of a record of the plan's study."""
    link, latency = find_link(record), fit_latency(record["sizes"])
    own = {key: record[key] for key in ("device", "num_gpus", "num_nodes")}
    own |= {"nodes": " ".join(record.get("nodes", [])) or None}
    own |= {"gradients_of": plan["config"]["model"] if "weights" in record else None}
    own |= {"transport": name_transport(record), "link_gb_per_s": link.gb_per_s if link else None}
    if latency:
        own |= {"latency_us": 1e6 * latency[0], "latency_us_error": 1e6 * latency[1]}
    for size in record["sizes"]:
        bus = compute_bus_bandwidth(record["num_gpus"], size["size_mib"], size["median_s"], count_passes(record))
        row = own | {"size_mib": size["size_mib"], "median_s": size["median_s"], "bus_gb_per_s": bus}
        row |= {"link_frac": bus / link.gb_per_s} if link and link.gb_per_s else {}
        yield row | {"finding": " ".join(describe_findings(record)) or None}

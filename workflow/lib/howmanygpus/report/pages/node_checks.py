"""The table of the probes' findings on each kind of device of a cluster."""

from collections.abc import Sequence

import pandas as pd

from howmanygpus.report.network import name_transport
from howmanygpus.report.rows import name_count


def tabulate(records: list[dict], allreduces: Sequence[dict] = ()) -> pd.DataFrame:
    """Return one row per finding, then one per fact, for each device. records: contents of the probes' JSON files.

    allreduces: records of the all-reduce measurements, each with a row for its finding and one for its transport.
    """
    rows = []
    for record in records:
        found = record["found"]
        rows += [(record["device"], finding["level"], "finding", finding["text"]) for finding in record["findings"]]
        gpus = [f"{gpu['name']}, {_name_memory(gpu)}, {gpu['compute_capability']}" for gpu in found["gpus"]]
        interfaces = [
            f"{name} {each['address']}, {each['mbit_per_s']} Mbit/s" for name, each in found["interfaces"].items()
        ]
        facts = {
            "node": found["job"]["nodes"] or found["host"]["hostname"],
            "processor": found["host"]["cpu_model"],
            "cores of the job": found["num_cores"],
            "memory of the node (GiB)": found["memory_gib"],
            "driver": found["host"]["driver_version"],
            "visible devices": found["visible_devices"],
            "GPUs": "; ".join(gpus),
            "GPU topology": found["topology"],
            "interfaces": "; ".join(interfaces),
            "scratch": found["scratch"] and f"{found['scratch']['path']}, {found['scratch']['free_gib']} GiB free",
            "reaches the package index": found["reaches_package_index"],
            "given by SLURM": found["job"]["allocated"],
            "longest job of the partition": found["partition_limit"],
        }
        rows += [(record["device"], "fact", name, value) for name, value in facts.items() if value not in (None, "")]
    for record in allreduces:
        rows += [(record["device"], each["level"], "finding", each["text"]) for each in record.get("findings", ())]
        what = f"transport, {name_count(record['num_gpus'], 'device')} on {name_count(record['num_nodes'], 'node')}"
        rows += [(record["device"], "fact", what, text)] if (text := name_transport(record)) else []
    return pd.DataFrame(rows, columns=["device", "level", "what", "value"])


def _name_memory(gpu: dict) -> str:
    return "the host's memory" if gpu["memory_gib"] is None else f"{gpu['memory_gib']} GiB"

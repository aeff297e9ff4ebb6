"""
Every try of the searches for the largest batch that fits, for studies with `per_device_batch_size: max`.

`largest` is the largest batch of the search, and `limit` says what prevents a larger one: the memory of the device,
that of its host, or the data set. `per_device_batch_size` is the batch size of runs, on the smallest device count under
strong scaling. It is 15/16 of the largest if a study has several devices and memory is the limit, because devices that
exchange gradients need memory for that. A failed or refused search has no number; `limit_reason` says why.
"""

import pandas as pd

from howmanygpus.report.columns import SEARCHED

READS = ("searches",)
IN_REPORT = True
CATEGORY = "Batch size"
COLUMNS = (
    *("study", "model", *SEARCHED, "search"),
    *("bound", "largest", "limit", "limit_reason", "per_device_batch_size"),
    *("try", "batch", "num_steps", "is_confirmation", "outcome", "reason", "seconds"),
    *("peak_memory_gib", "memory_limit_gib", "device_model"),
)
GIB = 2**30


def tabulate(plan: dict, searches: dict[str, dict]) -> pd.DataFrame:
    """One row per try, and one for a search without any. searches: the records of those that ended, by their names."""
    rows = []
    for series in plan.get("largest", []):
        record = searches.get(series["search"], {})
        row = {"study": plan["study"], "model": plan["config"]["model"], "bound": record.get("bound")}
        row |= {key: series[key] for key in (*SEARCHED, "search", "limit")} | {"limit_reason": series["reason"]}
        row |= {"largest": series["largest"] or None, "per_device_batch_size": series["number"] or None}
        if series["limit"] == "open":
            row["per_device_batch_size"] = None
        tries = record.get("tries", [])
        rows += [row | {"try": number} | describe_try(each) for number, each in enumerate(tries, start=1)] or [row]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(
        dict.fromkeys(("bound", "largest", "per_device_batch_size", "try", "batch", "num_steps"), "Int64")
    )


def describe_try(tried: dict) -> dict:
    """Return the columns of one try."""
    names = ("batch", "num_steps", "is_confirmation", "outcome", "reason", "seconds", "device_model")
    sizes = {"peak_memory_gib": "peak_memory_bytes", "memory_limit_gib": "memory_limit_bytes"}
    in_gib = {name: tried[key] / GIB if tried[key] is not None else None for name, key in sizes.items()}
    return {name: tried[name] for name in names} | in_gib

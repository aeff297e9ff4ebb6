"""
What characterises each framework: version, processes, feeding, place of the loss, graph or eager, and what it lacks.

Version, execution and exchange are read back from the framework after training. The rest follows from the settings of
the runs and from the registry of frameworks. `exchange` is that of the largest device count. `lacks` is about the kind
of device of the row.
"""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from howmanygpus.measure.launch.launchers import count_processes_per_node
from howmanygpus.measure.spec import INDEPENDENT, RANDOM_INPUTS
from howmanygpus.registry import FRAMEWORKS, LOSS_ON_EVERY_DEVICE, Framework
from howmanygpus.report.columns import SERIES, STUDY, list_columns
from howmanygpus.report.outcomes import read_outcomes
from howmanygpus.report.words import word

READS = ("results",)
IS_MERGED = True
CATEGORY = "The same work?"
KEY = list_columns(STUDY, SERIES, but=["input"])
COLUMNS = (*KEY, "version", "processes", "feeding", "loss", "execution", "exchange", "lacks")
SHARED = "shared"
SYNCHRONIZED, LOW_PRECISIONS = "synchronized", ("bf16", "fp16")


def tabulate(plan: dict, results: Path = Path()) -> pd.DataFrame:
    """One row per framework, variant, precision and device of a study. Programs of the user have none."""
    found: dict[tuple, list[dict]] = {}
    for outcome in read_outcomes(plan, results):
        if outcome.was_trained and outcome.record and outcome.identity["framework"] in FRAMEWORKS:
            found.setdefault(tuple(outcome.identity[key] for key in KEY), []).append(outcome.record)
    rows = [(*key, *describe(records).values()) for key, records in found.items()]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def describe(records: list[dict]) -> dict[str, str | None]:
    """Return the characteristics of one framework, by column. records: the run.json of each run."""
    last = max(records, key=lambda record: record["spec"]["num_gpus"])
    spec, settings = last["spec"], last.get("settings", {})
    return {
        "version": join(" ".join(each) for record in records for each in record["versions"].items()),
        "processes": describe_processes(spec),
        "feeding": describe_feeding(records),
        "loss": describe_loss(spec),
        "execution": settings.get("execution"),
        "exchange": settings.get("exchange"),
        "lacks": ", ".join(list_lacks(FRAMEWORKS[spec["framework"]], spec["device_kind"])) or None,
    }


def join(texts: Iterable[str]) -> str:
    """Return the distinct texts in their order."""
    return "; ".join(dict.fromkeys(texts))


def describe_processes(spec: dict) -> str:
    if spec["launcher"] == INDEPENDENT:
        code = "independent"
    elif count_processes_per_node(spec["launcher"], 2) > 1:
        code = "per_device"
    else:
        code = "per_node" if FRAMEWORKS[spec["framework"]].spans_nodes("local") else "one"
    return word("tables", "processes", code=code)


def describe_feeding(records: list[dict]) -> str:
    """Describe who loads the images, and how many batches runs held ahead of their step."""
    counts = {record["batches_ahead"] for record in records if record.get("batches_ahead") is not None}
    loaders = dict.fromkeys(describe_loader(record["spec"]) for record in records)
    return word("tables", "feeding", loaders=loaders, batches_ahead=sorted(counts))


def describe_loader(spec: dict) -> str:
    if spec["input"] in RANDOM_INPUTS:
        return word("tables", "random_images", input=spec["input"])
    own = None if spec["loader"] == SHARED else spec["loader"]
    return word("tables", "loader", own=own, num_workers=spec["loader_workers"], kind=spec["loader_kind"])


def describe_loss(spec: dict) -> str:
    """Return where the loss is computed."""
    is_gathered = spec["framework"] == LOSS_ON_EVERY_DEVICE and not spec["loss_on_every_device"]
    is_first = is_gathered or spec.get("loss_on_first_device", False)
    return word("tables", "place_of_loss", is_first=is_first)


def list_lacks(entry: Framework, device_kind: str) -> list[str]:
    """Return what the registry does not have for a framework on a kind of device."""
    lacks = [precision for precision in LOW_PRECISIONS if precision not in entry.precisions[device_kind]]
    if SYNCHRONIZED not in entry.batchnorm[device_kind]:
        lacks.append("batchnorm")
    elif not entry.synchronizes_over_nodes:
        lacks.append("batchnorm_over_nodes")
    most = entry.max_devices.get(device_kind)
    if most:
        lacks.append("devices")
    if not entry.spans_nodes("local"):
        lacks.append("nodes")
    found = {
        "compression": entry.compressions,
        "loader": entry.native_loader,
        "best": device_kind in entry.best,
        "noise": entry.measures_noise,
        "no_exchange": "fp32" not in entry.keeps_exchange,
    }
    lacks += [code for code, has in found.items() if not has]
    return [word("tables", "lack", code=code, most=most) for code in lacks]

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
from howmanygpus.report.rows import name_count

READS = ("results",)
IS_MERGED = True
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
        return "one per device, each a run of its own"
    if count_processes_per_node(spec["launcher"], 2) > 1:
        return "one per device"
    return "one per node" if FRAMEWORKS[spec["framework"]].spans_nodes("local") else "one for all devices"


def describe_feeding(records: list[dict]) -> str:
    """Describe who loads the images, and how many batches runs held ahead of their step."""
    counts = {record["batches_ahead"] for record in records if record.get("batches_ahead") is not None}
    ahead = ", ".join(map(str, sorted(counts)))
    loaders = join(describe_loader(record["spec"]) for record in records)
    return f"{loaders}; batches ahead: {ahead}" if ahead else loaders


def describe_loader(spec: dict) -> str:
    if spec["input"] in RANDOM_INPUTS:
        return f"{spec['input']} images"
    name = "shared loader" if spec["loader"] == SHARED else f"own loader ({spec['loader']})"
    return f"{name}, {name_count(spec['loader_workers'], 'worker')} per device ({spec['loader_kind']})"


def describe_loss(spec: dict) -> str:
    """Return where the loss is computed."""
    is_gathered = spec["framework"] == LOSS_ON_EVERY_DEVICE and not spec["loss_on_every_device"]
    is_first = is_gathered or spec.get("loss_on_first_device", False)
    return "on the first device, from gathered outputs" if is_first else "on each device"


def list_lacks(entry: Framework, device_kind: str) -> list[str]:
    """Return what the registry does not have for a framework on a kind of device."""
    lacks = [precision for precision in LOW_PRECISIONS if precision not in entry.precisions[device_kind]]
    if SYNCHRONIZED not in entry.batchnorm[device_kind]:
        lacks.append("synchronized BatchNorm")
    elif not entry.synchronizes_over_nodes:
        lacks.append("synchronized BatchNorm over nodes")
    if most := entry.max_devices.get(device_kind):
        lacks.append(f"more than {name_count(most, 'device')}")
    if not entry.spans_nodes("local"):
        lacks.append("several nodes")
    found = {
        "compression of gradients": entry.compressions,
        "a loader of its own": entry.native_loader,
        "a faster tier": device_kind in entry.best,
        "gradient noise": entry.measures_noise,
        "runs without exchange": "fp32" not in entry.keeps_exchange,
    }
    return lacks + [what for what, has in found.items() if not has]

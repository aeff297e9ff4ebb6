"""
Devices and hosts of a study: their rates by the reference kernel, and what was found before runs.

`about` is `device` for a device on one day, and `run` for a run whose devices or hosts have a finding. `product_frac`
and `copy_frac` are the device's rates as shares of the median of the devices in `compared_with`; they are empty without
any, and if other programs had its cores. `product_peak_frac` and `copy_peak_frac` are shares of the card's published
peaks (fp16 on Tensor cores, and the bandwidth of the memory), as far as these are known. `kept_frac` is the share of
the time in which a CPU device had its cores.
"""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from howmanygpus.paths import RUNS
from howmanygpus.report.outcomes import read_outcomes
from howmanygpus.report.tables.helpers.device_health import (
    PAGE,
    Comparison,
    compare_devices,
    compute_peak_fractions,
    describe_findings,
    judge_run,
    list_devices,
)
from howmanygpus.report.words import word

READS = ("results",)
IS_MERGED = True
COLUMNS = (
    *("record", "study", "about", "hostname", "device", "device_model", "measured_at"),
    *("product_tflop_per_s", "copy_gib_per_s", "product_frac", "copy_frac", "compared_with"),
    *("product_peak_frac", "copy_peak_frac"),
    *("kept_frac", "temperature_c", "sm_clock_mhz", "throttle_reasons", "program", "finding"),
)
FACTS = ("product_tflop_per_s", "copy_gib_per_s", "temperature_c", "sm_clock_mhz", "throttle_reasons", "measured_at")


def tabulate(plan: dict, results: Path = Path()) -> pd.DataFrame:
    """One row per device and day, then one per run with a finding. results: the folder that holds `results/`."""
    outcomes = [each for each in read_outcomes(plan, results) if each.status != "stale"]
    # An attempt that was refused was on no node.
    records = {str(RUNS / each.path): each.record for each in outcomes if each.record and "host" in each.record}
    comparisons = compare_devices(list_devices(records.values()))
    rows = [describe_device(comparison) for comparison in comparisons]
    rows += [describe_missing(*problem) for problem in list_problems(records.values())]
    for path, record in records.items():
        if text := describe_findings(judge_run(record, comparisons)):
            where = {"record": path, "study": record["spec"]["study"], "about": "run"}
            rows.append(where | {"hostname": record["host"]["hostname"], "finding": text})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def describe_device(comparison: Comparison) -> dict:
    device, facts = comparison.device, comparison.device.facts
    return {
        "record": " ".join(device.key),
        "about": "device",
        "hostname": device.hostname,
        "device": facts["device"],
        "device_model": facts["model"],
        "program": device.group[2],
        "kept_frac": facts.get("cores_frac"),
        **{key: facts.get(key) for key in FACTS},
        **{f"{name}_frac": fraction for name, fraction in comparison.fractions.items()},
        "compared_with": comparison.compared_with or None,
        **{f"{name}_peak_frac": fraction for name, fraction in compute_peak_fractions(facts).items()},
        "finding": describe_findings(comparison.findings),
    }


def list_problems(records: Iterable[dict]) -> list[tuple[str, str]]:
    """Return host and reason where the reference kernel could not be measured, each once."""
    found = [(each["host"]["hostname"], each.get("reference_kernel", {}).get("problem")) for each in records]
    return list(dict.fromkeys((hostname, problem) for hostname, problem in found if problem))


def describe_missing(hostname: str, why: str) -> dict:
    text = word(PAGE, "not_measured", problem=why)
    return {"record": f"{hostname} {why}", "about": "device", "hostname": hostname, "finding": text}

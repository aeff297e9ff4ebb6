"""Estimates the device-hours of the missing runs, so that a dry run shows the cost in advance."""

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean

from howmanygpus.plan.plan import Plan

RUNS = Path("results/runs")


def describe_device_hours(plan: Plan, runs: Path = RUNS) -> str:
    """Return the estimate as one line of text, or an empty text if no run is missing.

    The expected time of a run is the mean of the finished runs of its study with the same framework, device and number
    of devices. If there are none, it is the time limit, which no run exceeds in its first attempt.
    """
    seconds, missing = defaultdict(list), []
    for study in plan.studies.values():
        for run in study.runs:
            key, record = (study.name, run.framework, run.device, run.num_gpus), runs / run.path / "run.json"
            if record.exists():
                seconds[key].append(json.loads(record.read_text()).get("wall_time_s"))
            elif not run.unsupported and not plan.is_left_out(run):
                missing.append((key, run.num_gpus, 60 * study.config["time_limit_min"]))
    if not missing:
        return ""
    known = {key: mean(filter(None, values)) for key, values in seconds.items() if any(values)}
    expected = sum(num_gpus * known.get(key, limit_s) for key, num_gpus, limit_s in missing) / 3600
    at_most = sum(num_gpus * limit_s for _, num_gpus, limit_s in missing) / 3600
    like_others = sum(key in known for key, _, _ in missing)
    if not like_others:
        return f"{len(missing)} runs are missing: at most {at_most:.1f} device-hours, by their time limits\n"
    return (
        f"{len(missing)} runs are missing: {expected:.1f} device-hours expected ({like_others} as runs like them took, "
        f"the others to their time limits), at most {at_most:.1f}\n"
    )

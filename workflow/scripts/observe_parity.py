"""Let one framework do the tasks of the parity gate on each layout of devices, and store the observations."""

import argparse
import json
import os
import subprocess
import time
from collections import Counter
from pathlib import Path

from howmanygpus.base.environment import build_unmeasured
from howmanygpus.files import atomic_folder, write_json_atomic
from howmanygpus.gate.observe import CRASHES
from howmanygpus.site.environments.find import find_launcher
from howmanygpus.site.jobs.endings import explain_crashes
from howmanygpus.site.jobs.ledger import GATE, is_packed, recorded, share_by_seconds
from howmanygpus.site.node_check import find_refusal


class CrashError(Exception):
    """Some tasks of the gate have crashed."""


def explain_stack_refusal(probe: Path | None, environment: Path) -> str:
    """Return why the nodes' driver cannot run an environment; empty if it can, or if the nodes were not probed."""
    if probe is None:
        return ""
    driver = json.loads(probe.read_text())["found"]["host"]["driver_version"]
    return find_refusal(json.loads(environment.read_text())["name"], driver)


def observe(python: str, tasks: list[str], layout: str, keys: list[str], placement: str, folder: Path) -> None:
    """Start the framework on one layout. tasks: options of gate.observe that all layouts share."""
    num_devices, _, num_nodes = layout.partition("x")
    command = [python, "-m", "howmanygpus.gate.observe", *tasks, "--keys", *keys]
    command += ["--num-devices", num_devices, "--num-nodes", num_nodes]
    command += ["--placement", placement, "--folder", str(folder / layout)]
    if status := subprocess.run(command, env=build_unmeasured(os.environ)).returncode:
        raise CrashError(explain_crashes(folder / layout / CRASHES) or f"the gate's process ended with status {status}")


def describe_layout(layout: str) -> str:
    """Return a layout, such as 2x1, in words."""
    devices, nodes = map(int, layout.split("x"))
    counts = ((devices, "device"), (nodes, "node"))
    return " on ".join(f"{count} {noun}{'s' if count > 1 else ''}" for count, noun in counts)


def compute_job_size(device: str, layouts: list[str]) -> dict:
    """Return the size of the job, which is enough for each of its layouts."""
    sizes = [tuple(map(int, layout.split("x"))) for layout in layouts]
    num_nodes = max(nodes for _, nodes in sizes)
    per_node = max(devices // nodes for devices, nodes in sizes)
    return {"device": device, "num_gpus": num_nodes * per_node, "num_nodes": num_nodes}


def measure_cells(folder: Path, layout: str, keys: list[str], started: float) -> dict[str, float]:
    """Return the seconds that each cell took on one layout, by the times of its files. Cells go one after the other.

    folder: of the group's observations. started: when the layout was started, in seconds since 1970.
    """
    ends = {key: max(path.stat().st_mtime for path in (folder / layout / key).rglob("*")) for key in keys}
    moments = [started, *sorted(ends.values())]
    return {key: max(0.0, end - moments[moments.index(end) - 1]) for key, end in ends.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--request", required=True, help="JSON: see howmanygpus.study.gate_cells.ParityGroup.request")
    parser.add_argument("--defaults", required=True, help="JSON: defaults of the other settings")
    parser.add_argument("--layouts", type=json.loads, required=True, help="JSON: cells by devices x nodes, such as 2x1")
    parser.add_argument("--studies", type=json.loads, required=True, help="JSON: studies that need each cell")
    parser.add_argument("--placement", default="{}", help="JSON: how processes start, see measure.host.placement")
    parser.add_argument("--environment", type=Path, required=True, help="record of the framework's environment")
    parser.add_argument("--probe", type=Path, nargs="?", help="what was found on the devices, if they were probed")
    parser.add_argument("--record", type=Path, required=True, help="JSON file to write, beside the observations")
    arguments = parser.parse_args()
    refusal = explain_stack_refusal(arguments.probe, arguments.environment)
    request = json.loads(arguments.request)
    tasks = ["--request", arguments.request, "--defaults", arguments.defaults]
    device, framework = next(iter(request["cells"].values()))["device"], request["framework"]["framework"]
    size, packed = compute_job_size(device, list(arguments.layouts)), is_packed(json.loads(arguments.placement))
    shares, seconds = share_by_seconds(arguments.studies, {}), Counter[str]()
    # The folder is beside the record, because processes on other nodes write their files there too.
    with (
        recorded(GATE, arguments.record.stem, size, packed, framework=framework, shares=shares) as job,
        atomic_folder(arguments.record.with_suffix("")) as folder,
    ):
        for number, (layout, keys) in enumerate({} if refusal else arguments.layouts.items(), start=1):
            print(f"Layout {number} of {len(arguments.layouts)}: {describe_layout(layout)}", flush=True)
            started = time.time()
            python, placement = find_launcher(arguments.environment, json.loads(arguments.placement))
            observe(python, tasks, layout, keys, json.dumps(placement), folder)
            seconds += Counter(measure_cells(folder, layout, keys, started))
        job["shares"] = share_by_seconds(arguments.studies, seconds)
    write_json_atomic(arguments.record, {"layouts": arguments.layouts, "unsupported": refusal})


if __name__ == "__main__":
    main()

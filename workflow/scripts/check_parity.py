"""
Let one framework do the parity gate's task on each layout of devices, and write the verdict.

A framework that cannot do the task at all has failed the gate; its last words are the reason.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from howmanygpus.environments.find import find_python
from howmanygpus.files import write_json_atomic
from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.report.parity.judge import describe_layout, judge
from howmanygpus.train.preflight.stacks import find_refusal


def read_layout(text: str) -> tuple[int, int]:
    """Numbers of devices and of nodes, from such as 2x1."""
    devices, _, nodes = text.partition("x")
    return int(devices), int(nodes)


def observe(
    python: str, cell: dict, framework: str, placement: str, task: Path, layout: tuple[int, int], folder: Path
) -> str:
    """Start the framework's processes; returns what went wrong, or nothing."""
    entry = FRAMEWORKS[framework]
    names = {"framework": framework} | {key: getattr(entry, key) for key in ("family", "strategy", "launcher")}
    command = [
        python,
        "-m",
        "howmanygpus.train.parity.observe",
        "--framework",
        json.dumps(names),
        "--cell",
        json.dumps(cell),
    ]
    command += ["--task", str(task), "--num-devices", str(layout[0]), "--num-nodes", str(layout[1])]
    command += ["--placement", placement, "--folder", str(folder)]
    result = subprocess.run(command, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    sys.stdout.write(result.stdout)
    if result.returncode == 0 or (folder / "unsupported.json").exists():
        return ""
    error = re.search(r"\w+(Error|Exception): .+", result.stdout)
    return f"on {describe_layout(layout)}: {error.group(0) if error else f'exit status {result.returncode}'}"


def find_stack_refusal(probe: Path | None, environment: Path) -> str:
    """Why the nodes' driver does not run an environment; empty where it does, or where nobody looked."""
    if probe is None:
        return ""
    driver = json.loads(probe.read_text())["found"]["host"]["driver_version"]
    return find_refusal(json.loads(environment.read_text())["name"], driver)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--cell", type=json.loads, required=True, help="JSON: see howmanygpus.plan.parity.ParityCell.request"
    )
    parser.add_argument("--layouts", type=read_layout, nargs="+", required=True, help="devices x nodes, such as 2x1")
    parser.add_argument(
        "--placement", default="{}", help="JSON: how processes start, see howmanygpus.train.host.placement"
    )
    parser.add_argument("--reference", type=Path, required=True, help="reference.json in the folder of the task")
    parser.add_argument("--environment", type=Path, required=True, help="record of the framework's environment")
    parser.add_argument("--probe", type=Path, nargs="?", help="what was found on the devices, if they were looked at")
    parser.add_argument("--verdict", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    cell, framework = arguments.cell, arguments.cell["framework"]
    if refusal := find_stack_refusal(arguments.probe, arguments.environment):
        verdict = {"status": "unsupported", "reason": refusal, "checks": []}
        write_json_atomic(arguments.verdict, cell | verdict)
        return
    task = arguments.reference.parent
    # Beside the verdict, as processes on other nodes leave their files there too.
    with tempfile.TemporaryDirectory(prefix=".observed-", dir=arguments.verdict.parent) as scratch:
        observed, crashes = {}, []
        for layout in arguments.layouts:
            observed[layout] = Path(scratch) / "x".join(map(str, layout))
            observed[layout].mkdir()
            python = find_python(arguments.environment)
            where = (task, layout, observed[layout])
            crashes.append(observe(python, cell, framework, arguments.placement, *where))
        if reason := next(filter(None, crashes), None):
            verdict = {"status": "failed", "reason": f"the task could not be done {reason}", "checks": []}
        else:
            verdict = judge(observed, task, cell["precision"])
    write_json_atomic(arguments.verdict, cell | verdict)
    print(f"{framework}: {verdict['status']} {verdict['reason']}")


if __name__ == "__main__":
    main()

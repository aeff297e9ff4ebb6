"""
Complete a planned run's specification and hand it to the Python of its framework's environment.

What this file does ends before anything is measured, so it is no input of the run; the specification is stored with
the run and compared with the plan.
"""

import argparse
import json
import os
import time
from pathlib import Path

from howmanygpus.environments.find import find_python
from howmanygpus.files import write_json_atomic
from howmanygpus.plan.runs import Run, complete_spec
from howmanygpus.train.records import AttemptFolder


def create_attempt(run: str, spec: dict, placement: dict) -> AttemptFolder:
    started = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    who = f"job{os.environ['SLURM_JOB_ID']}" if placement else str(os.getpid())
    attempt = AttemptFolder(Path("results/attempts") / run / f"{started}-{who}")
    attempt.path.mkdir(parents=True)
    write_json_atomic(attempt.spec, spec)
    write_json_atomic(attempt.placement, placement)
    return attempt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", required=True, help="path of the run below results/runs/")
    parser.add_argument("--settings", type=json.loads, required=True, help="what differs from the defaults, as JSON")
    parser.add_argument("--data", type=Path, required=True, help="dataset.json of the prepared data")
    parser.add_argument("--weights", type=Path, required=True, help="record of the initial weights, beside them")
    parser.add_argument("--environment", type=Path, required=True, help="record of the framework's environment")
    parser.add_argument("--verdict", type=Path, required=True, help="what the parity gate said of this framework")
    parser.add_argument("--parity", choices=("required", "report", "off"), required=True)
    parser.add_argument("--placement", type=json.loads, default={}, help="JSON: see howmanygpus.train.host.placement")
    parser.add_argument("--time-limit-min", type=float, required=True, help="minutes after which the run is stopped")
    arguments = parser.parse_args()
    run = Run.from_path(arguments.run)
    spec = complete_spec(
        run, arguments.settings, str(arguments.data.parent), str(arguments.weights.with_suffix(".safetensors"))
    )
    python = find_python(arguments.environment)
    options = {
        "--attempt": str(create_attempt(arguments.run, spec, arguments.placement).path),
        "--run-dir": f"results/runs/{arguments.run}",
        "--deadline-s": str(60 * arguments.time_limit_min),
    }
    verdict = json.loads(arguments.verdict.read_text())
    options["--parity"] = verdict["status"]
    if verdict["status"] == "unsupported" or (verdict["status"] == "failed" and arguments.parity == "required"):
        options["--refuse"] = f"{verdict['reason']}; see {arguments.verdict}"
    os.execv(
        python,
        [python, "-m", "howmanygpus.train.start.launch", *(word for option in options.items() for word in option)],
    )


if __name__ == "__main__":
    main()

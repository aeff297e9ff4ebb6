"""Hand one planned run to the Python of its framework's environment."""

import argparse
import json
import os
import time
from pathlib import Path

from trainbench.records import AttemptFolder, write_json_atomic


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True, help="the study's planned runs")
    parser.add_argument("--run", required=True, help="path of the run below results/runs/")
    parser.add_argument("--environment", type=Path, required=True, help="record of the framework's environment")
    parser.add_argument("--time-limit-min", type=float, required=True, help="minutes after which the run is stopped")
    arguments = parser.parse_args()
    python = json.loads(arguments.environment.read_text())["python"]
    if not os.access(python, os.X_OK):
        raise SystemExit(
            f"{arguments.environment}: its Python {python} is gone; delete this file and run the workflow again"
        )
    spec = json.loads(arguments.plan.read_text())["runs"][arguments.run]["spec"]
    started = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    attempt = AttemptFolder(Path("results/logs/train") / arguments.run / f"{started}-{os.getpid()}")
    attempt.path.mkdir(parents=True)
    write_json_atomic(attempt.spec, spec)
    options = {
        "--attempt": str(attempt.path),
        "--run-dir": f"results/runs/{arguments.run}",
        "--deadline-s": str(60 * arguments.time_limit_min),
    }
    words = [word for option in options.items() for word in option]
    os.execv(python, [python, "-m", "trainbench.launch", *words])


if __name__ == "__main__":
    main()

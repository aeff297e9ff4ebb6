"""
Write the batch script that does one run of a study on a cluster, without Snakemake on the compute node.

Everything behind -- are options of train.py, which the script calls.
"""

import argparse
import json
from pathlib import Path

from howmanygpus.clone import SCRIPTS
from howmanygpus.files import write_text_atomic
from howmanygpus.paths import RUNS
from howmanygpus.site.batch_script import make_run_script

LOGS = Path("results/logs/train")
"""Folder of the logs of runs, which sbatch needs before the job starts."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--script", type=Path, required=True, help="file to write")
    parser.add_argument("--run", required=True, help="path of the run below results/runs/")
    parser.add_argument("--requested", type=json.loads, required=True, help="resources of the run's job, as JSON")
    parser.add_argument("options", nargs="+", help="options of train.py, behind --")
    arguments = parser.parse_args()
    log, record = LOGS / f"{arguments.run}.log", f"{RUNS}/{arguments.run}/run.json"
    log.parent.mkdir(parents=True, exist_ok=True)
    limit = ["--time-limit-min", str(arguments.requested["limit_min"])]
    command = [str(SCRIPTS / "train.py"), "--run", record, *arguments.options, *limit]
    text = make_run_script(arguments.run, arguments.requested, command, Path.cwd(), log)
    write_text_atomic(arguments.script, text)


if __name__ == "__main__":
    main()

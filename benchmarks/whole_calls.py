"""
How long whole commands take over those of another commit: `make demo`, `make figures`, `make test`.

Each call is made in a fresh clone, in turns with the other commit. Processor time is user and system of all processes
that another waited for, so not of Snakemake in tests, whose parent outlives them; memory is the largest of a single
process. With --cold, each clone installs everything in an empty cache of its own.

For `make demo` there is also the time from the end of a run to the end of the first step of the next one, between two
runs of the same framework that follow each other.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from reporting import ROOT, write_benchmark

TARGETS = ("demo", "figures", "test")


def clone(commit: str, folder: Path) -> None:
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
    subprocess.run(["git", "checkout", "--quiet", commit], cwd=folder, check=True)


def call(target: str, folder: Path, cache: Path | None) -> dict[str, float]:
    """Make a target in a clone, and return what it took: seconds and MiB."""
    environment = os.environ | ({"HOWMANYGPUS_CACHE": str(cache)} if cache else {})
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(
            ["make", target, f"PYTHON={sys.executable}"], cwd=folder, env=environment, stdout=output, stderr=output
        )
        _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"make {target} failed in {folder}:\n{(folder / 'output.txt').read_text()[-4000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    measured = {"wall, s": time.monotonic() - began, "processor time, s": cpu_s, "memory, MiB": used.ru_maxrss / 1024}
    return measured | ({"from run to run, s": find_gap(folder / "results" / "runs")} if target == "demo" else {})


def find_gap(runs: Path) -> float:
    """Return the median time in seconds from the end of a run to the end of the first step of the next one.

    Only of pairs with the same framework. A run ends as its run.json is written.
    """
    found = []
    for path in runs.rglob("run.json"):
        record, ended_s = json.loads(path.read_text()), path.stat().st_mtime
        first = json.loads((path.parent / "events.jsonl").open().readline())
        began_s = ended_s - record["wall_time_s"]
        found.append((ended_s, began_s + first["wall_s"], record["spec"]["framework"]))
    found.sort()
    gaps = [later[1] - earlier[0] for earlier, later in pairwise(found) if earlier[2] == later[2]]
    return float(np.median([gap for gap in gaps if gap > 0]))


def compare(target: str, arguments: argparse.Namespace, folder: Path) -> list[dict]:
    """Return the ratios of this commit to the other one, a row for each figure."""
    # A commit that is made meanwhile is not measured.
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    own = asked.stdout.strip()
    spent: dict[str, list[dict[str, float]]] = {own: [], arguments.against: []}
    for number in range(arguments.rounds):
        for commit, measured in spent.items():
            with tempfile.TemporaryDirectory(dir=folder) as temporary:
                place = Path(temporary, "clone")
                clone(commit, place)
                measured.append(call(target, place, Path(temporary, "cache") if arguments.cold else None))
                print(f"make {target}, round {number + 1}, {commit}: {measured[-1]}", flush=True)
    rows = []
    for what in spent[own][0]:
        mine, others = ([each[what] for each in measured] for measured in spent.values())
        ratios = np.divide(mine, others)
        row = {"target": target, "what": what, "value": float(np.median(ratios)), "lowest": min(ratios)}
        rows.append(row | {"highest": max(ratios), "own": np.median(mine), "other": np.median(others)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT", required=True)
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=["demo"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cold", action="store_true", help="an empty cache for each call")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_benchmark(
            "whole_calls", [row for target in arguments.targets for row in compare(target, arguments, Path(folder))]
        )


if __name__ == "__main__":
    main()

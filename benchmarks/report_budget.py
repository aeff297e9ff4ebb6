"""
How long tables, figures and the report of 500 runs take, and how large the report is.

The recorded runs (sandbox/recorded/) are multiplied: more repeats in several studies. Each run gets samples at 10 Hz of
some minutes, of eight devices and a host, and its events are stretched to the same duration. Seconds are processor
time, user and system, of all processes. No run is trained.

With --against COMMIT, all is made by that commit's code and by this one, in turns: the tables without one run, their
figures, and both again with the run.
"""

import argparse
import csv
import io
import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from subprocess import PIPE

import numpy as np
import yaml

from reporting import ROOT, write_benchmark

# isort: split
import recorded_runs
from howmanygpus.measure.host.samples import COLUMNS

STUDY = "all_frameworks"
DEVICES, HZ, CORES = 8, 10, 64
REPORT = Path("results/report.html")
AIMS = {"report": 60.0, "size of the report": 25.0}


def write_samples(duration_s: float, generator: np.random.Generator) -> str:
    """Return the content of a telemetry.csv: devices that wait now and then, and the host."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    for number in range(1, round(duration_s * HZ) + 1):
        when = {"time_s": round(number / HZ + generator.normal(0, 0.002), 3), "node": 0}
        for device in range(DEVICES):
            sample = {"device": f"cpu{device}", "utilisation_frac": round(generator.beta(5, 1), 3)}
            sample |= {"memory_gib": round(10 + device / 4 + generator.normal(0, 0.05), 4)}
            sample |= {"power_w": round(generator.normal(300, 20), 2), "energy_j": round(30.0 * number, 2)}
            writer.writerow(when | sample | {"temperature_c": 60, "sm_clock_mhz": 1980, "memory_clock_mhz": 2619})
        busy = generator.beta(2, 2, CORES).round(2)
        host = {"device": "host", "utilisation_frac": round(busy.mean(), 3), "cores_frac": " ".join(map(str, busy))}
        host |= {"memory_gib": 100.5, "disk_read_gib_per_s": round(generator.exponential(0.1), 4)}
        writer.writerow(when | host | {"disk_write_gib_per_s": 0.0})
    return text.getvalue()


def stretch(events: list[dict], duration_s: float) -> str:
    """Return the lines of a run that lasts longer, with the same windows and evaluations."""
    factor = duration_s / events[-1]["wall_s"]
    times = ("wall_s", "elapsed_s", "train_s", "data_wait_s")
    longer = [event | {key: factor * event[key] for key in times if event.get(key) is not None} for event in events]
    for event in longer:
        if "steps_s" in event:
            event["steps_s"] = [round(factor * seconds, 6) for seconds in event["steps_s"]]
    return "".join(f"{json.dumps(event)}\n" for event in longer)


def multiply(folder: Path, studies: int, repeats: int, duration_s: float) -> int:
    """Put more runs in the place of the recorded ones, write their config, and return how many are planned."""
    results, generator = folder / "results", np.random.default_rng(0)
    config = yaml.safe_load((folder / recorded_runs.CONFIG).read_text())
    study = config["studies"][STUDY] | {"repeats": repeats}
    names = [f"many_{number}" for number in range(1, studies + 1)]
    (folder / recorded_runs.CONFIG).write_text(yaml.safe_dump({"studies": dict.fromkeys(names, study)}))
    samples = folder / "samples.csv"
    samples.write_text(write_samples(duration_s, generator))
    recorded = folder / "recorded"
    (results / "runs").rename(recorded)
    shutil.rmtree(results / "jobs")
    for path in sorted((recorded / STUDY).rglob("*_repeat1/run.json")):
        events = [json.loads(line) for line in (path.parent / "events.jsonl").read_text().splitlines()]
        text, record = stretch(events, duration_s), json.loads(path.read_text())
        for name in names:
            for repeat in range(1, repeats + 1):
                place = re.sub("_repeat1$", f"_repeat{repeat}", str(path.parent.relative_to(recorded / STUDY)))
                target = results / "runs" / name / place
                target.mkdir(parents=True)
                # Samples and predictions take no space beyond those of one run.
                os.link(samples, target / "telemetry.csv")
                os.link(path.parent / "predictions.npz", target / "predictions.npz")
                (target / "events.jsonl").write_text(text)
                own = {"study": name, "repeat": repeat, "seed": repeat}
                own["weights_file"] = record["spec"]["weights_file"].replace("_seed1.", f"_seed{repeat}.")
                changed = record | {"spec": record["spec"] | own, "wall_time_s": duration_s}
                (target / "run.json").write_text(json.dumps(changed))
    return studies * repeats * len(study["frameworks"]) * len(study["num_gpus"])


def spend(folder: Path, *arguments: str) -> dict:
    """Call Snakemake in a copy, and return the seconds that it took."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    recorded_runs.call_snakemake(folder, *arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"value": cpu_s, "unit": "s of processor time", "wall_s": time.monotonic() - began}


def take_code(folder: Path, commit: str) -> None:
    """Put a commit's code in the place of this one's in a copy of the project."""
    for name in recorded_runs.COPIED:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    archive = subprocess.run(["git", "archive", commit, *recorded_runs.COPIED], cwd=ROOT, stdout=PIPE, check=True)
    subprocess.run(["tar", "--extract"], cwd=folder, input=archive.stdout, check=True)


def prepare(folder: Path, arguments: argparse.Namespace, commit: str | None = None) -> int:
    """Make a copy of the project with many runs, and return how many are planned. commit: whose code it has."""
    recorded_runs.copy_project(folder, recorded_runs.ONE_MACHINE)
    recorded_runs.renew_records(folder, recorded_runs.ONE_MACHINE)
    if commit:
        take_code(folder, commit)
    planned = multiply(folder, arguments.studies, arguments.repeats, 60 * arguments.minutes)
    recorded_runs.name_verdicts(folder)
    return planned


def time_products(folder: Path) -> dict[str, float]:
    """Return the processor time of all tables and figures without one run, and of those that change with it."""
    run, held = sorted((folder / "results" / "runs").glob("*/*/*/*"))[0], folder / "held"
    for name in ("tables", "summaries", "figures", "pages"):
        shutil.rmtree(folder / "results" / name, ignore_errors=True)
    run.rename(held)
    spent = {
        "all tables": spend(folder, "--until", "merge_tables")["value"],
        "all figures": spend(folder)["value"],
    }
    held.rename(run)
    return spent | {"one more run": spend(folder)["value"]}


def compare(folder: Path, arguments: argparse.Namespace) -> list[dict]:
    """Return the ratios of this code to another commit's."""
    commits = {"before": arguments.against, "after": None}
    planned = [prepare(folder / name, arguments, commit) for name, commit in commits.items()]
    spent = [{name: time_products(folder / name) for name in commits} for _ in range(arguments.rounds)]
    rows = []
    for what in spent[0]["after"]:
        ratios = [both["after"][what] / both["before"][what] for both in spent]
        row = {"runs": planned[1], "what": what, "unit": f"of {arguments.against}", "value": float(np.median(ratios))}
        row |= {"lowest": min(ratios), "highest": max(ratios)}
        rows.append(row | {f"{name}_s": spent[-1][name][what] for name in commits})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=3.0, help="duration of each run")
    parser.add_argument(
        "--folder", type=Path, help="empty folder for the copy, which stays; without it a temporary one"
    )
    parser.add_argument("--against", metavar="COMMIT", help="compare the tables with those of this commit's code")
    parser.add_argument("--rounds", type=int, default=3, help="number of comparisons")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.folder or Path(temporary)).resolve()
        if arguments.against:
            write_benchmark("report_budget_against", compare(folder, arguments))
            return
        planned = prepare(folder, arguments)
        rows = [
            {"what": "tables"} | spend(folder, "--until", "merge_tables"),
            {"what": "figures"} | spend(folder),
            {"what": "report"} | spend(folder, "--report", str(REPORT)),
        ]
        size = (folder / REPORT).stat().st_size / 1e6
        rows.append({"what": "size of the report", "value": size, "unit": "MB"})
        write_benchmark("report_budget", [{"runs": planned} | row | {"aim": AIMS.get(row["what"])} for row in rows])


if __name__ == "__main__":
    main()

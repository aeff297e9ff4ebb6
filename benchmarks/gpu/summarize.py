"""
Make a small file from what first_minutes.py has saved: the card, the expert's loops, and the runs of the workflow.

    .venv/bin/python benchmarks/gpu/summarize.py FOLDER [--to docs/gpu]

The file is named by card and date. docs/gpu.md has a table of all files in docs/gpu/, which `make references` writes.
"""

import argparse
import json
import re
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "workflow" / "lib"))

from howmanygpus.files import read_each, write_json_atomic
from howmanygpus.report.tables.runs import describe_provenance, describe_timing

RIVALS = {("pytorch_ddp", "stock"): "nchw", ("pytorch_ddp", "best"): "compile", ("jax_sharding", "stock"): "jax"}
"""The expert's way that does what a framework does in a tier."""
IDENTITY = ("study", "model", "framework", "tier", "input", "precision", "per_device_batch_size", "num_gpus")


def read_expert(folder: Path) -> list[dict]:
    """Return the expert's loops, the last of each kind."""
    path = folder / "expert.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return list({(row["model"], row["batch_size"], row["way"]): row for row in rows}.values())


def describe_run(path: Path) -> dict:
    """Return what a table needs of a run. path: its run.json."""
    record = json.loads(path.read_text())
    row = {key: record["spec"][key] for key in IDENTITY} | {"status": record["status"], "reason": record["reason"]}
    provenance = describe_provenance(record)
    row |= {key: provenance[key] for key in ("device_model", "driver_version", "framework_version")}
    if record["status"] == "completed":
        events = [json.loads(line) for line in path.with_name("events.jsonl").read_text().splitlines()]
        timing = describe_timing(record, events)
        row |= {key: timing.get(key) for key in ("images_per_s", "step_s_median", "peak_memory_gib")}
        row["first_step_s"] = record["compile_s"]
    return row


def add_rival(run: dict, expert: list[dict]) -> dict:
    """Return a run with the rate of the expert's loop that does the same, if there is one, and the ratio."""
    way = RIVALS.get((run["framework"], run["tier"]))
    if run["precision"] != "bf16" or not run.get("images_per_s"):
        return run
    for row in expert:
        same = (row["model"], row["batch_size"], row["way"]) == (run["model"], run["per_device_batch_size"], way)
        if same and "images_per_s" in row:
            return run | {"expert_way": way, "over_expert": run["images_per_s"] / row["images_per_s"]}
    return run


def summarize(folder: Path) -> dict:
    """Return the card, the commit, and all rows. Raises SystemExit if nothing was trained."""
    expert, runs = read_expert(folder), []
    if (records := folder / "records.tgz").exists():
        with tempfile.TemporaryDirectory() as scratch, tarfile.open(records) as tar:
            tar.extractall(scratch, filter="data")
            runs = read_each(Path(scratch) / "results" / "runs", "**/run.json", describe_run)
    cards = [row["device"] for row in expert if "device" in row]
    cards += [row["device_model"] for row in runs if row["device_model"]]
    if not cards:
        sys.exit(f"{folder}: neither expert.jsonl nor a run of records.tgz names a device; nothing was trained")
    about = json.loads((folder / "about.json").read_text())
    drivers = [row["driver_version"] for row in runs if row["driver_version"]]
    return {
        "card": cards[-1],
        "date": about["started_at"][:10],
        "commit": about["commit"],
        "driver": drivers[-1] if drivers else None,
        "expert": expert,
        "runs": [add_rival(run, expert) for run in runs],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what first_minutes.py was given as --save-to")
    parser.add_argument("--to", type=Path, help="folder of the new file (default: the same)")
    arguments = parser.parse_args()
    summary, to = summarize(arguments.folder), arguments.to or arguments.folder
    name = re.sub(r"[^a-z0-9]+", "-", summary["card"].lower()).strip("-")
    to.mkdir(parents=True, exist_ok=True)
    write_json_atomic(to / f"{name}-{summary['date']}.json", summary)
    print(f"{summary['card']}, {summary['commit'] or 'commit unknown'}")
    for row in summary["expert"]:
        said = row.get("error") or f"{row['images_per_s']:.0f} images/s"
        print(f"expert  {row['model']}, batch {row['batch_size']}, {row['way']}: {said}")
    for run in summary["runs"]:
        said = f"{run['images_per_s']:.0f} images/s" if run.get("images_per_s") else f"{run['status']} {run['reason']}"
        said += f", {run['over_expert']:.2f} of the expert's {run['expert_way']}" if "over_expert" in run else ""
        where = f"{run['model']}, batch {run['per_device_batch_size']}, {run['input']}, {run['precision']}"
        print(f"run     {run['framework']}, {run['tier']}, {where}: {said}")


if __name__ == "__main__":
    main()

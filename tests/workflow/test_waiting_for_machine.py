"""A call whose runs wait for those of another call says so at once on its screen, and is not billed for the wait."""

import csv
import json
import time
from datetime import datetime

from hanging import HANG_S
from howmanygpus.files import find_files
from project import Project, study

UNTIL = ("--until", "make_tables")
LEAST_WAIT_S = 6.0


def wait_for(condition) -> None:
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_waiting_for_another_call_is_reported_and_not_billed(prepared, tmp_path):
    first, second = (Project(tmp_path / name) for name in ("first", "second"))
    for project in (first, second):
        project.take_prepared(prepared)
        project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1]))
    first.behave(sleeping="wait_for_file")
    holder = first.start("--until", "train")
    try:
        wait_for(lambda: find_files(first.folder / "results" / "attempts", "**/events.jsonl"))
        waiter = second.start(*UNTIL)
        wait_for(lambda: find_files(second.folder / "results" / "attempts", "**/attempt.json"))
        time.sleep(LEAST_WAIT_S)
    finally:
        (first.folder / "go_on").touch()
    printed, _ = waiter.communicate(timeout=HANG_S)
    holder.communicate(timeout=HANG_S)
    assert waiter.returncode == 0, printed
    (said,) = [line for line in printed.splitlines() if "waits for the machine" in line]
    run = "results/runs/small/sleeping/base/arrays_fp32_cpu_gpus1_batch64_repeat1"
    assert said.startswith(f"{run}: ") and str(first.folder) in said and said.endswith(f"for {run}")
    (log,) = (second.folder / "results" / "logs" / "train").rglob("*.log")
    assert said in log.read_text()
    (row,) = csv.DictReader(second.read("results/tables/small/jobs.tsv").splitlines(), delimiter="\t")
    record = json.loads(second.read(row["record"]))
    took = datetime.fromisoformat(record["finished_at"]) - datetime.fromisoformat(record["started_at"])
    # The times of a record are whole seconds.
    assert 0 < 3600 * float(row["hours"]) <= took.total_seconds() - LEAST_WAIT_S + 1

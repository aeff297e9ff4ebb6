"""If a run fails, is interrupted or is killed, all others go on, and a later call does the missing runs."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from hanging import HANG_S
from howmanygpus.files import find_files
from project import ROWS, RUNS, TABLES, Project, study

METRICS = ("images_per_s", "step_s_median", "train_s", "quality_last")


def read_runs(project: Project) -> dict[str, dict]:
    """Return the rows of the runs table by framework and device count."""
    return {f"{row['framework']}{row['num_gpus']}": row for row in project.read_rows()}


@pytest.fixture
def project(project, prepared):
    project.take_prepared(prepared)
    return project


def test_one_crashed_cell_leaves_all_tables(project):
    project.write_config(small=study())
    project.behave(dozing__base__gpus2="crash")
    output = project.snakemake(*RUNS, expect=1)
    assert "the runs that exist: .venv/bin/snakemake available --profile profiles/local --until train" in output
    project.snakemake("available", *TABLES)
    project.snakemake("available", "--until", "merge_answers")
    rows = read_runs(project)
    assert {name: row["status"] for name, row in rows.items()} == {
        **{"sleeping1": "completed", "sleeping2": "completed", "dozing1": "completed", "dozing2": "crashed"}
    }
    assert rows["dozing2"]["reason"] == "RuntimeError: the fake backend was told to crash"
    assert all(rows["dozing2"][metric] == "" and rows["dozing1"][metric] for metric in METRICS)
    assert "1 crashed" in project.read("results/tables/answer.txt")

    project.behave()
    assert project.planned_runs() == ["small/dozing/base/arrays_fp32_cpu_gpus2_batch64_repeat1"]
    project.snakemake(*TABLES)
    assert read_runs(project)["dozing2"]["status"] == "completed"
    assert project.planned(*TABLES) == []


def test_each_failed_attempt_keeps_its_output(project):
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1]))
    project.behave(sleeping="crash")
    project.snakemake(*RUNS, "--retries", "1", expect=1)
    attempts = [path.parent for path in find_files(project.folder / "results" / "attempts", "**/attempt.json")]
    assert len(attempts) == 2
    for attempt in attempts:
        said = (attempt / "output.log").read_text()
        assert "told to crash" in said and f"the attempt is kept in {attempt.relative_to(project.folder)}" in said
    project.behave()
    project.snakemake(*RUNS)
    assert not list((project.folder / "results" / "runs").rglob("output.log")), "it is in results/logs/train/"


def test_a_new_failure_is_in_the_tables_of_available(project):
    """Attempts are inputs of the tables. A new attempt rebuilds them; without one nothing is done."""
    project.write_config(small=study(frameworks=["sleeping"]))
    project.behave(sleeping__base__gpus2="crash")
    project.snakemake(*RUNS, expect=1)
    project.snakemake("available", *ROWS)
    row = read_runs(project)["sleeping2"]
    assert (row["status"], row["reason"]) == ("crashed", "RuntimeError: the fake backend was told to crash")
    assert project.planned("available", *ROWS) == []

    project.behave(sleeping__base__gpus2="kill_launcher")
    project.snakemake(*RUNS, expect=1)
    assert project.planned("available", *ROWS) == [
        "list_jobs small",
        "make_tables small",
    ]
    project.snakemake("available", *ROWS)
    row = read_runs(project)["sleeping2"]
    assert (row["status"], row["reason"].split(",")[0]) == ("killed", "the launcher ended without a word")


def test_a_run_names_the_earlier_step_that_failed_and_the_reason(project):
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1]))
    script = project.folder / "workflow" / "scripts" / "leave_unchecked.py"
    works = script.read_text()
    script.write_text(works.replace("import json\n", "raise SystemExit('told to end')\n", 1))
    project.snakemake(*RUNS, expect=1)
    project.snakemake("available", *TABLES)
    project.snakemake("available", "--until", "merge_answers")
    row = read_runs(project)["sleeping1"]
    assert row["status"] == "blocked"
    words = (
        "the step leave_unchecked, which the run needs, failed: told to end; its log is results/logs/leave_unchecked/"
    )
    assert row["reason"].startswith(words), row["reason"]
    assert "1 blocked" in project.read("results/tables/answer.txt")

    script.write_text(works)
    project.snakemake(*ROWS)
    assert read_runs(project)["sleeping1"]["status"] == "completed"


def test_a_wrong_record_is_refused_by_the_tables_with_the_remedy(project):
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1]))
    project.snakemake(*RUNS)
    record = project.folder / "results" / "runs" / RUN / "run.json"
    record.write_text(record.read_text().replace('"status": "completed"', '"status": "finished"'))
    project.snakemake("available", *ROWS, expect=1)
    message = project.read("results/logs/make_tables/small.log")
    assert message.startswith(f"results/runs/{RUN}/run.json: status: 'finished' is not one of"), message
    assert f"delete results/runs/{RUN}, and" in message
    shutil.rmtree(record.parent)
    project.snakemake(*ROWS)
    assert read_runs(project)["sleeping1"]["status"] == "completed"


def test_expected_outcomes_are_rows_and_stop_nothing(project):
    project.write_config(small=study(precision=["fp32", "tf32"]))
    project.behave(
        sleeping__base__gpus1="out_of_memory", sleeping__base__gpus2="diverge", dozing__base__gpus1="unsupported"
    )
    project.snakemake(*ROWS)
    rows = project.read_rows()
    assert len(rows) == 8, "one row per planned run"
    statuses = {(row["framework"], row["num_gpus"], row["precision"]): row["status"] for row in rows}
    assert statuses["sleeping", "1", "fp32"] == "out_of_memory"
    assert statuses["sleeping", "2", "fp32"] == "diverged"
    assert statuses["dozing", "1", "fp32"] == "unsupported"
    assert statuses["dozing", "2", "fp32"] == "completed"
    assert all(status == "unsupported" for key, status in statuses.items() if key[2] == "tf32")
    assert all(bool(row["images_per_s"]) == (row["status"] == "completed") for row in rows)


def test_chosen_outcomes_are_retried_by_name(project):
    project.write_config(small=study())
    project.behave(sleeping__base__gpus1="out_of_memory", sleeping__base__gpus2="diverge")
    project.snakemake(*ROWS)
    assert project.planned(*ROWS) == []
    script = [sys.executable, "workflow/scripts/retry_runs.py", "--status", "out_of_memory"]
    result = subprocess.run(script, cwd=project.folder, check=True, capture_output=True, text=True)
    assert "1 runs and 0 verdicts set aside" in result.stdout
    assert project.planned_runs() == ["small/sleeping/base/arrays_fp32_cpu_gpus1_batch64_repeat1"]
    assert list((project.folder / "results" / "attempts").rglob("set-aside-*/run.json")), "nothing is deleted"


def wait_for_event(project: Project, run: str) -> None:
    folder = project.folder / "results" / "attempts" / run
    deadline = time.monotonic() + HANG_S
    while not any(path.read_text() for path in folder.glob("*/events.jsonl")):
        assert time.monotonic() < deadline, "the run did not start"
        time.sleep(0.05)


def assert_no_process_is_left(project: Project) -> None:
    deadline = time.monotonic() + HANG_S
    while project.processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert project.processes() == []


RUN = "small/sleeping/base/arrays_fp32_cpu_gpus1_batch64_repeat1"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_workflow_leaves_nothing_half_written_and_goes_on_later(project, signum):
    """Ctrl-C in a terminal and SIGTERM from a scheduler reach Snakemake and all its jobs."""
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1]))
    project.behave(sleeping__base__gpus1="hang")
    workflow = project.start()
    wait_for_event(project, RUN)
    os.killpg(workflow.pid, signum)
    output, _ = workflow.communicate(timeout=HANG_S)
    assert workflow.returncode != 0, output
    name = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}[signum]
    assert f"The call was interrupted by {name}; " in output and "Some steps failed" not in output, output
    assert_no_process_is_left(project)
    assert not (project.folder / "results" / "runs" / RUN / "run.json").exists()
    (attempt,) = (project.folder / "results" / "attempts" / RUN).glob("*/attempt.json")
    assert json.loads(attempt.read_text())["status"] == "interrupted"

    project.behave()
    project.snakemake(*ROWS)
    assert read_runs(project)["sleeping1"]["status"] == "completed"
    assert project.planned(*ROWS) == []


def test_sigterm_to_snakemake_alone_finishes_the_current_run_and_starts_no_other(project):
    project.write_config(small=study(frameworks=["sleeping"], repeats=3))
    project.behave(sleeping="wait_for_file")
    workflow = project.start()
    deadline = time.monotonic() + HANG_S
    while not find_files(project.folder / "results" / "attempts", "**/events.jsonl"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    workflow.terminate()
    time.sleep(1)
    (project.folder / "go_on").touch()
    workflow.communicate(timeout=HANG_S)
    assert_no_process_is_left(project)
    assert len(list((project.folder / "results" / "runs").rglob("run.json"))) == 1
    project.snakemake(*RUNS)
    assert len(list((project.folder / "results" / "runs").rglob("run.json"))) == 6


def test_a_killed_workflow_resumes(project):
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1]))
    project.behave(sleeping__base__gpus1="hang")
    workflow = project.start()
    wait_for_event(project, RUN)
    os.killpg(workflow.pid, signal.SIGKILL)
    workflow.wait(timeout=HANG_S)
    assert_no_process_is_left(project)
    project.behave()
    project.snakemake("--unlock")
    project.snakemake(*ROWS)
    assert read_runs(project)["sleeping1"]["status"] == "completed"
    assert project.planned(*ROWS) == []


def test_a_killed_launcher_is_a_failed_attempt_named_killed(project):
    project.write_config(small=study(frameworks=["sleeping"]))
    project.behave(sleeping__base__gpus2="kill_launcher")
    project.snakemake(*RUNS, expect=1)
    assert_no_process_is_left(project)
    project.snakemake("available", *ROWS)
    assert read_runs(project)["sleeping2"]["status"] == "killed"
    assert read_runs(project)["sleeping1"]["status"] == "completed"


def test_a_workflow_killed_alone_does_not_mix_its_old_run_with_the_new_one(project):
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1]))
    project.behave(sleeping__base__gpus1="wait_for_file")
    workflow = project.start()
    wait_for_event(project, RUN)
    workflow.kill()
    workflow.wait(timeout=HANG_S)
    project.snakemake("--unlock")
    project.behave()
    (project.folder / "go_on").touch()
    project.snakemake(*RUNS)
    record = json.loads(project.read(f"results/runs/{RUN}/run.json"))
    events = project.read(f"results/runs/{RUN}/events.jsonl").splitlines()
    assert record["status"] == "completed"
    assert sum(json.loads(line).get("num_steps", 0) for line in events) == record["steps"]
    assert_no_process_is_left(project)

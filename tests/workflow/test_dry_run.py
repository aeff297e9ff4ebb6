"""A dry run sums up what the call would do, why, and how long it would take, from what Snakemake plans."""

import json
import os
import re
import time

from hanging import HANG_S
from howmanygpus.files import find_files
from project import LISTED, RUNS, study

SMALL = {"frameworks": ["sleeping"], "num_gpus": [1]}
RUN = "small/sleeping/base/arrays_fp32_cpu_gpus1_batch64_repeat1"
BACKEND = "workflow/lib/howmanygpus/measure/frameworks/fake/sleeping.py"


def read_stage(printed: str, stage: str) -> list[str]:
    """Return a stage's columns: jobs, why, expected, based on."""
    row = next(line for line in printed.splitlines() if line.startswith(f"  {stage} "))
    return re.split(r"\s{2,}", row.strip())[1:]


def set_wall_time(project, run: str, wall_time_s: float) -> None:
    path = project.folder / "results" / "runs" / run / "run.json"
    values = json.loads(path.read_text()) | {"wall_time_s": wall_time_s, "init_s": 0.0, "compile_s": 0.0}
    path.write_text(json.dumps(values))


def test_a_dry_run_prints_a_summary_and_with_one_option_more_all_jobs(project):
    project.write_config(small=study(num_gpus=[1, 2]))
    printed = project.snakemake("--dry-run")
    assert len(printed.splitlines()) < 20 and "rule train:" not in printed and "rule draw_figures:" not in printed
    assert read_stage(printed, "runs") == [
        "4",
        "missing",
        "unknown, at most 4 h",
        "time limit, as none like it was done here",
    ]
    assert read_stage(printed, "parity gate")[:3] == ["2", "missing", "unknown"]
    expected = "Expected: unknown before the first runs here; small networks take minutes (time limits: 4 h); device-"
    assert f"{expected}hours: unknown, at most 6\n" in printed
    assert "Add --printshellcmds for all jobs" in printed
    listed = project.snakemake("--dry-run", *LISTED)
    assert listed.count("rule train:") == 4 and read_stage(listed, "runs")[:2] == ["4", "missing"]
    assert not (project.folder / "results" / "runs").exists()


def test_the_option_quiet_is_respected(project):
    project.write_config(small=study(**SMALL))
    printed = project.snakemake("--dry-run", "--quiet", "rules")
    assert "Job stats:" in printed and "rule train:" not in printed and read_stage(printed, "runs")[0] == "1"


def test_runs_that_are_done_again_are_named_with_their_reason(project):
    project.write_config(small=study(**SMALL))
    project.snakemake(*RUNS)
    set_wall_time(project, RUN, 120.0)
    again = "Runs that exist and are done again, because "
    assert "Nothing to be done" in project.snakemake("--dry-run", *RUNS)

    project.write_config(small=study(**SMALL, steps=48, optimizer={"momentum": 0.5}))
    printed = project.snakemake("--dry-run", *RUNS)
    assert f"{again}settings changed (optimizer.momentum: its default -> 0.5, steps: 24 -> 48):\n  {RUN}\n" in printed
    assert read_stage(printed, "runs") == ["1", "again", "4 min", "runs of the same configuration"], "twice the images"

    project.edit(BACKEND, "\nANSWER = 42\n")
    project.write_config(small=study(**SMALL, repeats=2))
    printed = project.snakemake("--dry-run", *RUNS)
    assert f"{again}code changed (measure/frameworks/fake/sleeping.py):\n  {RUN}\n" in printed
    assert read_stage(printed, "runs") == ["2", "1 missing, 1 again", "4 min", "runs of the same configuration"]

    project.edit("envs/fake-cpu.txt", "toml==0.10.2\n")
    project.record_fake_environment()
    printed = project.snakemake("--dry-run", *RUNS)
    assert f"{again}code changed (measure/frameworks/fake/sleeping.py), pins of the environment changed:\n" in printed
    assert f"{again}forced, code changed" in project.snakemake("--dry-run", *RUNS, "--forcerun", "train")


def test_the_steps_before_the_first_run_are_part_of_the_estimate(project):
    """What the gate took is known for the same cells, also if their code has changed; the estimate has its time."""
    project.write_config(small=study(**SMALL))
    project.snakemake(*RUNS)
    (verdict,) = (project.folder / "results" / "parity").glob("*/*.json")
    lengthen(project, verdict, 780.0)
    project.edit(BACKEND, "\nANSWER = 42\n")
    printed = project.snakemake("--dry-run", *RUNS)
    assert read_stage(printed, "parity gate") == ["1", "missing", "13 min", "the same steps"]
    assert "before the first run: 13 min" in printed
    assert re.search(r"device-hours: 0\.22\b", printed), "the gate uses devices too"


def test_without_records_the_gate_counts_by_its_time_limit(project):
    project.write_config(small=study(**SMALL, parity="required"))
    printed = project.snakemake("--dry-run", *RUNS)
    assert read_stage(printed, "parity gate")[2] in ("unknown", "unknown, at most 30 min")
    assert "Expected: unknown" in printed and "(time limits: 1 h 30 min)" in printed
    gate_devices = min(3, len(os.sched_getaffinity(0)))
    hours = 1 + gate_devices / 2
    assert f"device-hours: unknown, at most {hours:g}\n" in printed, "the gate has them for half an hour"


def lengthen(project, path, seconds: float) -> None:
    """Change Snakemake's record of a file, as if it had taken so many seconds to make."""
    name = str(path.relative_to(project.folder))
    for record in (project.folder / ".snakemake" / "metadata").iterdir():
        values = json.loads(record.read_text())
        if name in values["shellcmd"]:
            record.write_text(json.dumps(values | {"starttime": values["endtime"] - seconds}))


def test_a_failed_attempt_is_told_from_a_run_that_was_never_tried(project):
    project.write_config(small=study(**SMALL | {"frameworks": ["sleeping", "dozing"]}))
    project.behave(sleeping="crash")
    project.snakemake(*RUNS, "--retries", "0", expect=1)
    printed = project.snakemake("--dry-run", *RUNS)
    assert read_stage(printed, "runs")[:2] == ["1", "missing after a failed attempt"]
    assert "runs of other frameworks" in printed
    for path in project.folder.glob("results/attempts/**/attempt.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"status": "blocked"}))
    assert read_stage(project.snakemake("--dry-run", *RUNS), "runs")[:2] == ["1", "missing"], "nothing was tried"


def test_a_dry_run_works_while_another_call_has_the_lock(project):
    project.write_config(small=study(**SMALL, repeats=2))
    project.behave(sleeping="wait_for_file")
    other = project.start(*RUNS)
    while not find_files(project.folder / "results" / "attempts", "**/attempt.json"):
        assert other.poll() is None, other.stdout.read()
        time.sleep(0.1)
    printed = project.snakemake("--dry-run")
    (project.folder / "go_on").touch()
    output, _ = other.communicate(timeout=HANG_S)
    assert other.returncode == 0, output
    assert "Another call is at work in this folder" in printed and "cannot be locked" not in printed
    assert read_stage(printed, "runs")[:2] == ["2", "missing"]

"""Programs of users run through the workflow: each way to start, each way to end, and what reruns them."""

import json
import shutil

import pytest

from project import ROOT, ROWS, RUNS, Project

PROGRAM = """
import json, os, sys, time
from report_progress import report

how, seen = sys.argv[1], sys.argv[2]
rank = os.environ.get("RANK", "0")
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK", "MASTER_PORT", "HOWMANYGPUS_REPORT")
noted = {name: os.environ.get(name) for name in names} | {"cores": sorted(os.sched_getaffinity(0))}
noted |= {"words": sys.argv[3:], "pythonpath": os.environ.get("PYTHONPATH")}
os.makedirs(seen, exist_ok=True)
with open(f"{seen}/{rank}.json", "w") as file:
    json.dump(noted, file)
if how == "crash":
    raise ValueError("no such data")
if how == "second_crashes" and rank == "1":
    time.sleep(1)
    sys.exit("the second process has lost its data")
if how == "memory":
    sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9 GiB")
if how == "silent":
    sys.exit()
report(step=0, versions={"toy": "1.0"})
for step in range(1, 13):
    time.sleep(0.02)
    report(step=step, samples=step * 100, epoch=1, loss=float("nan") if how == "diverge" and step == 3 else 1.0)
if how in ("diverge", "second_crashes"):
    time.sleep(100)
if how == "contradict":
    report(step=1)
report(epoch=1, step=12, metric={"accuracy": 0.75})
"""
ENDS = ("fine", "crash", "memory", "silent", "diverge", "contradict")
SCRIPT = """
for step in 1 2 3 4 5 6; do sleep 0.05; printf 'step %s of 6\\r' $step; done
echo "epoch 1 accuracy 0.5"
"""


def study(command: str, start: str, **changes) -> dict:
    program = {"command": command, "start": start, "files": ["train.py", "report_progress.py"]}
    program |= changes.pop("program", {})
    return {"program": program, "num_gpus": [1], "warmup_steps": 2, "quality": {"thresholds": [0.5]}, **changes}


def name(case: str, how: str, num_gpus: int = 1) -> str:
    return f"{case}/{case}/{how}/program_fp32_cpu_gpus{num_gpus}_batch32_repeat1"


@pytest.fixture(scope="module")
def project(tmp_path_factory, environment_python):
    """Return a project whose programs have run; those of the study `ends` end in each way.

    An environment of ours has the mpirun of the study `mpi`.
    """
    project = Project(tmp_path_factory.mktemp("programs") / "project", fakes=())
    shutil.copy2(ROOT / "examples" / "program" / "report_progress.py", project.folder)
    (project.folder / "train.py").write_text(PROGRAM)
    (project.folder / "script.sh").write_text(SCRIPT)
    words = "{num_gpus} {num_nodes} {devices_per_node} {global_batch_size} {precision} {seed} {repeat} {rendezvous}"
    each = f"python3 train.py fine seen/{{start}}{{num_gpus}} {words}"
    starts = {"once": "once", "nodes": "per_node", "devices": "per_device"}
    studies = {
        case: study(each.replace("{start}", case), start, num_gpus=[1, 2], seed=5) for case, start in starts.items()
    }
    endings = {"command": "python3 train.py {how} seen/{how}", "axes": {"how": list(ENDS)}, "start": "per_device"}
    patterns = [r"step (?P<step>\d+) of", r"epoch (?P<epoch>\d+) accuracy (?P<accuracy>\S+)"]
    studies |= {
        "ends": study("", "once", program=endings),
        "second": study("python3 train.py second_crashes seen/second && echo done", "per_device", num_gpus=[2]),
        "left": study("sleep 600 > /dev/null 2>&1 & python3 train.py fine seen/left", "once"),
        "script": study("bash script.sh", "once", program={"report": patterns, "files": ["script.sh"]}),
    }
    mpirun = {"start": "mpirun", "python": str(environment_python("chainer-cpu"))}
    studies["mpi"] = study(each.replace("{start}", "mpi"), "mpirun", num_gpus=[1, 2], seed=5, program=mpirun)
    project.write_config(**studies)
    project.snakemake(*RUNS, expect=1)
    project.snakemake("available", *ROWS)
    return project


def read_run(project, path):
    return json.loads(project.read(f"results/runs/{path}/run.json"))


def read_windows(project, path):
    events = map(json.loads, project.read(f"results/runs/{path}/events.jsonl").splitlines())
    return [event for event in events if event["event"] == "window"]


def read_attempt(project, path):
    (attempt,) = (project.folder / "results" / "attempts" / path).glob("*/attempt.json")
    return json.loads(attempt.read_text())


def read_seen(project, folder):
    return [json.loads(path.read_text()) for path in sorted((project.folder / "seen" / folder).iterdir())]


@pytest.mark.parametrize(("case", "num_processes"), [("once", 1), ("nodes", 1), ("devices", 2), ("mpi", 2)])
def test_a_program_starts_the_stated_number_of_processes_on_separate_cores(project, case, num_processes):
    record, seen = read_run(project, name(case, "base", 2)), read_seen(project, f"{case}2")
    assert (record["status"], record["num_processes"], len(seen)) == ("completed", num_processes, num_processes)
    cores = [core for process in seen for core in process["cores"]]
    assert len(cores) == len(set(cores)) == 2, "every device has a core of its own"
    ranks = [None] if case == "once" else [str(rank) for rank in range(num_processes)]
    assert [process["RANK"] for process in seen] == ranks
    assert [bool(process["HOWMANYGPUS_REPORT"]) for process in seen] == [True] + [False] * (num_processes - 1)
    *words, rendezvous = seen[0]["words"]
    assert words == ["2", "1", "2", "64", "fp32", "5", "1"]
    assert {process["words"][-1] for process in seen} == {rendezvous} and rendezvous.endswith(seen[0]["MASTER_PORT"])
    assert seen[0]["pythonpath"] is None, "the workflow's own code is not in the program's way"


def test_clocks_and_quality_come_from_the_reports_of_the_program(project):
    record = read_run(project, name("ends", "how_fine"))
    assert (record["steps"], record["images_seen"], record["measured_steps"]) == (12, 1200, 10)
    assert record["init_s"] > 0 and record["versions"] == {"toy": "1.0"}
    assert set(record["code"]) == {"train.py", "report_progress.py"} and "manifest_sha256" not in record
    row = next(row for row in project.read_rows() if row["run_dir"].endswith(name("ends", "how_fine")))
    assert float(row["images_per_s"]) == pytest.approx(1000 / record["measured_s"], rel=1e-4)
    assert (row["quality_last"], row["data_wait_frac"], row["python_version"]) == ("0.75", "", "")
    assert "own_data" in row["dataset"] and row["step_s_median"] and row["framework"] == "ends"
    telemetry = project.read(f"results/runs/{name('ends', 'how_fine')}/telemetry.csv")
    assert telemetry.startswith("time_s,node,device")


def test_expected_ends_are_outcomes_and_the_others_attempts(project):
    memory, diverged = (read_run(project, name("ends", f"how_{how}")) for how in ("memory", "diverge"))
    assert memory["status"] == "out_of_memory" and "CUDA out of memory" in memory["reason"]
    assert (diverged["status"], diverged["reason"]) == ("diverged", "training loss is nan at step 3")
    assert diverged["wall_time_s"] < 60, "the program was stopped"
    for how, words in {
        "crash": "the program ended with exit status 1: ValueError: no such data",
        "silent": "the program ended well and wrote no report to the file that $HOWMANYGPUS_REPORT names",
        "contradict": "step 1 was reported after step 12",
    }.items():
        attempt = read_attempt(project, name("ends", f"how_{how}"))
        assert attempt["status"] == "crashed" and words in attempt["reason"], how
    statuses = {row["variant"]: row["status"] for row in project.read_rows() if row["study"] == "ends"}
    assert statuses["how_crash"] == "crashed" and len(statuses) == len(ENDS), "each run has its row"


def test_a_run_of_which_one_process_fails_has_not_completed_and_leaves_no_process(project):
    attempt = read_attempt(project, name("second", "base", 2))
    assert "the second process has lost its data" in attempt["reason"]
    assert not [process for process in project.processes() if "train.py" in process.cmdline()]


def test_processes_left_by_a_program_are_stopped_when_its_run_ends(project):
    assert read_run(project, name("left", "base"))["status"] == "completed"
    assert not [process for process in project.processes() if "sleep" in process.cmdline()]


def test_a_program_that_only_prints_is_read_by_regular_expressions(project):
    record = read_run(project, name("script", "base"))
    assert (record["steps"], record["init_s"], record["images_seen"]) == (6, None, 6 * 32)
    windows = read_windows(project, name("script", "base"))
    assert sum(window["elapsed_s"] for window in windows) >= 6 * 0.05, "a line may be read late, but never early"
    row = next(row for row in project.read_rows() if row["study"] == "script")
    assert float(row["images_per_s"]) == pytest.approx(4 * 32 / record["measured_s"], rel=1e-4)
    assert row["quality_last"] == "0.5"


def test_a_changed_file_reruns_the_runs_of_its_programs_alone(project):
    text = project.read("script.sh")
    (project.folder / "script.sh").write_text(text)
    assert name("script", "base") not in project.planned_runs("script", *ROWS), "another time changes nothing"
    (project.folder / "script.sh").write_text(text + "# changed\n")
    assert project.planned_runs("script", "once", *ROWS) == [name("script", "base")]
    (project.folder / "script.sh").write_text(text)

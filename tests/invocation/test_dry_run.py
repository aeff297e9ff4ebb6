"""A dry run expects jobs to take as long as those like them took, and names what differs in settings."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.messages import says
from howmanygpus.files import sha256_of_file
from howmanygpus.invocation.dry_run.reasons import RerunReasons, compare_settings
from howmanygpus.invocation.dry_run.summary import (
    count,
    describe_duration,
    describe_gate,
    describe_unsupported,
    format_h,
    format_s,
)
from howmanygpus.invocation.submitted_jobs import note_seconds, read_seconds, write_note
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.durations import (
    BY_LIMIT,
    BY_OTHERS,
    UNKNOWN,
    Duration,
    ExpectedDuration,
    RecordedJobs,
    RecordedRuns,
    StageEstimate,
)
from howmanygpus.study.plan import Plan
from project import ROOT, study

CPU = Machine("machine.yaml", {"cpu": Device(devices_per_node=8, cores_per_device=1)})
FRAMEWORKS = ["pytorch_ddp", "jax_sharding"]


@pytest.fixture
def plan():
    values = {"frameworks": FRAMEWORKS, "per_device_batch_size": [32, 64], "repeats": 2, "time_limit_min": 60}
    return Plan({"studies": {"s": study(**values), "deep": study(**values, model="resnet44")}}, CPU)


def find(plan, framework="pytorch_ddp", num_gpus=1, size=64, repeat=1, name="s"):
    path = f"{name}/{framework}/base/arrays_fp32_cpu_gpus{num_gpus}_batch{size}_repeat{repeat}"
    return plan.runs[path]


def record(folder, plan, run, **values):
    """Record a run that took 110 s, of which 10 s until the second step, with the images that it uses."""
    study_of_run = plan.studies[run.study]
    times = {"wall_time_s": 110.0, "init_s": 7.0, "compile_s": 3.0, "images_seen": study_of_run.num_images(run)}
    spec = {"weights_file": study_of_run.weights_file(run)}
    (folder / run.path).mkdir(parents=True)
    (folder / run.path / "run.json").write_text(json.dumps({"spec": spec} | times | values))


def test_without_any_like_it_a_run_is_expected_to_take_its_time_limit(plan, tmp_path):
    assert RecordedRuns(plan, tmp_path).expect(find(plan)) == ExpectedDuration(3600, BY_LIMIT, is_limit=True)
    record(tmp_path, plan, find(plan, name="deep"))
    assert RecordedRuns(plan, tmp_path).expect(find(plan)).is_limit, "another model says nothing"


@pytest.mark.parametrize(
    ("values", "seconds", "basis"),
    [
        ({"repeat": 2}, 110, "runs of the same configuration"),
        # 24 steps of half as many images
        ({"size": 32}, 10 + 50, "runs of the same framework and device count"),
        # 24 steps of twice as many images on twice as many devices
        ({"num_gpus": 2}, 10 + 100, "runs of the same framework"),
        ({"framework": "jax_sharding", "size": 32, "num_gpus": 2}, 10 + 50, "runs of other frameworks"),
    ],
)
def test_the_estimate_of_a_run_follows_the_closest_runs(plan, tmp_path, values, seconds, basis):
    record(tmp_path, plan, find(plan))
    assert RecordedRuns(plan, tmp_path).expect(find(plan, **values)) == (pytest.approx(seconds), basis, False)


def test_closer_runs_count_alone_and_equally_close_ones_by_their_mean(plan, tmp_path):
    record(tmp_path, plan, find(plan, size=32), wall_time_s=1000.0)
    record(tmp_path, plan, find(plan))
    record(tmp_path, plan, find(plan, repeat=2), wall_time_s=130.0)
    assert RecordedRuns(plan, tmp_path).expect(find(plan)).seconds == pytest.approx(120)


def test_a_run_that_was_set_aside_is_expected_to_take_as_long_again(plan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run, other = find(plan), find(plan, framework="jax_sharding")
    record(tmp_path / "results" / "runs", plan, run, status="diverged", reason="")
    script = ROOT / "workflow" / "scripts" / "retry_runs.py"
    subprocess.run([sys.executable, str(script), "--status", "diverged"], check=True)
    assert not Path("results/runs", run.path).exists()
    expected = ExpectedDuration(pytest.approx(110), "runs of the same configuration", False)
    assert RecordedRuns(plan).expect(run) == expected and RecordedRuns(plan).expect(other).basis == BY_OTHERS
    record(tmp_path / "results" / "runs", plan, run, wall_time_s=120.0)
    assert RecordedRuns(plan).expect(run).seconds == pytest.approx(120), "the run itself counts, if it exists again"


def test_no_run_is_expected_to_take_longer_than_its_time_limit(plan, tmp_path):
    record(tmp_path, plan, find(plan), wall_time_s=9999.0)
    assert RecordedRuns(plan, tmp_path).expect(find(plan)).seconds == 3600


def test_runs_without_times_say_nothing(plan, tmp_path):
    record(tmp_path, plan, find(plan), wall_time_s=None)
    assert RecordedRuns(plan, tmp_path).expect(find(plan)).is_limit


TASK = "results/parity/small_cnn/reference.json"


class Job(SimpleNamespace):
    """A job of Snakemake's, which is a key of dictionaries by itself, like its rule."""

    __hash__ = object.__hash__


class Resources(dict):
    """Resources of a job, which are read as keys and as attributes."""

    __getattr__ = dict.get


def make_job(output: str, params: tuple = ("request", "0123456789abcdef"), inputs: tuple = (TASK,)) -> SimpleNamespace:
    rule = Job(name="observe_parity", resources={"limit_min": None}, snakefile="workflow/rules/parity.smk")
    work = {"resources": Resources(limit_min=30), "threads": 2}
    return Job(rule=rule, output=[output], params=params, input=inputs, **work)


def test_a_call_says_how_long_the_gate_takes_if_it_is_known():
    jobs = [make_job("results/parity/observed/ddp_cpu-11111111.json")]
    dag = SimpleNamespace(jobs=jobs, needrun_jobs=lambda exclude_finished: jobs)
    known = make_records(*jobs, seconds=300.0)
    assert says(describe_gate(dag, known), "parity gate", "1 job", "5 min", "results/logs/observe_parity/*.log")
    reference = make_job(TASK)
    reference.rule.name = "compute_reference"
    both = SimpleNamespace(jobs=jobs, needrun_jobs=lambda exclude_finished: [*jobs, reference])
    where = "It writes what it does to `results/logs/compute_reference/*.log` and then to `results/logs/observe_parity/"
    assert where in describe_gate(both, known)
    assert describe_gate(dag, make_records()).startswith("Before the first run, the parity gate does 1 job (how long")
    jobs[0].rule.name = "leave_unchecked"
    assert describe_gate(dag, known) == "", "a study without the gate"
    jobs.clear()
    assert describe_gate(dag, known) == ""


def make_records(*jobs, seconds: float = 60.0) -> SimpleNamespace:
    """Return Snakemake's records of jobs."""
    known = {
        job.output[0]: SimpleNamespace(
            rule=job.rule.name,
            input=list(job.input),
            params=[repr(value) for value in job.params],
            starttime=1000.0,
            endtime=1000.0 + seconds,
        )
        for job in jobs
    }
    return SimpleNamespace(metadata=lambda output: known.get(str(output)))


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("ddp_cpu-11111111", {}, (60.0, "the same steps", False)),
        ("ddp_cpu-22222222", {"params": ("request", "fedcba9876543210")}, (60.0, "the same steps", False)),
        ("ddp_cpu-22222222", {"params": ("another", "fedcba9876543210")}, (60.0, "similar steps", False)),
        ("jax_cpu-22222222", {}, (60.0, "similar steps", False)),
        ("jax_cpu-22222222", {"inputs": ("results/parity/resnet44/reference.json",)}, (1800.0, BY_LIMIT, True)),
    ],
)
def test_the_estimate_of_the_gate_follows_its_recorded_durations(tmp_path, monkeypatch, name, changes, expected):
    """Another version of the code changes the file's name. Other networks take another time."""
    monkeypatch.chdir(tmp_path)
    done = make_job("results/parity/observed/ddp_cpu-11111111.json")
    (tmp_path / "results/parity/observed").mkdir(parents=True)
    (tmp_path / done.output[0]).touch()
    job = make_job(f"results/parity/observed/{name}.json", **changes)
    assert RecordedJobs([job], make_records(done), read_seconds).expect(job) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(90.0, (90.0, "the same steps", False)), (None, (1800.0, BY_LIMIT, True))],
    ids=["told by SLURM", "not told"],
)
def test_a_job_of_a_cluster_took_the_time_that_slurm_told(tmp_path, monkeypatch, seconds, expected):
    """Snakemake records its end as its start, and at the second time the start of the job before."""
    monkeypatch.chdir(tmp_path)
    job = make_job("results/parity/observed/ddp_cpu-11111111.json")
    other = make_job("results/parity/observed/jax_cpu-11111111.json", params=("another",))
    for each, minutes in ((job, 0.0), (other, 9999.0)):
        write_note(each, "7", tmp_path / "7.log")
        note_seconds(each, seconds)
        known = make_records(each, seconds=60 * minutes)
        assert RecordedJobs([each], known, read_seconds).expect(each) == expected


def test_steps_without_a_time_limit_can_be_unknown():
    job = make_job("results/environments/a-11111111.json")
    job.rule.resources = {}
    assert RecordedJobs([job], make_records(), read_seconds).expect(job) == ExpectedDuration(None, UNKNOWN)


def test_measured_jobs_go_one_after_the_other_and_others_beside_each_other():
    measured, others = StageEstimate(is_measured=True), StageEstimate(is_measured=False)
    for seconds in (10.0, 20.0, 30.0):
        measured.add(ExpectedDuration(seconds, "runs"), num_devices=2)
        others.add(ExpectedDuration(seconds, "runs"), num_devices=2)
    assert measured.elapsed(cores=4).seconds == 60 and measured.device_time.seconds == 120
    assert (others.elapsed(cores=2).seconds, others.elapsed(cores=4).seconds) == (30, 30)
    assert others.elapsed(cores=1).seconds == 60 and others.device_time.seconds == 0
    measured.add(ExpectedDuration(100.0, BY_LIMIT, is_limit=True), num_devices=2)
    measured.add(ExpectedDuration(None, UNKNOWN), num_devices=2)
    assert measured.elapsed(cores=1) == Duration(60, 100, is_complete=False)
    assert measured.device_time == Duration(120, 200)


def test_unsupported_runs_are_counted_with_their_reasons(plan):
    assert describe_unsupported(plan) == []
    values = {"frameworks": ["pytorch_dp", "pytorch_ddp"], "num_gpus": [1, 2, 4]}
    limited, whole = study(**values), study(frameworks=["pytorch_dp"], num_gpus=[2])
    reason = "pytorch_dp uses 1 cpu device at most"
    assert describe_unsupported(Plan({"studies": {"s": limited, "none": whole}}, CPU)) == [
        *("", "Unsupported: 3 of 7 planned runs", f"  3 x {reason}", "  no run is left of none")
    ]
    title = "Unsupported: 1 of 1 planned runs; no run is left"
    assert describe_unsupported(Plan({"studies": {"none": whole}}, CPU)) == ["", title, f"  1 x {reason}"]


def test_durations_in_words():
    words = [format_s(seconds) for seconds in (0, 89, 90, 3600, 7200, 7800)]
    assert words == ["0 s", "89 s", "2 min", "60 min", "2 h", "2 h 10 min"]
    assert [format_h(3600 * hours) for hours in (0, 0.001, 0.22, 1.5, 1234)] == ["0", "< 0.01", "0.22", "1.5", "1234"]
    assert describe_duration(Duration(60, 1800)) == "60 s + an unknown rest of at most 30 min"
    assert describe_duration(Duration(60, 1800, is_complete=False)) == "60 s + an unknown rest"
    assert describe_duration(Duration(0, 1800)) == "unknown, at most 30 min"
    assert describe_duration(Duration(0, 1800, is_complete=False)) == "unknown", "other jobs have no limit"
    assert describe_duration(Duration()) == "0 s"


def test_a_number_stands_before_each_of_several_words():
    assert count(["missing"] * 3) == ["missing"]
    assert count(["again", "missing", "missing"]) == ["2 missing", "1 again"]


def test_settings_are_compared_key_by_key():
    old, new = {"steps": 24, "optimizer": {"name": "sgd"}}, {"steps": 30, "optimizer": {"name": "sgd"}, "tier": "best"}
    assert compare_settings(old, new) == ["steps: 24 -> 30", 'tier: its default -> "best"']


def test_files_of_users_are_named_if_they_changed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("net.py", "train.py"):
        (tmp_path / name).write_text("x = 1\n")
    code = {name: sha256_of_file(tmp_path / name) for name in ("net.py", "train.py")} | {"gone.py": ""}
    (tmp_path / "run.json").write_text(json.dumps({"code": code | {"gone.py": "0"}}))
    (tmp_path / "net.py").write_text("x = 2\n")
    assert RerunReasons(None, None, False)._list_changed_code("run.json") == ["net.py", "gone.py"]

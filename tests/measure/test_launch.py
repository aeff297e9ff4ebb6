"""The launcher gives the processes of a run their variables, and publishes their files."""

import json
import shutil
import signal
import sysconfig
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from hanging import HANG_S
from helpers.messages import says
from helpers.records import make_run
from helpers.specs import make_spec
from howmanygpus.base.version import VERSION
from howmanygpus.config.errors import check_schema
from howmanygpus.config.schema import read_schema
from howmanygpus.measure.around import health
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.launch import launch
from howmanygpus.measure.launch.environment import build_environment
from howmanygpus.measure.launch.launch import RunModule, lock_machine, lock_publishing, publish
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.measure.spec import INDEPENDENT
from howmanygpus.site.jobs.attempts import create_attempt, list_launch_options, read_verdict
from howmanygpus.site.jobs.endings import explain_crash


def test_a_gpu_run_finds_the_cuda_libraries_of_its_own_environment_first(tmp_path, monkeypatch):
    for library in ("cudnn", "cublas"):
        (tmp_path / "nvidia" / library / "lib").mkdir(parents=True)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/the/modules")
    spec = make_spec(device="cuda", device_kind="cuda", num_gpus=1)
    found = build_environment(spec, Placement())["LD_LIBRARY_PATH"]
    assert found == f"{tmp_path}/nvidia/cublas/lib:{tmp_path}/nvidia/cudnn/lib:/the/modules"


def test_cupy_compiles_with_the_headers_of_its_own_environment(tmp_path, monkeypatch):
    """NVRTC cannot read those of another version, which CuPy takes from nvcc or /usr/local/cuda."""
    monkeypatch.setenv("CUDA_PATH", "/usr/local/cuda-12.0")
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    spec, runtime = make_spec(device="cuda", device_kind="cuda"), tmp_path / "nvidia" / "cuda_runtime"
    assert build_environment(spec, Placement())["CUDA_PATH"] == "/usr/local/cuda-12.0"
    (runtime / "include").mkdir(parents=True)
    assert build_environment(spec, Placement())["CUDA_PATH"] == str(runtime)


def test_a_gpu_run_keeps_the_cuda_cache_unless_the_shell_names_one(monkeypatch):
    """TensorFlow's kernels for a new GPU exceed CUDA's default of 1 GiB."""
    for name in ("CUDA_CACHE_PATH", "CUDA_CACHE_MAXSIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOWMANYGPUS_CACHE", "/scratch/cache")
    spec = make_spec(device="cuda", device_kind="cuda", num_gpus=1)
    found = build_environment(spec, Placement())
    assert (found["CUDA_CACHE_PATH"], found["CUDA_CACHE_MAXSIZE"]) == ("/scratch/cache/cuda", str(4 * 2**30))
    monkeypatch.setenv("CUDA_CACHE_PATH", "/the/users")
    assert build_environment(spec, Placement())["CUDA_CACHE_PATH"] == "/the/users"
    monkeypatch.delenv("CUDA_CACHE_PATH")
    assert "CUDA_CACHE_PATH" not in build_environment(make_spec(), Placement())


def test_a_cpu_run_keeps_the_callers_libraries(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/the/modules")
    assert build_environment(make_spec(), Placement())["LD_LIBRARY_PATH"] == "/the/modules"


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun", "horovodrun"])
def test_a_run_forgets_the_number_of_the_process_in_which_the_workflow_runs(monkeypatch, launcher):
    names = {
        "torchrun": ("RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_USE_AGENT_STORE"),
        "mpirun": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
        "horovodrun": ("HOROVOD_RANK", "HOROVOD_LOCAL_RANK"),
    }[launcher]
    for name in (*names, "OMPI_MCA_btl"):
        monkeypatch.setenv(name, "1")
    found = build_environment(make_spec(), Placement())
    assert not set(names) & set(found)
    assert found["OMPI_MCA_btl"] == "1"


def test_an_attempt_waits_while_another_of_its_run_publishes(tmp_path):
    attempts = [AttemptFolder(tmp_path / "attempts" / name) for name in ("older", "newer")]
    for attempt in attempts:
        attempt.path.mkdir(parents=True)
        attempt.events.write_text(f"{attempt.path.name}\n")
    work = RunModule("", lambda spec: {}, lambda spec, attempt: None)
    run_dir, record = tmp_path / "run", make_run(make_spec())
    publishing = threading.Thread(target=publish, args=(make_spec(), attempts[1], run_dir, record, work))
    with lock_publishing(attempts[0]):
        publishing.start()
        publishing.join(timeout=0.5)
        assert publishing.is_alive() and not run_dir.exists()
    publishing.join(timeout=HANG_S)
    assert json.loads((run_dir / "run.json").read_text()) == {"workflow_version": VERSION} | record
    assert (run_dir / "events.jsonl").read_text() == "newer\n" and not attempts[1].path.exists()


def test_calls_of_shells_with_different_folders_for_temporary_files_wait_for_each_other(tmp_path, monkeypatch):
    entered = threading.Event()

    def enter() -> None:
        with lock_machine(Placement(), "a test"):
            entered.set()

    other = threading.Thread(target=enter)
    with lock_machine(Placement(), "a test"):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        other.start()
        assert not entered.wait(0.5)
    assert entered.wait(60)
    other.join()


@pytest.mark.parametrize(
    ("verdict", "parity", "is_refused"),
    [
        ("passed", "required", False),
        ("failed", "required", True),
        ("failed", "report", False),
        ("failed", "off", False),
        ("unsupported", "report", True),
        ("not_checked", "off", False),
    ],
)
def test_a_run_that_the_parity_gate_forbids_is_refused(tmp_path, monkeypatch, verdict, parity, is_refused):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "verdict.json"
    file.write_text(json.dumps({"status": verdict, "reason": "loss: 1, allowed 0.1"}))
    attempt = create_attempt("s/run", make_spec().to_dict(), {})
    assert json.loads(attempt.spec.read_text())["study"] == "s" and attempt.path.parent == Path(
        "results/attempts/s/run"
    )
    words = list_launch_options(attempt, "s/run", 2, None, read_verdict(file, parity, (1, 1)))
    options = dict(zip(words[::2], words[1::2], strict=True))
    assert options["--parity"] == verdict and options["--deadline-s"] == "120"
    assert options.get("--refuse") == (f"loss: 1, allowed 0.1; see {file}" if is_refused else None)


@pytest.mark.parametrize(
    ("layout", "not_compared", "text"),
    [
        ((2, 1), [], "passed"),
        ((8, 1), [], "passed on 3 devices"),
        ((16, 4), [], "passed on 2 devices of 2 nodes"),
        ((1, 1), ["losses (draws)"], "passed; not compared: losses (draws)"),
        ((8, 1), ["a (b)", "c"], "passed on 3 devices; not compared: a (b); c"),
    ],
)
def test_a_run_says_which_part_of_it_the_parity_gate_has_passed(tmp_path, layout, not_compared, text):
    layouts = [(1, 1), (2, 2)] if layout[1] > 1 else [(1, 1), (2, 1), (3, 1)]
    checks = [{"devices": devices, "nodes": nodes} for devices, nodes in layouts]
    file = tmp_path / "verdict.json"
    file.write_text(json.dumps({"status": "passed", "reason": "", "checks": checks, "not_compared": not_compared}))
    assert read_verdict(file, "required", layout) == (text, "")
    check_schema({"parity": text}, {"properties": {"parity": read_schema("run")["$defs"]["parity"]}}, "run.json")


OUTCOME = {"status": "out_of_memory", "reason": "7 GiB", "code": {}}
WORK = RunModule("", lambda spec: {"manifest_sha256": "0" * 64, "weights_sha256": "0" * 64}, lambda spec, attempt: None)


def stop_while_running(tmp_path, monkeypatch, spec, error, *outcomes, said="") -> tuple[int, Path]:
    """Return the exit status and the folder of a run that is stopped by an error when its processes left outcomes.

    error: None if the processes end with status 0. outcomes: paths below the folder of the attempt. said: what the
    processes and srun wrote to stderr.
    """

    def run_processes(spec, placement, attempt, *arguments):
        attempt.said.write_text(said)
        for path in outcomes:
            (attempt.path / path).parent.mkdir(exist_ok=True)
            (attempt.path / path).write_text(json.dumps(OUTCOME))
        attempt.telemetry.touch()
        if error:
            raise error
        return 0

    monkeypatch.setenv("HOWMANYGPUS_LOCK_FOLDER", str(tmp_path))
    monkeypatch.setattr(launch, "run_processes", run_processes)
    monkeypatch.setattr(launch, "ignore_signals", lambda: None)
    attempt = AttemptFolder(tmp_path / "attempts" / "1")
    attempt.path.mkdir(parents=True)
    options = {"refuse": "", "parity": "not_checked", "reference": None, "save_weights": False, "deadline_s": 9.0}
    options |= {"run_dir": tmp_path / "run"}
    return launch.launch(spec, tmp_path / "run", attempt, SimpleNamespace(**options), WORK), tmp_path / "run"


STOPS = [TimeoutError("the time limit"), launch.Interrupted(signal.SIGTERM)]


@pytest.mark.parametrize("error", STOPS, ids=["time limit", "signal"])
def test_a_run_that_is_done_is_kept_if_it_is_stopped_while_it_is_traced(tmp_path, monkeypatch, error):
    status, run_dir = stop_while_running(tmp_path, monkeypatch, make_spec(num_gpus=1), error, "outcome.json")
    assert status == 0 and json.loads((run_dir / "run.json").read_text())["status"] == "out_of_memory"


@pytest.mark.parametrize(
    ("words", "is_kept"),
    [
        ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0. Some of your processes were killed", False),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.",
            False,
        ),
        ("slurmstepd-n1: error: StepId=7.0 exceeded memory limit (810242048 > 62914560), being killed", False),
        ("srun: warning: something else", True),
    ],
)
def test_a_run_in_whose_step_a_process_was_killed_for_its_memory_is_out_of_memory(
    tmp_path, monkeypatch, words, is_kept
):
    """Its other processes may go on, and end with status 0."""
    spec = make_spec(num_gpus=1)
    status, run_dir = stop_while_running(tmp_path, monkeypatch, spec, None, "outcome.json", said=f"{words}\n")
    assert (status == 0) == (run_dir / "run.json").exists() == is_kept
    if not is_kept:
        attempt = AttemptFolder(tmp_path / "attempts" / "1")
        found = explain_crash(attempt, json.loads(attempt.record.read_text()))
        assert (found["status"], found["reason"]) == ("host_out_of_memory", words)


@pytest.mark.parametrize("num_done", [0, 1, 2])
def test_independent_runs_that_are_all_done_are_kept_if_their_end_takes_too_long(tmp_path, monkeypatch, num_done):
    spec = make_spec(num_gpus=2, global_batch_size=16, independent=True, launcher=INDEPENDENT)
    outcomes = [f"device{device}/outcome.json" for device in range(num_done)]
    status, run_dir = stop_while_running(tmp_path, monkeypatch, spec, TimeoutError("the time limit"), *outcomes)
    assert (status == 0) == (run_dir / "run.json").exists() == (num_done > 0), "one without memory ends all"


def test_a_state_of_the_host_that_cannot_be_read_stops_no_run(tmp_path, monkeypatch, capfd):
    def refuse(cores):
        raise PermissionError("/proc/stat")

    monkeypatch.setattr(health, "read_busy_s", refuse)
    spec, error = make_spec(num_gpus=1), TimeoutError("the time limit")
    status, run_dir = stop_while_running(tmp_path, monkeypatch, spec, error, "outcome.json")
    assert status == 0 and "health" not in json.loads((run_dir / "run.json").read_text())
    assert says(capfd.readouterr().err, "health", "/proc/stat")


@pytest.mark.parametrize("has_trace", [True, False])
def test_a_run_has_the_trace_of_its_own_attempt_or_none(tmp_path, has_trace):
    attempt, run_dir = AttemptFolder(tmp_path / "attempts" / "1"), tmp_path / "run"
    for folder, content in ((attempt.trace, "new"), (run_dir / "trace", "old")):
        folder.mkdir(parents=True)
        (folder / f"{content}.gz").write_text(content)
    if not has_trace:
        shutil.rmtree(attempt.trace)
    for file in (attempt.telemetry, attempt.record):
        file.touch()
    publish(make_spec(), attempt, run_dir, make_run(make_spec()), RunModule("", dict, lambda spec, attempt: None))
    assert [path.name for path in run_dir.glob("trace/*")] == (["new.gz"] if has_trace else [])
    assert (run_dir / "run.json").exists() and not attempt.path.exists()

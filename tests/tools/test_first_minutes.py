"""The driver of the first minutes on a GPU keeps its order and its limits, and saves what exists."""

import json
import signal
import subprocess
import sys
import tarfile
import time
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location

import pytest
import yaml

from hanging import HANG_S
from helpers.records import make_run
from helpers.specs import make_spec
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from howmanygpus_tools import references
from project import ROOT

DRIVER = ROOT / "benchmarks" / "gpu" / "first_minutes.py"
HERE = Machine("machine.yaml", {"cpu": Device(8, 1), "cuda": Device(1, 8, "cuda", 1, "9.0")})
SNAKEMAKE = """#!/bin/sh
echo "snakemake $1" >>called
mkdir -p results/runs/$1
echo '{}' >results/runs/$1/run.json
touch results/runs/$1/weights.npz
"""
PYTHON = """#!/bin/sh
case "$*" in
*"--steps site"*)
    echo "site" >>called
    mkdir -p results/check_gpu
    echo "environments: {jax-cpu: {python: ./python}, pytorch-cpu: {python: ./python}}" \
        >results/check_gpu/machine.yaml;;
*howmanygpus_tools.check_gpu*)
    echo "check-gpu" >>called
    echo "$*" >given
    exec sleep 600;;
*summarize.py*) echo "summary" >>called;;
*) exec {python} "$@";;
esac
"""
EXPERT = """#!/bin/sh
while [ "$1" != --steps ]; do shift; done
shift 2
echo "expert $*" >>called
for way in "$@"; do echo "{\\"way\\": \\"$way\\"}"; done
"""


def load(name: str):
    """Return a program of benchmarks/gpu/ as a module."""
    script = spec_from_file_location(name, ROOT / "benchmarks" / "gpu" / f"{name}.py")
    module = module_from_spec(script)
    sys.modules[name] = module
    script.loader.exec_module(module)
    return module


@pytest.fixture
def machine(tmp_path):
    """Return a folder that looks like an installed tree: shell scripts do what its programs would."""
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    (tmp_path / "workflow").symlink_to(ROOT / "workflow")
    scripts = {".venv/bin/snakemake": SNAKEMAKE, ".venv/bin/python": PYTHON, "python": EXPERT}
    for name, text in scripts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.replace("{python}", sys.executable))
        (tmp_path / name).chmod(0o755)
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "commit").write_text("abcdef\n")
    return tmp_path


def start(folder, seconds: float, *options: str) -> subprocess.Popen:
    command = [sys.executable, str(DRIVER), "--seconds", str(seconds), "--save-to", "saved", "--device", "cpu"]
    return subprocess.Popen([*command, *options], cwd=folder, stdout=subprocess.PIPE, text=True)


def test_a_terminated_driver_has_saved_the_most_important_parts(machine):
    driver = start(machine, 545)
    deadline = time.monotonic() + HANG_S
    while not (machine / "given").exists():
        assert driver.poll() is None and time.monotonic() < deadline, driver.stdout.read()
        time.sleep(0.05)
    driver.send_signal(signal.SIGTERM)
    printed, _ = driver.communicate(timeout=HANG_S)
    assert driver.returncode == 1 and "told to end" in printed
    called = (machine / "called").read_text().splitlines()
    loops = ["expert nhwc compile", "expert jax", "expert nchw"]
    assert called == ["site", *loops, "snakemake first_resnet50", *loops, "snakemake first_resnet44"] + [
        *("check-gpu", "summary")
    ]
    saved = machine / "saved"
    ways = [json.loads(line)["way"] for line in (saved / "expert.jsonl").read_text().splitlines()]
    assert ways == ["nhwc", "compile", "jax", "nchw"] * 2
    with tarfile.open(saved / "records.tgz") as tar:
        assert {f"results/runs/first_{model}/run.json" for model in ("resnet50", "resnet44")} <= set(tar.getnames())
        assert not [name for name in tar.getnames() if name.endswith(".npz")]
    assert json.loads((saved / "about.json").read_text())["commit"] == "abcdef"
    assert "$ nproc\n" in (saved / "machine.txt").read_text()
    given = (machine / "given").read_text().split()
    assert 400 < 60 * float(given[given.index("--minutes") + 1]) < 500, "check-gpu gets what is left"


def test_parts_for_which_no_time_is_left_are_named_and_the_rest_is_saved(machine):
    driver = start(machine, 1)
    printed, _ = driver.communicate(timeout=HANG_S)
    assert driver.returncode == 1 and "check-gpu: no time is left" in printed
    assert (machine / "called").read_text() == "summary\n"
    assert {"log.txt", "machine.txt", "records.tgz"} <= {path.name for path in (machine / "saved").iterdir()}


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_the_config_trains_the_network_of_the_expert_loop(monkeypatch, device):
    monkeypatch.chdir(ROOT)
    expert, driver = load("expert"), load("first_minutes")
    monkeypatch.setattr(driver, "read_yaml", lambda path: yaml.safe_load(path.read_text()))
    config = driver.make_config(device)
    plan = Plan(config, HERE)
    assert list(plan.studies) == [f"first_{model}" for model in driver.MODELS]
    for name, study in plan.studies.items():
        task, runs = expert.read_task(config, name), [run for run in study.runs if not run.unsupported]
        tiers = {(run.framework, run.variant) for run in runs}
        assert {("pytorch_ddp", "stock"), ("pytorch_ddp", "best"), ("jax_sharding", "stock")} == tiers
        for run in runs:
            assert (run.precision, run.device, run.num_gpus) == ("bf16", device, 1)
            assert (task.model, task.batch_size) == (study.config["model"], run.per_device_batch_size)
        assert (task.image_shape, task.num_classes) == (study.description.image_shape, study.description.num_classes)


def test_scripts_accept_the_options_of_the_driver(monkeypatch, tmp_path):
    """The real programs read the command lines of an installation and of check-gpu."""
    monkeypatch.chdir(ROOT)
    driver, commands = load("first_minutes"), []
    given = {"seconds": 545, "save_to": tmp_path, "device": "cuda", "wheels": tmp_path, "site": ["python3"]}
    monkeypatch.setattr(driver, "FOLDER", tmp_path)
    monkeypatch.setattr(driver, "SNAKEMAKE", str(tmp_path / "snakemake"))
    monkeypatch.setattr(driver.FirstMinutes, "do", lambda self, name, command, *_, **__: commands.append(command))
    minutes = driver.FirstMinutes(driver.argparse.Namespace(**given))
    minutes.install()
    minutes.check_gpu("site", 60, "--steps", "site")
    install, site = commands
    check_gpu = import_module("howmanygpus_tools.check_gpu.__main__")
    monkeypatch.setattr(sys, "argv", site[2:])
    arguments = check_gpu.read_arguments()
    assert (arguments.steps, arguments.minutes, arguments.wheels) == (["site"], "1.00", tmp_path)
    refused = subprocess.run(install, env={"PYTHONPATH": "workflow/lib"}, capture_output=True, text=True)
    assert "has no wheel of Snakemake" in refused.stderr, "its options were read, and the folder is empty"


def store_saved(folder) -> None:
    """Write what a driver has saved of one run and of the expert's loop that does the same."""
    spec = make_spec(study="first_resnet50", model="resnet50", precision="bf16", tier="best")
    windows = [{"event": "window", "phase": "train", "num_steps": 2, "elapsed_s": 0.5}]
    windows[0] |= {"steps_s": [0.2, 0.3], "data_wait_s": 0.0}
    records = {
        "run.json": json.dumps(make_run(spec, device_model="NVIDIA Test")),
        "events.jsonl": json.dumps(windows[0]),
    }
    run = folder / "results" / "runs" / "first_resnet50" / "run"
    run.mkdir(parents=True)
    for name, text in records.items():
        (run / name).write_text(text)
    with tarfile.open(folder / "records.tgz", "w:gz") as tar:
        tar.add(folder / "results", "results")
    (folder / "about.json").write_text(json.dumps({"commit": "abcdef", "started_at": "2030-01-02T03:04:05+00:00"}))
    size = {"model": "resnet50", "batch_size": spec.per_device_batch_size}
    rows = [size | {"way": "nchw", "error": "OutOfMemoryError: 7 GiB"}]
    rows += [size | {"way": "compile", "images_per_s": rate, "device": "NVIDIA Test"} for rate in (1.0, 40.0)]
    (folder / "expert.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_summary_compares_rates_with_the_expert_loop_in_one_row(monkeypatch, tmp_path):
    summarize = load("summarize")
    store_saved(tmp_path)
    monkeypatch.setattr(sys, "argv", ["summarize.py", str(tmp_path), "--to", str(tmp_path / "docs")])
    summarize.main()
    (path,) = (tmp_path / "docs").iterdir()
    summary = json.loads(path.read_text())
    batch, (run,) = make_spec().per_device_batch_size, summary["runs"]
    assert (summary["card"], summary["date"], summary["commit"]) == (run["device_model"], "2030-01-02", "abcdef")
    assert run["images_per_s"] == 2 * batch / 0.5 and run["step_s_median"] == 0.25
    assert (run["expert_way"], run["over_expert"]) == ("compile", pytest.approx(2 * batch / 0.5 / 40.0))
    monkeypatch.setattr(references, "CARDS", tmp_path / "docs")
    row = references.describe_cards().splitlines()[-1]
    for cell in (summary["card"], "2030-01-02", "`pytorch_ddp`, best", "250.00", f"{run['over_expert']:.3f} (compile)"):
        assert f"| {cell} |" in row
    monkeypatch.setattr(references, "CARDS", tmp_path / "none")
    assert references.describe_cards() == "No card was measured yet.\n"


def test_a_folder_in_which_nothing_was_trained_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="nothing was trained"):
        load("summarize").summarize(tmp_path)

"""What a command starts and does not exist gets a word before anything starts, wherever it stands."""

import errno
import os

import pytest

from helpers.messages import list_texts
from helpers.wrong_models import CPU
from howmanygpus.config.errors import ConfigError
from howmanygpus.study.plan import Plan


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "code").mkdir()
    for name in ("train.py", "code/deep.py", "run.sh"):
        (tmp_path / name).touch()
    (tmp_path / "start").write_text("#!/bin/sh\n")
    (tmp_path / "start").chmod(0o755)
    for name in ("torchrun", "srun", "mpirun", "accelerate", "apptainer"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def find_words(command: str, **program) -> str:
    """Return the errors and warnings of a study with a command."""
    files = {"files": ["train.py", "run.sh", "code"]}
    study = {"program": {"command": command, **files, **program}, "num_gpus": [1]}
    try:
        plan = Plan({"studies": {"p": study}}, CPU)
    except ConfigError as error:
        return str(error)
    return "\n".join(list_texts(plan.find_doubts()))


GONE = [
    ("torhrun train.py", "torhrun"),
    ("CUDA_LAUNCH_BLOCKING=1 torhrun train.py", "torhrun"),
    ("torhrun train.py && echo done", "torhrun"),
    ("torchrun missing.py", "missing.py"),
    ("torchrun --nproc-per-node 2 missing.py --lr 1", "missing.py"),
    ("accelerate launch missing.py", "missing.py"),
    ("srun -n 2 python3 missing.py", "missing.py"),
    ("python3 -u missing.py > log.txt 2>&1", "missing.py"),
    ("bash missing.sh", "missing.sh"),
    ("A=1 ./missing.sh", "./missing.sh"),
]


@pytest.mark.parametrize(("command", "name"), GONE)
def test_jobs_that_can_never_start_are_named(folder, command, name):
    assert name in find_words(command)


@pytest.mark.parametrize("key", [{"environment": "pytorch_ddp"}, {"modules": ["cuda"]}])
def test_a_misspelt_launcher_is_named_where_programs_are_not_known(folder, key):
    assert "torhrun" in find_words("torhrun train.py", **key) and "torchrun?" in find_words("torhrun train.py", **key)
    assert find_words("deepspeed train.py", **key) == "" == find_words("mytool train.py", **key)


@pytest.mark.parametrize(
    "command",
    [
        "python3 train.py",
        "A=1 python3 -u train.py --config other.py > log.txt 2>&1",
        "cd code && python3 deep.py",
        "(cd code && python3 deep.py) && python3 train.py",
        "cd $CODE && python3 deep.py",
        "mkdir new && cd new && python3 train.py",
        "srun -n 2 --gpus-per-task=1 python3 train.py",
        "srun -l python3 train.py",
        "mpirun -np 2 -x PATH python3 train.py",
        "timeout 60 bash run.sh",
        "bash -c 'set -e; python3 train.py && echo \"a; b\"'",
        "torchrun --standalone --nproc-per-node {num_gpus} train.py",
        "./start && echo done",
        "export A=1; ./start",
        "python3 -c 'import missing.py'",
        "python3 -m module missing.py",
        "test -f x.sh || python3 train.py",
        "for i in 1 2; do python3 train.py; done",
        "python3 train.py # bash missing.sh",
        "cat <<< hello; python3 train.py",
        "python3 train.py \\\n  --lr 1",
    ],
)
def test_a_command_that_can_start_gets_no_warning(folder, command):
    assert find_words(command) == ""


def test_true_and_false_are_no_values_of_an_axis(folder):
    for value in (True, False):
        found = find_words("python3 train.py {amp}", axes={"amp": [value]})
        assert f"program.axes.amp[0]: {str(value).lower()}" in found and "quotes" in found


def test_a_metric_in_per_cent_is_the_studys(folder):
    report = [r"step (?P<step>\d+)", r"epoch (?P<epoch>\d+) (?P<accuracy_percent>\S+)"]
    assert find_words("python3 train.py", report=report) == ""


def test_a_file_that_cannot_be_read_is_named(folder, monkeypatch):
    def fail(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    (folder / "secret.py").touch()
    monkeypatch.setattr("howmanygpus.study.program.files.sha256_of_file", fail)
    found = find_words("python3 train.py", files=["secret.py"])
    assert "program.files[0]" in found and "secret.py: Permission denied; make it readable" in found

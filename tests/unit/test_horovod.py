"""The edits that make Horovod's source build: each lands, or says that it did not."""

import fcntl
import json
import shutil
import sys
import threading
from types import SimpleNamespace

import build_horovod
import pytest
from build_horovod import EDITS, EditError, apply_edits, find_nvcc, find_tools, list_switches

from benchplan.code import HOROVOD_SOURCE, HOROVOD_TOOLS, horovod_tools
from project import ROOT


@pytest.fixture
def source(tmp_path):
    """A tree in which every edit finds its place."""
    for edit in EDITS:
        path = tmp_path / edit.path
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text() if path.exists() else ""
        path.write_text(before + f"before {edit.path}\n" + edit.old * edit.times + "\nafter\n")
    return tmp_path


def test_every_edit_lands(source):
    apply_edits(source)
    for edit in EDITS:
        text = (source / edit.path).read_text()
        assert edit.old not in text and edit.new in text and "after" in text


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.path)
def test_an_edit_that_finds_no_place_names_it(source, edit):
    path = source / edit.path
    path.write_text(path.read_text().replace(edit.old, "something else"))
    with pytest.raises(EditError, match=r"has .* 0 times, not 1 \("):
        apply_edits(source)


def test_an_edit_with_too_many_places_is_not_made(source):
    path = source / EDITS[0].path
    path.write_text(path.read_text() + EDITS[0].old)
    with pytest.raises(EditError, match=EDITS[0].path):
        apply_edits(source)


def test_a_wheel_is_for_one_framework():
    switches = list_switches("torch", "cpu")
    assert switches["HOROVOD_WITH_PYTORCH"] == switches["HOROVOD_WITHOUT_TENSORFLOW"] == "1"
    assert "HOROVOD_WITH_TENSORFLOW" not in switches and "HOROVOD_GPU_OPERATIONS" not in switches
    assert list_switches("keras", "cuda")["HOROVOD_GPU_OPERATIONS"] == "NCCL"


def test_a_compiler_is_installed_for_the_cuda_that_has_one(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert horovod_tools("horovod-pytorch-cuda13") == [HOROVOD_TOOLS, "envs/horovod.build-cuda13.txt"]
    assert horovod_tools("horovod-tensorflow-cuda12") == horovod_tools("horovod-pytorch-cpu") == [HOROVOD_TOOLS]


def test_the_installed_compiler_is_taken_before_the_one_of_the_machine(tmp_path, monkeypatch):
    toolkit, machine = tmp_path / "packages/nvidia/cu13", tmp_path / "machine"
    for path in (toolkit / "bin/nvcc", toolkit / "lib/libcudart.so.13", machine / "nvcc"):
        path.parent.mkdir(parents=True)
        path.touch(mode=0o755)
    monkeypatch.setattr(build_horovod, "find_packages", lambda python: str(tmp_path / "packages"))
    monkeypatch.setenv("PATH", str(machine))
    assert find_nvcc(tmp_path) == str(toolkit / "bin")
    assert (toolkit / "lib64" / "libcudart.so").resolve() == toolkit / "lib/libcudart.so.13"
    assert find_tools("one", "two")["PATH"] == f"one:two:{machine}"
    (toolkit / "bin/nvcc").unlink()
    assert find_nvcc(tmp_path) == str(machine)
    (machine / "nvcc").unlink()
    with pytest.raises(SystemExit, match="nvcc is not on PATH: load the module"):
        find_nvcc(tmp_path)


def test_of_two_calls_at_once_one_builds_and_both_have_the_wheel(tmp_path, monkeypatch):
    """The second begins while the first has just cleared the wheel's folder."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("HOWMANYGPUS_CACHE", str(tmp_path))
    base, built, errors, waiting = tmp_path / "base.json", [], [], threading.Event()
    base.write_text(json.dumps({"python": sys.executable, "packages": []}))
    options = ["--base", base, "--family", "torch", "--device", "cpu", "--tools", HOROVOD_TOOLS]
    options += ["--source", HOROVOD_SOURCE, "--record", tmp_path / "record.json"]
    monkeypatch.setattr(sys, "argv", ["build_horovod", *map(str, options)])

    def call() -> None:
        try:
            build_horovod.main()
        except Exception as error:
            errors.append(error)

    second = threading.Thread(target=call)

    def clear(folder, **how) -> None:
        shutil.rmtree(folder, **how)
        second.start()
        assert waiting.wait(30)

    def lock(file, how) -> None:
        if threading.current_thread() is second:
            waiting.set()
        fcntl.flock(file, how)

    def build(folder, *_):
        built.append(folder / "horovod-0.whl")
        built[-1].touch()
        return built[-1]

    monkeypatch.setattr(build_horovod, "shutil", SimpleNamespace(rmtree=clear))
    monkeypatch.setattr(build_horovod, "fcntl", SimpleNamespace(flock=lock, LOCK_EX=fcntl.LOCK_EX))
    monkeypatch.setattr(build_horovod, "build", build)
    call()
    second.join(30)
    assert (errors, len(built)) == ([], 1)
    assert json.loads((tmp_path / "record.json").read_text())["wheel"] == str(built[0])

"""The edits with which Horovod's source can be built are applied, or raise an error if the source does not match."""

import shutil
import sys
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from howmanygpus.files import hold_lock
from howmanygpus.site.environments import horovod
from howmanygpus.site.environments.horovod import build_horovod, find_nvcc, list_switches, make_tool_variables
from howmanygpus.site.environments.horovod_edits import EDITS, EditError, apply_edits
from howmanygpus.site.environments.pins import HOROVOD_SOURCE, HOROVOD_TOOLS, list_horovod_tools
from project import ROOT


@pytest.fixture
def source(tmp_path):
    """Write a source tree that has the text of every edit."""
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


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_cuda_is_used_only_where_it_is_asked_for(device, monkeypatch):
    """A CUDA build of PyTorch beside an nvcc, as pip installs where its index has no build for CPUs."""
    (edit,) = (edit for edit in EDITS if edit.path.endswith("FindPytorch.cmake"))
    for name, value in list_switches("torch", device).items():
        monkeypatch.setenv(name, value)
    torch = SimpleNamespace(version=SimpleNamespace(cuda="13.0"))
    known = {"torch": torch, "CUDA_HOME": "/usr/local/cuda"}
    assert eval(f"((torch.version.cuda is not None) and {edit.old}", known)
    assert eval(f"((torch.version.cuda is not None) and {edit.new}", known) == (device == "cuda")


def test_a_compiler_is_installed_for_the_cuda_that_has_one(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert list_horovod_tools("horovod-pytorch-cuda13") == (HOROVOD_TOOLS, ROOT / "envs" / "horovod.build-cuda13.txt")
    others = ("horovod-tensorflow-cuda12", "horovod-pytorch-cpu")
    assert [list_horovod_tools(name) for name in others] == [(HOROVOD_TOOLS,), (HOROVOD_TOOLS,)]


def test_the_installed_compiler_precedes_the_one_of_the_machine(tmp_path, monkeypatch):
    toolkit, machine = tmp_path / "packages/nvidia/cu13", tmp_path / "machine"
    for path in (toolkit / "bin/nvcc", toolkit / "lib/libcudart.so.13", machine / "nvcc"):
        path.parent.mkdir(parents=True)
        path.touch(mode=0o755)
    monkeypatch.setattr(horovod, "find_packages", lambda python: str(tmp_path / "packages"))
    monkeypatch.setenv("PATH", str(machine))
    assert find_nvcc(tmp_path) == str(toolkit / "bin")
    assert (toolkit / "lib64" / "libcudart.so").resolve() == toolkit / "lib/libcudart.so.13"
    assert make_tool_variables("one", "two")["PATH"] == f"one:two:{machine}"
    (toolkit / "bin/nvcc").unlink()
    assert find_nvcc(tmp_path) == str(machine)
    (machine / "nvcc").unlink()
    with pytest.raises(SystemExit, match="nvcc is not on PATH: load the module"):
        find_nvcc(tmp_path)


def test_of_two_calls_at_once_one_builds_and_both_have_the_wheel(tmp_path, monkeypatch):
    """The second call begins when the first has just cleared the wheel's folder."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("HOWMANYGPUS_CACHE", str(tmp_path))
    base = {"name": "pytorch-cpu", "python": sys.executable, "pins": [], "packages": []}
    built, records, errors, waiting = [], [], [], threading.Event()

    def call() -> None:
        try:
            records.append(build_horovod(base, [HOROVOD_TOOLS], HOROVOD_SOURCE, "torch", "cpu", jobs=1))
        except Exception as error:
            errors.append(error)

    second = threading.Thread(target=call)

    def clear(folder, **how) -> None:
        shutil.rmtree(folder, **how)
        second.start()
        assert waiting.wait(120)

    @contextmanager
    def lock(path):
        if threading.current_thread() is second:
            waiting.set()
        with hold_lock(path):
            yield

    def build(folder, *_):
        built.append(folder / "horovod-0.whl")
        built[-1].touch()
        return built[-1]

    monkeypatch.setattr(horovod, "shutil", SimpleNamespace(rmtree=clear))
    monkeypatch.setattr(horovod, "hold_lock", lock)
    monkeypatch.setattr(horovod, "build", build)
    call()
    second.join(120)
    assert (errors, len(built)) == ([], 1)
    assert [record["wheel"] for record in records] == [str(built[0])] * 2

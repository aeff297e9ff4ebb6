"""What the launcher tells a run's processes."""

import sysconfig

from specs import make_spec
from trainbench.devices import Assignment
from trainbench.launch import build_environment


def test_a_gpu_run_finds_the_cuda_libraries_of_its_own_environment_first(tmp_path, monkeypatch):
    for library in ("cudnn", "cublas"):
        (tmp_path / "nvidia" / library / "lib").mkdir(parents=True)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/the/modules")
    gpu = Assignment(cores=[0], gpu_uuids=["GPU-1"])
    found = build_environment(make_spec(device="cuda", num_gpus=1), gpu)["LD_LIBRARY_PATH"]
    assert found == f"{tmp_path}/nvidia/cublas/lib:{tmp_path}/nvidia/cudnn/lib:/the/modules"


def test_a_cpu_run_keeps_the_callers_libraries(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/the/modules")
    found = build_environment(make_spec(), Assignment(cores=[0], gpu_uuids=[]))
    assert (found["LD_LIBRARY_PATH"], found["CUDA_VISIBLE_DEVICES"]) == ("/the/modules", "")

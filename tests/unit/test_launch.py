"""What the launcher tells a run's processes."""

import sysconfig

from specs import make_spec
from trainbench.launch import build_environment
from trainbench.placement import Placement


def test_a_gpu_run_finds_the_cuda_libraries_of_its_own_environment_first(tmp_path, monkeypatch):
    for library in ("cudnn", "cublas"):
        (tmp_path / "nvidia" / library / "lib").mkdir(parents=True)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/the/modules")
    spec = make_spec(device="cuda", device_kind="cuda", num_gpus=1)
    found = build_environment(spec, Placement())["LD_LIBRARY_PATH"]
    assert found == f"{tmp_path}/nvidia/cublas/lib:{tmp_path}/nvidia/cudnn/lib:/the/modules"


def test_a_cpu_run_keeps_the_callers_libraries(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/the/modules")
    assert build_environment(make_spec(), Placement())["LD_LIBRARY_PATH"] == "/the/modules"

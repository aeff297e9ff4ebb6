"""A folder of wheels can be filled for another machine, and says what it lacks; pins say which Python they need."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from howmanygpus.site.environments import build
from howmanygpus.site.environments.build import find_python
from howmanygpus.site.environments.pins import NEWEST_PYTHONS, read_requirements
from howmanygpus_tools.check_gpu import overlay as site
from howmanygpus_tools.wheelhouse.wheelhouse import (
    WheelhouseError,
    describe_target,
    install_all,
    list_platforms,
    list_wanted,
)
from project import ROOT

AS_VERSION = (
    "import runpy, sys; sys.version_info = {version}; sys.argv = {words}; {before}; "
    "runpy.run_path(sys.argv[0], None, '__main__')"
)


@pytest.fixture
def root(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("HOWMANYGPUS_CACHE", str(tmp_path / "cache"))


def run_as(version: tuple, *words: str, before: str = "pass") -> subprocess.CompletedProcess:
    """Run a script by this Python, which takes itself for another version. before: a statement that it runs first."""
    program = AS_VERSION.format(version=(*version, "final", 0), words=list(words), before=before)
    environment = os.environ | {"PYTHONPATH": "workflow/lib"}
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)


def make_wheel(folder, name: str = "toy_package", version: str = "1.0"):
    """Write a wheel of one module that says its version."""
    folder.mkdir(exist_ok=True)
    path, info = folder / f"{name}-{version}-py3-none-any.whl", f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = '{version}'\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)
    return path


def test_an_offline_install_has_the_pinned_versions(root):
    wanted = set(read_requirements(ROOT / "envs" / "check_gpu.txt"))
    assert wanted and wanted <= set(read_requirements(ROOT / "envs" / "workflow.txt"))


def test_only_packages_of_the_site_are_left_out(root):
    complete, lean = list_wanted([]), list_wanted(["opencv_python_headless", "Pillow"])
    assert {line.split("==")[0] for line in set(complete) - set(lean)} == {"opencv-python-headless", "pillow"}
    with pytest.raises(WheelhouseError, match=r"SITE_HAS: torch is not in envs/measured\.txt; .* There are filelock, "):
        list_wanted(["torch"])
    assert "jsonschema==4.26.0" in list_wanted(["jsonschema"]), "the workflow's own steps need it"


def test_the_wheels_for_another_python_are_those_of_its_pins(root, tmp_path, monkeypatch):
    own, other = ".".join(map(str, sys.version_info[:2])), f"3.{sys.version_info[1] + 1}"
    pins = tmp_path / "pins.txt"
    pins.write_text(f'numpy==2 ; python_version >= "{other}"\nnumpy==1 ; python_version < "{other}"\n')
    for name in ("MEASURED", "WORKFLOW"):
        monkeypatch.setattr(f"howmanygpus_tools.wheelhouse.wheelhouse.{name}", pins)
    assert list_wanted([]) == list_wanted([], own) == ["numpy==1"] and list_wanted([], other) == ["numpy==2"]


def test_a_platform_has_the_wheels_of_every_older_glibc():
    names = list_platforms("manylinux_2_28_x86_64")
    assert names[0] == "manylinux_2_28_x86_64" and names[-1] == "manylinux1_x86_64"
    assert {"manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux2010_x86_64"} < set(names)
    assert describe_target("3.12", "manylinux_2_5_aarch64")[4:] == [
        *("--platform", "manylinux_2_5_aarch64", "--platform", "manylinux1_aarch64")
    ]
    assert describe_target(None, None) == []


@pytest.mark.parametrize("platform", ["linux_x86_64", "manylinux2014_x86_64", "manylinux_2_4_x86_64"])
def test_an_unknown_platform_is_refused_with_an_example(platform):
    with pytest.raises(WheelhouseError, match=f"^FOR_PLATFORM: {platform} is unknown; write .* manylinux_2_28_x86_64"):
        list_platforms(platform)


def test_a_folder_without_snakemake_is_no_wheelhouse(root, tmp_path):
    make_wheel(tmp_path / "wheels")
    with pytest.raises(WheelhouseError, match="has no wheel of Snakemake; `make wheelhouse` fills a folder"):
        install_all(tmp_path / "wheels")


def test_the_environment_has_every_wheel_of_the_folder(root, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    make_wheel(tmp_path / "wheels")
    make_wheel(tmp_path / "wheels", "snakemake", "9")
    record = install_all(tmp_path / "wheels")
    assert record == install_all(tmp_path / "wheels"), "the second call finds it"
    subprocess.run([record["python"], "-c", "import toy_package, snakemake"], check=True)


def test_wheels_for_another_python_are_refused_with_the_remedy(root, tmp_path):
    wheel = make_wheel(tmp_path / "wheels", "snakemake", "9")
    wheel.rename(wheel.with_name("snakemake-9-cp27-cp27m-manylinux1_x86_64.whl"))
    with pytest.raises(WheelhouseError, match=r"cannot be installed with Python 3\.\d+.* make wheelhouse FOR_PYTHON=3"):
        install_all(tmp_path / "wheels")


def test_an_overlay_adds_missing_packages_to_those_of_the_site(root, tmp_path, monkeypatch):
    """The toy package stands for what the measured side needs and the site does not have."""
    needs = tmp_path / "needs.txt"
    needs.write_text("psutil==0.1\ntoy-package==1.0\n")
    monkeypatch.setattr(site, "MEASURED", needs)
    make_wheel(tmp_path / "wheels")
    assert site.list_missing(sys.executable) == ["toy-package==1.0"], "another version of psutil is enough"
    overlay = site.build_overlay(sys.executable, tmp_path / "wheels")
    subprocess.run([overlay, "-c", "import toy_package, psutil"], check=True)
    assert overlay == site.build_overlay(sys.executable, tmp_path / "wheels")
    assert site.list_missing(sys.executable) == ["toy-package==1.0"], "nothing was installed into the site's Python"


def test_an_overlay_has_the_programs_of_the_site_that_start_processes(root, tmp_path, monkeypatch):
    """A ChainerMN that pip installed brings its mpirun, which is in no PATH."""
    monkeypatch.setattr(site, "MEASURED", tmp_path / "needs.txt")
    site.MEASURED.touch()
    python = tmp_path / "site" / "bin" / "python"
    options = ["--symlinks", "--without-pip", "--system-site-packages"]
    subprocess.run([sys.executable, "-m", "venv", *options, python.parents[1]], check=True)
    python.with_name("mpirun").write_text("#!/bin/sh\necho started\n")
    python.with_name("mpirun").chmod(0o755)
    # The base Python may lack it.
    make_wheel(tmp_path / "wheels", "numpy")
    for _ in range(2):
        overlay = Path(site.build_overlay(str(python), tmp_path / "wheels"))
        assert subprocess.run([overlay.with_name("mpirun")], capture_output=True, text=True).stdout == "started\n"
    assert not overlay.with_name("horovodrun").exists()


def test_packages_absent_from_every_folder_are_named(root, tmp_path, monkeypatch):
    needs = tmp_path / "needs.txt"
    needs.write_text("toy-package==2.0\n")
    monkeypatch.setattr(site, "MEASURED", needs)
    make_wheel(tmp_path / "wheels")
    with pytest.raises(WheelhouseError, match=r"lacks toy-package==2\.0, .* without naming these in SITE_HAS"):
        site.build_overlay(sys.executable, tmp_path / "wheels")


def test_frameworks_are_found_in_the_first_python_that_has_them(monkeypatch):
    imports = {"jax": "import json as framework; framework.__version__ = '1.5'", "mxnet": "import no_such_module"}
    monkeypatch.setattr(site, "IMPORTS", imports)
    monkeypatch.setattr(site, "COUNTS", {"jax": "0", "mxnet": "1"})
    has_nothing = "/bin/false"
    for pythons in ([sys.executable, has_nothing], [has_nothing, sys.executable]):
        found = site.detect_frameworks(["jax-cpu", "mxnet-cpu"], pythons, on_gpu=False)
        assert [(each.version, each.python) for each in found] == [("1.5", sys.executable), ("", pythons[-1])]
    assert found[1].reason == "ModuleNotFoundError: No module named 'no_such_module'"
    (without_gpu,) = site.detect_frameworks(["jax-cuda13"], [sys.executable], on_gpu=True)
    assert (without_gpu.version, without_gpu.reason) == ("", "AssertionError: it finds no GPU")


def test_every_environment_of_the_registry_can_be_looked_for():
    from howmanygpus_tools.check_gpu.steps import list_environments

    for kind in ("cpu", "cuda"):
        names = {name.rpartition("-")[0] for name in list_environments(kind)}
        assert names == set(site.IMPORTS) == set(site.COUNTS)


def test_an_old_python_is_refused_and_a_new_one_is_warned_about():
    script = "workflow/scripts/check_python.py"
    old, usual, new = (run_as(version, script) for version in ((3, 11, 3), (3, 11, 4), (3, 12, 1)))
    assert old.returncode == 1 and "3.11.4 or later is needed: make PYTHON=python3.11" in old.stderr
    assert (usual.returncode, usual.stdout) == (0, "")
    assert new.returncode == 0 and "mxnet_gluon, chainer_mn need Python 3.11, which the workflow looks" in new.stdout


def test_other_systems_are_refused_and_other_processors_get_a_remark():
    script = "workflow/scripts/check_python.py"
    other = run_as((3, 11, 4), script, before="sys.platform = 'darwin'")
    assert other.returncode == 1 and "runs on darwin" in other.stderr and "needs Linux" in other.stderr
    processor = run_as((3, 11, 4), script, before="import platform; platform.machine = lambda: 'aarch64'")
    assert processor.returncode == 0 and "This machine is aarch64" in processor.stdout
    found = "from pathlib import Path; exists = Path.exists; Path.exists = lambda p: str(p) == '/dev/kfd' or exists(p)"
    gpu = run_as((3, 11, 4), script, before=found)
    assert gpu.returncode == 0 and "AMD GPU" in gpu.stdout and "a device is a CPU core" in gpu.stdout


def test_pins_without_builds_for_a_newer_python_are_refused_where_there_is_no_older_one(tmp_path, monkeypatch):
    for name in ("PATH", "HOME", "UV_PYTHON_INSTALL_DIR", "PYENV_ROOT"):
        monkeypatch.setenv(name, str(tmp_path))
    words = ["workflow/scripts/build_environment.py", "--name", "mxnet-cpu", "--pins", "envs/mxnet-cpu.txt"]
    refused = run_as((3, 12, 1), *words, "--record", str(tmp_path / "record.json"))
    assert refused.returncode == 1
    assert "envs/mxnet-cpu.txt: its pins have builds for Python 3.11 and older, and .venv has 3.12" in refused.stderr


def test_an_older_python_of_the_machine_is_found_for_pins_that_need_it(tmp_path, monkeypatch):
    """This Python takes itself for the next one, and finds itself on the path."""
    own = sys.version_info[:2]
    (tmp_path / "pins.txt").write_text("toy==1\n")
    monkeypatch.setitem(NEWEST_PYTHONS, "toy==1", own)
    monkeypatch.setenv("PATH", f"{sys.base_prefix}/bin:{os.environ['PATH']}")
    assert find_python([tmp_path / "pins.txt"]) == sys.executable
    monkeypatch.setattr(build.sys, "version_info", (own[0], own[1] + 1, 0))
    found = find_python([tmp_path / "pins.txt"])
    told = subprocess.run([found, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True)
    assert told.stdout.strip() == str(tuple(own))


def test_an_overlay_finds_nvidia_ml_py_although_the_old_pynvml_hides_that_of_the_site(root, tmp_path, monkeypatch):
    """Up to version 11.5, the package pynvml has a folder of this name, which Python finds before the module."""
    needs = tmp_path / "needs.txt"
    needs.write_text("nvidia-ml-py==13.0\n")
    monkeypatch.setattr(site, "MEASURED", needs)
    python = tmp_path / "site" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--symlinks", python.parents[1]], check=True)
    packages = Path(site.find_packages(str(python)))
    with zipfile.ZipFile(make_wheel(tmp_path / "old", "nvidia_ml_py", "12.0")) as wheel:
        wheel.extractall(packages)
    (packages / "pynvml").mkdir()
    (packages / "pynvml" / "__init__.py").write_text("class NVMLError(Exception): pass\n")
    new = make_wheel(tmp_path / "wheels", "nvidia_ml_py", "13.0")
    with zipfile.ZipFile(new, "a") as wheel:
        wheel.writestr(
            "pynvml.py", "NVML_FI_DEV_PCIE_COUNT_TX_BYTES = 1\nclass NVMLLibraryMismatchError(Exception): pass\n"
        )
    make_wheel(tmp_path / "wheels", "numpy")
    assert site.list_missing(str(python)) == ["numpy"], "it has some nvidia-ml-py"
    overlay = site.build_overlay(str(python), tmp_path / "wheels")
    subprocess.run([overlay, "-c", "from pynvml import NVMLLibraryMismatchError"], check=True)

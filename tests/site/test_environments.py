"""Every environment that a framework names can be built again with the same packages."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from helpers.messages import says
from howmanygpus.registry import FRAMEWORKS, NO_WHEELS
from howmanygpus.site.environments import build, existing, find
from howmanygpus.site.environments.cache import check_cache
from howmanygpus.site.environments.pins import NEWEST_PYTHONS, is_lock, list_pin_files, read_requirements
from howmanygpus_tools.lock import MORE, PYTHONS, UNHASHED
from howmanygpus_tools.wheelhouse.wheelhouse import normalize, select
from project import ROOT

NAMES = sorted({name for entry in FRAMEWORKS.values() for name in entry.list_environments()})
UNKNOWN = "ERROR:105: Unable to locate a modulefile for cuda/13"
EXACT = re.compile(r"[A-Za-z0-9_.-]+(\[[a-z0-9,-]+\])?==[A-Za-z0-9.+]+( ; .+)?")


def read_pins(name: str) -> dict[str, str]:
    lines = [line for line in read_requirements(ROOT / "envs" / f"{name}.txt") if not line.startswith("-")]
    return dict(line.split("==") for line in select(lines, None))


def test_shared_packages_have_the_same_version_on_both_sides():
    measured, workflow = read_pins("measured"), read_pins("workflow")
    for name in ("simplejpeg", "opencv-python-headless", "pillow", "filelock", "jsonschema", "PyYAML"):
        assert workflow[name] == measured[name]
    assert read_pins("pillow-simd").items() <= (workflow | {"pillow-simd": "12.1.1.post0"}).items()


@pytest.mark.parametrize("name", NAMES)
def test_every_environment_is_pinned_exactly_and_can_run_the_measured_side(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert {ROOT / "envs" / "measured.txt", ROOT / "envs" / "retired.txt"} & {*list_pin_files(name)}
    for path in list_pin_files(name):
        for line in read_requirements(ROOT / path):
            if not is_lock(path) and not line.startswith(("-r ", "--")):
                assert EXACT.fullmatch(line), f"{path}: {line}"


PROCESSORS = [("x86_64", name) for name in [*NAMES, "workflow"]]
PROCESSORS += [("aarch64", name) for name in [*NAMES, "workflow"] if name not in NO_WHEELS["aarch64"]]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(("processor", "name"), PROCESSORS)
def test_the_lock_of_an_environment_has_its_pins_and_hashes_of_all_that_they_need(processor, name, python, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("platform.machine", lambda: processor)
    *pins, lock = [*MORE.get(name, []), *list_pin_files(name)]
    assert is_lock(lock), "make locks"
    locked = [line.split(" --hash=") for line in read_requirements(lock)]
    versions = {normalize(line): line for line in select([requirement for requirement, *_ in locked], python)}
    for path in pins:
        for line in select([line for line in read_requirements(path) if "==" in line], python):
            assert versions[normalize(line)].split("==")[1] == line.split("==")[1], f"{path}: {line}: make locks"
    assert {normalize(requirement) for requirement, *hashes in locked if not hashes} <= {*UNHASHED}
    assert len(versions) > sum(len(read_requirements(path)) for path in pins) / 2 > 2


def test_only_an_environment_is_replaced_by_a_link(tmp_path):
    place, other = tmp_path / ".venv", tmp_path / "other"
    place.mkdir()
    (place / "pyvenv.cfg").touch()
    for name in ("first", "second"):
        existing.link({"python": str(tmp_path / name / "bin" / "python")}, place)
        assert place.readlink() == tmp_path / name
    other.mkdir()
    with pytest.raises(SystemExit, match="other is no virtual environment"):
        existing.link({"python": "/bin/python"}, other)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".venv", "other"]


@pytest.mark.parametrize("has_pip", [True, False])
def test_pip_is_this_pythons_or_where_it_has_none_the_environments(has_pip, monkeypatch):
    monkeypatch.setattr(build, "HAS_PIP", has_pip)
    command = build.call_pip("env/bin/python")
    assert command[0] == (sys.executable if has_pip else "env/bin/python")
    assert ("--python" in command) == has_pip


@pytest.mark.parametrize("without_pip", [False, True])
def test_where_there_is_no_uv_pip_fetches_the_pinned_one(without_pip, wheel, tmp_path, variables, monkeypatch):
    """`.venv` is built by a Python without uv, and perhaps without pip. pip may be configured to install elsewhere."""
    (tmp_path / "pip.conf").write_text(f"[install]\ntarget = {tmp_path}/elsewhere\n")
    variables(PIP_CONFIG_FILE=str(tmp_path / "pip.conf"))
    uv = f"uv=={read_pins('workflow')['uv']}"
    own = wheel.with_name("own.txt")
    own.write_text(wheel.read_text().replace("--no-index", uv))
    monkeypatch.setattr(build, "OWN", build.Uv(tmp_path / "none", sys.executable))
    if without_pip:
        monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    assert build.build_environment("a", [own])["packages"] == ["toy==1", uv]
    with pytest.raises(SystemExit, match=r"has no uv, and .*pins\.txt does not pin it; call `make \.venv/installed`"):
        build.build_environment("b", [wheel])


def test_no_pip_of_the_machines_own_installs_elsewhere():
    machines = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    ask = [machines, "-c", "from howmanygpus.site.environments import build; print(build.HAS_PIP)"]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}/workflow/lib"}
    assert subprocess.run(ask, env=environment, capture_output=True, text=True, check=True).stdout == "False\n"


def test_an_environment_that_is_gone_from_the_cache_is_built_again_with_its_horovod(tmp_path, monkeypatch):
    """The record outlives the cache. The wheel is built again too, from the ingredients that the record names."""
    built = []

    def build(name, pins, horovod=None):
        built.append((name, [str(path) for path in pins], horovod))
        return {"name": name, "python": f"/new/{name}/bin/python", "pins": pins}

    def build_wheel(base, tools, source, family, device, jobs):
        built.append(("horovod", base["name"], family, device))
        return {"wheel": "/new/horovod.whl", "sha256": "new"}

    monkeypatch.setattr(find, "build_environment", build)
    monkeypatch.setattr(find, "build_horovod", build_wheel)
    ingredients = {"base": "pytorch-cpu", "base_pins": ["envs/pytorch-cpu.txt"], "tools": ["t"], "source": "s"}
    ingredients |= {"family": "torch", "device": "cpu"}
    record = {"name": "horovod-pytorch-cpu", "python": str(tmp_path / "gone" / "python"), "pins": ["p.txt"]}
    record |= {"horovod": {"wheel": str(tmp_path / "gone.whl"), "sha256": "old", "ingredients": ingredients}}
    path = tmp_path / "record.json"
    path.write_text(json.dumps(record))
    assert find.resolve_python(path) == "/new/horovod-pytorch-cpu/bin/python"
    wheel = {"wheel": "/new/horovod.whl", "sha256": "new"}
    assert built == [
        ("pytorch-cpu", ["envs/pytorch-cpu.txt"], None),
        ("horovod", "pytorch-cpu", "torch", "cpu"),
        ("horovod-pytorch-cpu", ["p.txt"], wheel),
    ]


def test_an_environment_that_is_not_complete_is_built_to_its_end(tmp_path, monkeypatch):
    """Its Python is there before its packages: another job may be building it, or a build was killed."""
    python, record = tmp_path / "bin" / "python", tmp_path / "record.json"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    record.write_text(json.dumps({"name": "a", "python": str(python), "pins": ["p.txt"]}))
    monkeypatch.setattr(find, "build_environment", lambda *_: {"python": "built"})
    assert find.resolve_python(record) == "built"
    (tmp_path / build.MARKER).write_text("{}")
    assert find.resolve_python(record) == str(python)


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ("module() { :; }\nprintf 'Welcome '", None),
        ("module() { :; }\nexec sh", ["{home}/.bash_profile", "exec zsh"]),
        ("module() { :; }\nexit 0", ["{home}/.bash_profile", "exec zsh"]),
        ("module() { return 1; }", ["module load cuda/13 failed", "environments.fake-cpu"]),
        (f"module() {{ echo 'Load.c(213):{UNKNOWN}' >&2; }}", [UNKNOWN, "environments.fake-cpu", "cuda/13"]),
    ],
)
def test_an_interpreter_behind_modules_proves_that_it_runs(profile, words, tmp_path, variables):
    (tmp_path / ".bash_profile").write_text(f"unset BASH_ENV\n{profile}\n")
    variables(HOME=str(tmp_path))
    given = {"python": sys.executable, "modules": ["cuda/13"]}
    if words is None:
        assert all("==" in each for each in existing.wrap_interpreter("fake-cpu", [], given)["packages"])
        return
    with pytest.raises(SystemExit) as refused:
        existing.wrap_interpreter("fake-cpu", [], given)
    assert says(str(refused.value), *(word.format(home=tmp_path) for word in words))


def test_a_command_that_runs_no_python_is_no_interpreter(variables):
    with pytest.raises(SystemExit) as refused:
        existing.wrap_interpreter("fake-cpu", [], {"python": "/bin/true", "modules": []})
    assert says(str(refused.value), "environments.fake-cpu", "/bin/true")


def test_an_interpreter_with_the_old_pynvml_is_refused(tmp_path, variables):
    """Up to version 11.5, the package pynvml has a folder of this name with NVMLError and without what runs use."""
    (tmp_path / "pynvml").mkdir()
    (tmp_path / "pynvml" / "__init__.py").write_text("class NVMLError(Exception): pass\n")
    given = {"python": f"env PYTHONPATH={tmp_path} {sys.executable}", "modules": []}
    with pytest.raises(SystemExit) as refused:
        existing.wrap_interpreter("fake-cpu", [], given)
    assert says(str(refused.value), "pynvml", "install nvidia-ml-py", "remove the old package pynvml")


def test_what_others_have_installed_is_used_and_only_what_is_missing_is_installed(
    wheel, tmp_path, variables, make_read_only
):
    shared, home = tmp_path / "cache", tmp_path / "home"
    made = build.build_environment("a", [wheel])
    make_read_only(shared)
    variables(HOME=str(home))
    check_cache()
    assert build.build_environment("a", [wheel]) == made
    pins = tmp_path / "more.txt"
    pins.write_text(f"{wheel.read_text()}--prefer-binary\n")
    missing = build.build_environment("a", [pins])
    assert Path(missing["python"]).is_relative_to(home / ".cache" / "howmanygpus" / "environments")
    assert build.build_environment("a", [pins]) == missing


@pytest.fixture
def wheel(tmp_path):
    """A requirements file with one package, which is installed without a network."""
    metadata, path = "toy-1.dist-info", tmp_path / "toy-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("toy.py", "")
        file.writestr(f"{metadata}/METADATA", "Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
        file.writestr(f"{metadata}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{metadata}/RECORD", "")
    pins = tmp_path / "pins.txt"
    pins.write_text(f"--no-index\n{path.as_uri()}\n")
    return pins


@pytest.fixture
def variables(tmp_path, monkeypatch):
    """Return a function that sets variables of the environment, which the builder may change until the test ends."""
    monkeypatch.setenv("HOWMANYGPUS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_USER", "0")

    def change(**values):
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    return change


@pytest.mark.parametrize(
    "names", [["PIP_USER"], build.OTHER_PLACES, ["PIP_QUIET"], ["UV_SYSTEM_PYTHON", "UV_MANAGED_PYTHON"], []]
)
def test_packages_are_installed_into_the_environment_whatever_the_user_has_set(names, wheel, tmp_path, variables):
    """Without names, in pip's configuration."""
    (tmp_path / "pip.conf").write_text("" if names else f"[install]\ntarget = {tmp_path}/elsewhere\n")
    given = {name: str(tmp_path / "elsewhere") if name in build.OTHER_PLACES else "1" for name in names}
    variables(PIP_CONFIG_FILE=str(tmp_path / "pip.conf"), **given)
    record = build.build_environment("a", [wheel])
    assert record["packages"] == ["toy==1"]
    subprocess.run([record["python"], "-c", "import toy"], check=True)


def test_make_installs_where_nothing_is_installed_yet(wheel, tmp_path):
    """With the machine's own Python and pip, and all that make tells pip."""
    clone = tmp_path / "clone"
    shutil.copytree(ROOT / "envs", clone / "envs")
    uv = f"uv=={read_pins('workflow')['uv']}"
    (clone / "envs" / "workflow.txt").write_text(wheel.read_text().replace("--no-index", uv))
    for name in ("Makefile", "workflow"):
        (clone / name).symlink_to(ROOT / name)
    cache, python = tmp_path / "cache", Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    command = ["make", ".venv/installed", f"PYTHON={python}", f"HOWMANYGPUS_CACHE={cache}"]
    made = subprocess.run(command, cwd=clone, env=variables, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    (record,) = (cache / "environments").glob(f"workflow-*/{build.MARKER}")
    assert "toy==1" in json.loads(record.read_text())["packages"]
    subprocess.run([clone / ".venv" / "bin" / "python", "-c", "import toy"], check=True)


def call_build(*options):
    environment = os.environ | {"PYTHONPATH": "workflow/lib"}
    command = [sys.executable, "workflow/scripts/build_environment.py", *options]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_the_name_of_an_environment_is_enough_to_build_it_as_an_image_does(environment_python, tmp_path):
    built = Path(environment_python("pytorch-cpu")).parents[1]
    done = call_build("--name", "pytorch-cpu", "--link", str(tmp_path / "environment"))
    assert done.returncode == 0 and (tmp_path / "environment").resolve() == built, done.stderr


@pytest.mark.parametrize(("name", "why"), [("horovod-pytorch-cpu", "wheel of Horovod"), ("torch", "no environment")])
def test_a_name_that_is_not_enough_is_refused_with_those_that_are(name, why, tmp_path):
    done = call_build("--name", name, "--link", str(tmp_path / "environment"))
    assert done.returncode and says(done.stderr, "--name", name, why, "choose from chainer-cpu")


def test_the_image_has_a_python_that_all_environments_can_have():
    text = (ROOT / "envs" / "Containerfile").read_text()
    version = re.search(r"^ARG BASE=\S*/python:(\d+)\.(\d+)-", text, re.MULTILINE)
    assert tuple(map(int, version.groups())) <= min(NEWEST_PYTHONS.values())
    copied = re.findall(r"^COPY (\S+) \S+$", text, re.MULTILINE)
    (script,) = re.findall(r"(\S+\.py)\b", text)
    assert (ROOT / script).exists() and Path(script).parts[0] in copied and "envs" in copied


SHOW = "import json, os; print(json.dumps(dict(os.environ)))"


def test_an_interpreter_gets_what_modules_set_and_unset_and_nothing_that_a_profile_prints(tmp_path, variables):
    """The first line of a login shell may be a greeting, and values may have lines and quotes."""
    module = 'export LOADED="$2\'s\nlib" ; unset UNLOADED'
    (tmp_path / ".bash_profile").write_text(f"unset BASH_ENV\necho Welcome\nmodule() {{ echo Loading; {module}; }}\n")
    variables(HOME=str(tmp_path), UNLOADED="old", GIVEN="it's")
    wrapper = tmp_path / "python"
    existing.write_wrapper(wrapper, {"python": sys.executable, "modules": ["cuda/13"]})
    found = json.loads(subprocess.run([wrapper, "-c", SHOW], check=True, capture_output=True, text=True).stdout)
    assert (found["LOADED"], found["GIVEN"]) == ("cuda/13's\nlib", "it's")
    assert "UNLOADED" not in found and found["HOWMANYGPUS_KEEP"].split() == ["LOADED"]


@pytest.mark.parametrize("end", ["exec sh", "exit 0"])
def test_a_profile_that_ends_the_login_shell_later_fails_each_start_with_the_remedy(tmp_path, variables, end):
    profile = tmp_path / ".bash_profile"
    profile.write_text("unset BASH_ENV\nmodule() { :; }\n")
    variables(HOME=str(tmp_path))
    record = existing.wrap_interpreter("fake-cpu", [], {"python": sys.executable, "modules": ["cuda/13"]})
    profile.write_text(f"{profile.read_text()}{end}\n")
    started = subprocess.run([record["python"], "-c", "print(1)"], capture_output=True, text=True)
    assert (started.returncode, started.stdout) == (1, "") and says(started.stderr, "~/.bash_profile", "exec zsh")

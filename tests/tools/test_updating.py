"""`make update` moves versions to the newest ones of the index, keeps those that are held, and says what changed."""

import re
import shutil
import sys
import zipfile

import pytest

from helpers.messages import says
from howmanygpus_tools import lock

PINS = """# Both.
-r measured.txt
part==1.0
whole==2.0
fast==1.0
held==1.0  # why
slow==1.0
other==1.0 ; platform_machine == 'none'
"""
NEWER = 'fast==3.0 ; python_version >= "3.12"\nfast==2.0 ; python_version < "3.12"\n'


@pytest.fixture
def envs(tmp_path, monkeypatch):
    """A folder of pins, and an index: a page per package, whose wheels say for which Python they are."""
    folder, index = tmp_path / "envs", tmp_path / "index"
    files = {
        "fast": {"1.0": ">=3.8", "2.0": ">=3.8", "3.0": ">=3.12"},
        "slow": {"1.0": ">=3.8"},
        "held": {"1.0": ">=3.8", "2.0": ">=3.8"},
        "shared": {"1.0": ">=3.8", "1.1": ">=3.8"},
        "other": {"1.0": ">=3.8"},
        "part": {"1.0": ">=3.8", "2.0": ">=3.8"},
        "whole": {"1.0": ">=3.8", "2.0": ">=3.8"},
    }
    for name, versions in files.items():
        (index / name).mkdir(parents=True)
        links = []
        for version, python in versions.items():
            wheel = f"{name}-{version}-py3-none-any.whl"
            write_wheel(index / name / wheel, name, version, python)
            links.append(f'<a href="{wheel}" data-requires-python="{python.replace(">", "&gt;")}">{wheel}</a>')
        (index / name / "index.html").write_text("".join(links))
    folder.mkdir()
    (folder / "measured.txt").write_text("shared==1.0\n")
    (folder / "workflow.txt").write_text(PINS)
    (tmp_path / "requirements.txt").write_text("fast>=1\nslow==0.9\n")
    (tmp_path / "pip.conf").write_text(f"[global]\nindex-url = {index.as_uri()}\n")
    for name in ("PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("HOWMANYGPUS_CACHE", str(tmp_path / "cache"))
    for name, value in {"CLONE": tmp_path, "FOLDER": folder, "LOCKS": folder / "locks"}.items():
        monkeypatch.setattr(lock, name, value)
    monkeypatch.setattr("howmanygpus.site.environments.pins.FOLDER", folder)
    monkeypatch.setattr("howmanygpus.site.environments.pins.LOCKS", folder / "locks")
    monkeypatch.setattr(lock, "MORE", {})
    monkeypatch.setattr(lock, "FRAMEWORKS", {})
    return folder


REQUIRED = {("whole", "2.0"): "part<2"}


def write_wheel(path, name, version, python):
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        metadata = {"Metadata-Version": "2.1", "Name": name, "Version": version, "Requires-Python": python}
        if required := REQUIRED.get((name, version)):
            metadata["Requires-Dist"] = required
        file.writestr(f"{info}/METADATA", "".join(f"{key}: {value}\n" for key, value in metadata.items()))
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


def update(monkeypatch, verdicts):
    monkeypatch.setattr(lock, "check_gate", lambda: [["framework", "gate", "versions"], *verdicts])
    monkeypatch.setattr(lock, "TOOLS", {})
    monkeypatch.setattr(sys, "argv", ["lock", "--update"])
    monkeypatch.setattr(lock, "OTHERS", ("workflow",))
    lock.main()


def test_every_python_gets_its_newest_version_and_a_held_pin_stays(envs, monkeypatch, capsys):
    update(monkeypatch, [["a", "passed", "a 1"]])
    moved = (envs / "workflow.txt").read_text()
    assert moved == PINS.replace("fast==1.0\n", NEWER), "whole 1.0 would fit part 2.0, but is older"
    assert (envs / "measured.txt").read_text() == "shared==1.1\n"
    assert (envs.parent / "requirements.txt").read_text() == "fast>=1\nslow==1.0\n"
    locked = (envs / "locks" / "workflow.txt").read_text()
    assert re.findall(r"(?m)^fast==(\S+) ; (\S+ \S+ \S+)", locked) == [
        ("2.0", "python_full_version < '3.12'"),
        ("3.0", "python_full_version >= '3.12'"),
    ]
    rows = [re.split(r"  +", line) for line in capsys.readouterr().out.splitlines()]
    assert ["fast", "1.0", "2.0, 3.0", "workflow"] in rows
    assert ["shared", "1.0", "1.1", "measured"] in rows
    assert ["a", "passed", "a 1"] in rows
    assert not [row for row in rows if row[:2] == ["held", "1.0"]]


def test_a_framework_that_fails_the_gate_is_a_failure(envs, monkeypatch):
    with pytest.raises(SystemExit) as failed:
        update(monkeypatch, [["a", "passed", "a 1"], ["b", "failed", "b 1"]])
    assert says(str(failed.value), "results/parity/parity.html")


def test_nothing_moves_if_the_index_lacks_a_pin(envs, monkeypatch, capfd):
    shutil.rmtree(envs.parent / "index" / "held")
    with pytest.raises(SystemExit) as failed:
        update(monkeypatch, [])
    assert says(str(failed.value), "envs/workflow.txt") and "held" in capfd.readouterr().err
    assert (envs / "workflow.txt").read_text() == PINS and (envs / "measured.txt").read_text() == "shared==1.0\n"
    assert not (envs / "locks").exists()

"""uv takes packages from where pip is configured to take them, and says so if it finds none there."""

import hashlib
import re
import sys
import zipfile

import pytest

from howmanygpus.site.environments import build
from howmanygpus.site.environments.uv import compile_requirements, install_packages, read_pip_settings, translate

FILE = """
[global]
index-url = https://index.example/simple
timeout = 30
no-index = no
[install]
find-links =
    /first
    ~/second
trusted-host = one.example two.example
[download]
index-url = https://others.example
"""
VARIABLES = {"PIP_EXTRA_INDEX_URL": "https://a.example https://b.example", "PIP_CERT": "/ca.pem", "PIP_TIMEOUT": "60"}


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """Let pip be configured by one file and some variables only."""
    for name in ("PIP_FIND_LINKS", "PIP_DEFAULT_TIMEOUT", "PIP_NO_INDEX", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"):
        monkeypatch.setenv(name, str(tmp_path))
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PIP_QUIET", "2")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("HOWMANYGPUS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "pip.conf").write_text(FILE)
    return tmp_path


def test_uv_gets_what_pip_is_configured_with(configured):
    options, variables = translate(read_pip_settings(sys.executable))
    given = [*zip(options[::2], options[1::2], strict=True)]
    assert ("--default-index", "https://index.example/simple") in given
    assert [value for option, value in given if option == "--index"] == ["https://a.example", "https://b.example"]
    assert [value for option, value in given if option == "--find-links"] == ["/first", f"{configured}/second"]
    hosts = [value for option, value in given if option == "--allow-insecure-host"]
    assert hosts == ["one.example", "two.example"]
    assert variables == {"SSL_CERT_FILE": "/ca.pem", "UV_HTTP_TIMEOUT": "60"}, "variables win over files"


@pytest.mark.parametrize(("value", "is_on"), [("1", True), ("true", True), ("0", False), ("", False)])
def test_uv_asks_no_index_if_pip_is_not_to(value, is_on, configured, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", value)
    assert ("--no-index" in translate(read_pip_settings(sys.executable))[0]) == is_on


def test_a_wrong_index_is_named_with_the_place_where_it_is_set(configured, monkeypatch, capfd):
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    (configured / "pip.conf").write_text("[global]\nindex-url = http://me:secret@127.0.0.1:9/simple\n")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL")
    with pytest.raises(SystemExit) as error:
        install_packages(sys.executable, ["no-such-package==1"])
    assert "no-such-package==1" in str(error.value) and "--default-index http://127.0.0.1:9/simple" in str(error.value)
    assert "pip config list" in str(error.value)
    assert "127.0.0.1:9" in capfd.readouterr().err


def write_wheel(folder, name, tag="py3-none-any"):
    """Write a wheel without any module, and return its SHA-256."""
    path, info = folder / f"{name}-1.0-{tag}.whl", f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        file.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        file.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("is_other", [False, True])
def test_a_file_that_is_not_the_locked_one_is_not_installed(is_other, configured, monkeypatch, capfd):
    for name in VARIABLES:
        monkeypatch.delenv(name)
    (configured / "pip.conf").write_text(f"[global]\nfind-links = {configured}\nindex-url = file://{configured}\n")
    pins, lock = configured / "toy.txt", configured / "locks" / "toy.txt"
    lock.parent.mkdir()
    pins.write_text("toy==1.0\n")
    digest = write_wheel(configured, "toy")
    lock.write_text(f"toy==1.0 \\\n    --hash=sha256:{'0' * 64 if is_other else digest}\n")
    if is_other:
        with pytest.raises(SystemExit, match="toy"):
            build.install(configured / "environment", [pins, lock], sys.executable)
        assert "Hash mismatch" in capfd.readouterr().err
    else:
        build.install(configured / "environment", [pins, lock], sys.executable)
        assert "toy==1.0" in build.list_packages(configured / "environment" / "bin" / "python")


def make_index(folder, tags):
    """Make an index that has the package `toy` for some Pythons, and return the wheels' SHA-256."""
    (folder / "toy").mkdir(parents=True)
    digests = {f"toy-1.0-{tag}-none-any.whl": write_wheel(folder / "toy", "toy", f"{tag}-none-any") for tag in tags}
    links = [f'<a href="{wheel}#sha256={digest}">{wheel}</a>' for wheel, digest in digests.items()]
    (folder / "toy" / "index.html").write_text("".join(links))
    return set(digests.values())


def test_a_lock_has_the_files_for_every_python_though_a_folder_of_this_machine_has_one(configured, monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name)
    digests = make_index(configured / "all", ["cp311", "cp312", "cp313"])
    make_index(configured / "own", ["cp311"])
    addresses = [(configured / name).as_uri() for name in ("all", "own")]
    lines = ["[global]", f"index-url = {addresses[0]}", f"extra-index-url = {addresses[1]}"]
    (configured / "pip.conf").write_text("\n".join(lines))
    pins, lock = configured / "toy.txt", configured / "locks" / "toy.txt"
    lock.parent.mkdir()
    pins.write_text("toy==1.0\n")
    assert compile_requirements([pins], lock, ["--universal", "--python-version", "3.11"])
    assert set(re.findall("--hash=sha256:([0-9a-f]+)", lock.read_text())) == digests

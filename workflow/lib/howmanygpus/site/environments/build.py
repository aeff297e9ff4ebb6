"""
Build a virtual environment in the cache, or find an existing one there.

The name of an environment's folder contains the hash of its pins and of the Python that built it. Equal pins are
therefore installed once, and changed pins get a new folder. Pins in a file *.build.txt are installed first, because the
other pins are built with them. This module uses only the standard library, because `make` starts it before anything is
installed.
"""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from functools import cache
from pathlib import Path

from howmanygpus.files import hold_lock, write_json_atomic
from howmanygpus.site.environments.cache import find_made, resolve_cache
from howmanygpus.site.environments.pins import (
    OLDEST_PYTHON,
    as_options,
    find_requirement,
    hash_requirements,
    read_newest_python,
    split_pins,
)
from howmanygpus.site.environments.uv import OWN, Uv, install_packages

OTHER_PLACES = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT")
LIST = """
import re, sys
del sys.path[0]
from importlib.metadata import distributions
versions = {}
for each in distributions():
    name = each.metadata["Name"]
    if name and name != "pip":
        versions.setdefault(re.sub("[-_.]+", "-", name).lower(), f"{name}=={each.version}")
for name in sorted(versions):
    print(versions[name])
"""
"""Program that prints an interpreter's packages. `pip list` prints nothing if the user's settings make pip quiet."""
TESTS = r"/(site|dist)-packages/.*/tests?/"
"""Regular expression for files of the packages' own tests, which nothing imports."""
MARKER = "complete.json"
"""File in the folder of an environment that is written last."""


def has_pip() -> bool:
    """Whether this Python has the pip that the project pins: that of `.venv`, or a wheel of it on the path.

    The system's own pip may be too old.
    """
    found = importlib.util.find_spec("pip")
    return found is not None and (sys.prefix != sys.base_prefix or ".whl" in (found.origin or ""))


HAS_PIP = has_pip()


def find_python(pins: list[Path]) -> str:
    """Return the Python to install pins with: this one, or an older one of this machine if they have no builds for it.

    Raises SystemExit if the machine has none.
    """
    newest = read_newest_python(pins)
    if newest is None or sys.version_info[:2] <= newest:
        return sys.executable
    last, own = (".".join(map(str, version[:2])) for version in (newest, sys.version_info))
    command = [str(OWN.path), "python", "find", "--no-config", "--no-project", "--no-python-downloads", "--system"]
    found = subprocess.run([*command, f">={OLDEST_PYTHON},<={last}.99"], capture_output=True, text=True)
    if found.returncode:
        sys.exit(
            f"{pins[0]}: its pins have builds for Python {last} and older, and .venv has {own}; leave the framework "
            f"out, or install Python {last} beside it, for example by `{OWN.path} python install {last}`"
        )
    return found.stdout.strip()


@cache
def read_version(python: str) -> str:
    """Return the version and build of a Python."""
    if python == sys.executable:
        return sys.version
    command = [python, "-c", "import sys; print(sys.version)"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def hash_pins(pins: list[Path], python: str) -> str:
    """Return the hash of the pins, of the Python that installs them, and of the machine's architecture."""
    return hash_requirements(pins, f"{read_version(python)} {os.uname().machine}")


def create(folder: Path | str, python: str = sys.executable) -> list[str]:
    """Create a virtual environment of a Python, and return the command that calls pip for it.

    If `.venv` has a pip, the environment gets none of its own: installing pip takes longer than most packages.
    """
    without_pip = ["--without-pip"] if HAS_PIP else []
    subprocess.run([python, "-m", "venv", "--clear", *without_pip, str(folder)], check=True)
    return call_pip(Path(folder) / "bin" / "python")


def call_pip(python: Path | str) -> list[str]:
    """Return the command that calls pip for an interpreter's environment: `.venv`'s pip or the environment's own."""
    clear_pip_locations()
    pip = [sys.executable, "-m", "pip", "--python", str(python)] if HAS_PIP else [str(python), "-m", "pip"]
    return [*pip, "--no-input", "--disable-pip-version-check"]


def clear_pip_locations() -> None:
    """Remove from this process's variables where else pip is to install, and list, packages.

    A user's PIP_TARGET or PIP_PREFIX would leave the environment empty without an error. The setting `user` may also
    stand in pip's configuration, for example that of a site.
    """
    for name in OTHER_PLACES:
        os.environ.pop(name, None)
    os.environ["PIP_USER"] = "0"


def install(folder: Path, pins: list[Path], base: str, more: tuple[str, ...] = ()) -> None:
    """Create an environment with the pins. base: the Python that it is made from.

    `more` are uv's arguments for all pins that are not build requirements.

    Raises SystemExit if that fails.
    """
    subprocess.run([base, "-m", "venv", "--clear", "--without-pip", str(folder)], check=True)
    python, (first, others) = folder / "bin" / "python", split_pins(pins)
    with tempfile.TemporaryDirectory() as scratch:
        uv = OWN if OWN.path.exists() else fetch_uv(find_requirement("uv", pins), Path(scratch))
        if first:
            install_packages(python, as_options(first), uv)
        isolation = ["--no-build-isolation"] if first else []
        install_packages(python, [*isolation, *more, *as_options(others)], uv)
    compile_modules(folder)


def fetch_uv(requirement: str, folder: Path) -> Uv:
    """Have pip put uv into a folder, for `.venv` itself, which is built by a Python without uv."""
    python = sys.executable
    if importlib.util.find_spec("pip") is None:
        # As in Debian, whose pip is a package of its own.
        subprocess.run([python, "-m", "venv", str(folder / "pip")], check=True)
        python = str(folder / "pip" / "bin" / "python")
    clear_pip_locations()
    pip = [python, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", str(folder / "uv"), requirement], check=True)
    return Uv(folder / "uv" / "bin" / "uv", python)


def compile_modules(folder: Path) -> None:
    """Compile an environment's Python files on all cores.

    The packages' own tests, a quarter of the text, are left out. Files that cannot be compiled, such as templates and
    files for other versions of Python, are left as they are.
    """
    command = [str(folder / "bin" / "python"), "-m", "compileall", "-q", "-j", "0", "-x", TESTS, str(folder / "lib")]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def list_packages(python: Path | str) -> list[str]:
    """Return the packages that an interpreter finds, apart from pip, each as `name==version`, sorted by name."""
    listed = subprocess.run([str(python), "-c", LIST], check=True, capture_output=True, text=True)
    # Modules that an interpreter loads may print, too.
    return [line for line in listed.stdout.splitlines() if re.fullmatch(r"\S+==\S+", line)]


def is_complete(python: str) -> bool:
    """Whether the environment of a Python exists and was built to its end. Its Python is there long before the end."""
    return os.access(python, os.X_OK) and (Path(python).parent.parent / MARKER).exists()


def build_environment(name: str, pins: list[Path], horovod: dict | None = None, lock: bool = True) -> dict:
    """Return the environment's record: its Python, the hash of its pins and its packages.

    horovod: the record of the wheel to install with it. lock: wait for other processes that build the same
    environment. Without it, the caller holds the lock.
    """
    places, base = resolve_cache(), find_python(pins)
    digest = hash_pins(pins, base)
    more: tuple[str, ...] = ()
    if horovod:
        digest = hashlib.sha256(f"{digest} {horovod['sha256']}".encode()).hexdigest()
        more = (horovod["wheel"],)
    folder = places / f"{name}-{digest[:12]}"
    python, marker = folder / "bin" / "python", folder / MARKER
    if (made := find_made(marker)).exists():
        return json.loads(made.read_text())
    with hold_lock(f"{folder}.lock") if lock else nullcontext():
        if not marker.exists():
            shutil.rmtree(folder, ignore_errors=True)
            places.mkdir(parents=True, exist_ok=True)
            install(folder, pins, base, more)
            record = {"name": name, "python": str(python), "pins": [str(path) for path in pins], "sha256": digest}
            built = {"horovod": horovod} if horovod else {}
            write_json_atomic(marker, {**record, **built, "packages": list_packages(python)})
    return json.loads(marker.read_text())


def use_fetched(wheels: Path | None) -> None:
    """Make pip install only from the folder of a record of fetched wheels, if there is such a record."""
    if wheels:
        # pip splits the variable at spaces, and an address has none.
        folder = Path(json.loads(wheels.read_text())["wheels"]).absolute().as_uri()
        os.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": folder}

"""
Build a virtual environment in the cache, or find it there, and record where its Python is, or link to it.

The cache is ${HOWMANYGPUS_CACHE:-~/.cache/howmanygpus}; an environment's folder bears the hash of its pins and of
the Python that built it, so that equal pins are installed once and changed ones beside the old. Pins in a file
*.build.txt are installed first, and the others are then built with them. Horovod comes as the wheel built for it.
"""

import argparse
import fcntl
import hashlib
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from trainbench.records import write_json_atomic

HAS_PIP = sys.prefix != sys.base_prefix and importlib.util.find_spec("pip") is not None
"""A pip that we pinned, in `.venv`: a machine's own may be too old to install elsewhere."""


def hash_pins(pins: list[Path]) -> str:
    digest = hashlib.sha256(f"{sys.version} {os.uname().machine}".encode())
    for path in pins:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def create(folder: Path | str, python: str = sys.executable) -> list[str]:
    """A new virtual environment of a Python; returns how to call pip for it.

    There is none in it where `.venv` has one: to install pip takes longer than most packages.
    """
    without_pip = ["--without-pip"] if HAS_PIP else []
    subprocess.run([python, "-m", "venv", "--clear", *without_pip, str(folder)], check=True)
    return call_pip(Path(folder) / "bin" / "python")


def call_pip(python: Path | str) -> list[str]:
    """The words that begin a call of pip for the environment of a Python: the pip of `.venv`, or its own."""
    pip = [sys.executable, "-m", "pip", "--python", str(python)] if HAS_PIP else [str(python), "-m", "pip"]
    return [*pip, "--no-input", "--disable-pip-version-check"]


def install(folder: Path, pins: list[Path], more: tuple[str, ...] = ()) -> None:
    """A new virtual environment with the pins; `more` words for pip, but not for what others are built with."""
    pip = [*create(folder), "install"]
    first, others = split_pins(pins)
    if first:
        subprocess.run([*pip, *as_options(first)], check=True)
    isolation = ["--no-build-isolation"] if first else []
    subprocess.run([*pip, *isolation, *more, *as_options(others)], check=True)


def split_pins(pins: list[Path]) -> tuple[list[Path], list[Path]]:
    """What is needed to build, and what is built."""
    first = [path for path in pins if path.name.endswith(".build.txt")]
    return first, [path for path in pins if path not in first]


def as_options(pins: list[Path]) -> list[str]:
    return [word for path in pins for word in ("--requirement", str(path))]


def list_packages(pip: list[str]) -> list[str]:
    command = [*pip, "list", "--format=freeze", "--exclude=pip"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")[:-1]


def build_environment(name: str, pins: list[Path], horovod: dict | None) -> dict:
    """The environment's record: its Python, the hash of its pins, its packages. horovod: record of a wheel."""
    cache, digest, more = find_cache(), hash_pins(pins), ()
    if horovod:
        digest = hashlib.sha256(f"{digest} {horovod['sha256']}".encode()).hexdigest()
        more = (horovod["wheel"],)
    folder = cache / f"{name}-{digest[:12]}"
    python, marker = folder / "bin" / "python", folder / "complete.json"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / f"{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not marker.exists():
            shutil.rmtree(folder, ignore_errors=True)
            install(folder, pins, more)
            record = {"name": name, "python": str(python), "pins": [str(path) for path in pins], "sha256": digest}
            write_json_atomic(marker, record | {"packages": list_packages(call_pip(python))})
    return json.loads(marker.read_text())


WRAPPER = """#!/bin/bash -l
{load}exec {python} "$@"
"""
"""A login shell, as it knows `module`."""
NEEDED = "import numpy, psutil, pynvml, safetensors"


def take_existing(name: str, pins: list[Path], existing: dict) -> dict:
    """The record of an interpreter that is there: a script in the cache that loads its modules and starts it.

    Raises SystemExit where it does not start, or lacks what the measured side needs.
    """
    digest = hashlib.sha256(json.dumps(existing, sort_keys=True).encode()).hexdigest()
    python = find_cache() / f"{name}-existing-{digest[:12]}" / "python"
    python.parent.mkdir(parents=True, exist_ok=True)
    load = "".join(f"module load {shlex.quote(module)} || exit 1\n" for module in existing["modules"])
    partial = python.with_name(f".python.{os.getpid()}")
    partial.write_text(WRAPPER.format(load=load, python=existing["python"]))
    partial.chmod(0o755)
    os.replace(partial, python)
    if subprocess.run([str(python), "-c", NEEDED]).returncode:
        given = f"{existing['python']} with modules {existing['modules']}"
        sys.exit(f"{given} cannot `{NEEDED}`: install envs/measured.txt there")
    record = {"name": name, "python": str(python), "pins": [str(path) for path in pins], "sha256": digest}
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    return record | {"existing": existing, "packages": list_packages(pip)}


def link(record: dict, path: Path) -> None:
    """Have `path` lead to the environment of a record, in place of a link or an environment that was there.

    Raises SystemExit where something else is.
    """
    if path.is_dir() and not path.is_symlink():
        if not (path / "pyvenv.cfg").exists():
            sys.exit(f"{path} is no virtual environment; move it away, a link to one is to be there")
        shutil.rmtree(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.symlink_to(Path(record["python"]).parent.parent)
    os.replace(partial, path)


def use_fetched(wheels: Path | None) -> None:
    """Have pip look nowhere but in the folder of a record of fetched wheels, if there is one."""
    if wheels:
        os.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": json.loads(wheels.read_text())["wheels"]}


def find_cache() -> Path:
    return Path(os.environ.get("HOWMANYGPUS_CACHE") or Path.home() / ".cache" / "howmanygpus") / "environments"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--pins", type=Path, nargs="+", required=True, help="requirements files")
    parser.add_argument("--existing", type=json.loads, help="JSON: an interpreter to take instead, and its modules")
    parser.add_argument("--wheels", type=Path, nargs="?", help="record of fetched wheels, to install from nothing else")
    parser.add_argument("--horovod", type=Path, nargs="?", help="record of a wheel of Horovod, to install it from")
    result = parser.add_mutually_exclusive_group(required=True)
    result.add_argument("--record", type=Path, help="JSON file to write")
    result.add_argument("--link", type=Path, help="where a link to the environment's folder is to be")
    arguments = parser.parse_args()
    use_fetched(arguments.wheels)
    if arguments.existing:
        record = take_existing(arguments.name, arguments.pins, arguments.existing)
    else:
        horovod = json.loads(arguments.horovod.read_text()) if arguments.horovod else None
        record = build_environment(arguments.name, arguments.pins, horovod)
    if arguments.link:
        link(record, arguments.link)
    else:
        write_json_atomic(arguments.record, record)


if __name__ == "__main__":
    main()

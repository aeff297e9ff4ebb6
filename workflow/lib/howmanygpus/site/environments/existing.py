"""Use existing interpreters instead of built environments, and create the link `.venv`."""

import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from howmanygpus.base.login_shell import ANNOUNCE, REACHED, UNREACHED, explain_unreached
from howmanygpus.files import atomic_path
from howmanygpus.measure.program.ending import MODULE
from howmanygpus.site.environments.build import list_packages
from howmanygpus.site.environments.cache import resolve_cache

WRAPPER = """#!/bin/bash
exec {python} "$@"
"""
WITH_MODULES = """#!/bin/bash
if [[ $1 == --load-modules ]]; then
    before=" $(compgen -e | tr '\\n' ' ')"
    {load}for name in $(compgen -e); do
        [[ $before == *" $name "* ]] || HOWMANYGPUS_KEEP+=" $name"
    done
    export HOWMANYGPUS_KEEP
    {announce}export -p
    exit
fi
loaded=$(bash -l "$0" --load-modules </dev/null) || exit
if [[ $loaded != *{reached}* ]]; then
    echo {unreached} >&2
    exit 1
fi
unset $(compgen -e) 2>/dev/null
eval "${{loaded##*{reached}}}"
exec {python} "$@"
"""
"""
The script calls itself in a login shell, because only a login shell defines `module`, and takes over its variables. A
profile that ends or replaces the login shell is thus seen at each start. Runs keep the variables that the modules set,
see howmanygpus.base.environment. Without modules, there is no login shell, because profiles replace the PATH in
which the user has an interpreter's command.
"""
LOAD = """module load {module} || {{ echo 'module load '{module}' failed' >&2; exit 1; }}
"""
NVML = "from pynvml import NVMLLibraryMismatchError, NVML_FI_DEV_PCIE_COUNT_TX_BYTES"
"""
Names of nvidia-ml-py from 12.560 on. The package pynvml up to version 11.5 brings a module of the same name that has
neither, and Python finds it first.
"""
NEEDED = f"import numpy, psutil, pynvml, safetensors, filelock, jsonschema, yaml, simplejpeg, cv2, PIL; {NVML}"
"""Code that imports what training needs."""
IMPORTED = "howmanygpus: imported"
"""The words that an interpreter prints before its version if it has these modules."""
CONTAINERS = (
    *("apptainer", "singularity", "podman", "podman-hpc", "docker", "enroot", "ch-run", "bwrap", "shifter", "sarus"),
    *("uenv", "srun"),
)
"""Programs that start a command in a container, in which srun is not, and from which it could not come back.

srun does so by plugins (pyxis, uenv), whose options are OF_STEPS.
"""
OF_STEPS = re.compile(r"--(container|uenv|view|no-container)[\w-]*(=.*)?")


def wrap_interpreter(name: str, pins: list[Path], existing: dict) -> dict:
    """Return the record of an existing interpreter: a script in the cache that loads its modules and starts it.

    Raises SystemExit if it does not start, or if it lacks a package that training needs.
    """
    digest = hashlib.sha256(json.dumps(existing, sort_keys=True).encode()).hexdigest()
    python = resolve_cache() / f"{name}-existing-{digest[:12]}" / "python"
    write_wrapper(python, existing)
    given = existing["python"]
    answer = subprocess.run(
        [str(python), "-c", f"{NEEDED}; import platform; print(); print('{IMPORTED}', platform.python_version())"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    lines = [line for line in answer.stderr.splitlines() if line.strip()] or [f"exit status {answer.returncode}"]
    is_unreached = lines[-1] == UNREACHED
    versions = [line.split()[-1] for line in answer.stdout.splitlines() if line.startswith(IMPORTED)]
    if is_unreached or (not answer.returncode and not versions):
        why = explain_unreached() if is_unreached else "it ends with exit status 0 before"
        sys.exit(f"environments.{name} of the machine file: {given} runs no code of Python: {why}")
    if answer.returncode:
        print(answer.stderr, file=sys.stderr)
        remedy = "or install envs/measured.txt there"
        if "pynvml" in lines[-1]:
            remedy = "or install nvidia-ml-py there, and remove the old package pynvml, which hides it"
        sys.exit(
            f"{given} with modules {existing['modules']} cannot `{NEEDED}`: {lines[-1].strip()}; correct "
            f"environments.{name} of the machine file, {remedy}"
        )
    unloaded = [line.strip() for line in lines if MODULE.search(line)]
    if existing["modules"] and unloaded:
        sys.exit(f"{unloaded[0]}; correct `modules` of environments.{name} of the machine file: {existing['modules']}")
    record = {"name": name, "python": str(python), "pins": [str(path) for path in pins], "sha256": digest}
    record |= {"python_version": versions[0]}
    return record | {"existing": existing, "packages": list_packages(python)}


def write_wrapper(path: Path, existing: dict) -> None:
    """Write the script that loads an interpreter's modules and starts it, unless it is there."""
    given = existing["python"]
    start = shlex.quote(given) if Path(given).exists() else given
    load = "".join(LOAD.format(module=shlex.quote(module)) for module in existing["modules"])
    words = {"announce": ANNOUNCE, "reached": shlex.quote(REACHED), "unreached": shlex.quote(UNREACHED)}
    text = (WITH_MODULES if load else WRAPPER).format(load=load, python=start, **words)
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as partial:
        partial.write_text(text)
        partial.chmod(0o755)


def starts_container(given: str) -> bool:
    """Whether the command of an existing interpreter starts a container. given: path or command line."""
    return not Path(given).exists() and any(Path(word).name in CONTAINERS for word in shlex.split(given))


def split_step(given: str) -> tuple[list[str], list[str]] | None:
    """Return the options of srun that start the container, and the command in it; None without srun.

    Options for SLURM itself, such as a partition for the steps that the workflow starts outside of jobs, are left out.
    """
    words = shlex.split(given)
    names = [Path(word).name for word in words]
    if "srun" not in names:
        return None
    rest = words[names.index("srun") + 1 :]
    number = next((place for place, word in enumerate(rest) if not word.startswith("-")), len(rest))
    return [word for word in rest[:number] if OF_STEPS.fullmatch(word)], rest[number:]


def link(record: dict, path: Path) -> None:
    """Link `path` to the environment of a record. A link or an environment at `path` is replaced.

    Raises SystemExit if `path` is anything else.
    """
    if path.is_dir() and not path.is_symlink():
        if not (path / "pyvenv.cfg").exists():
            sys.exit(f"{path} is no virtual environment; move it away, a link to one is to be there")
        shutil.rmtree(path)
    with atomic_path(path) as partial:
        partial.unlink()
        partial.symlink_to(Path(record["python"]).parent.parent)

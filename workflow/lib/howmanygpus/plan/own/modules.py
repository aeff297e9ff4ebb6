"""
Lists the modules that an environment has, also before it is built.

envs/modules.json has the modules of environments on CPUs, each with the hash of its pins; `make references` writes it
for those that are built.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from howmanygpus.environments.build import hash_pins
from howmanygpus.environments.cache import find_cache
from howmanygpus.environments.pins import FOLDER, find_pins, hash_requirements

KNOWN = FOLDER / "modules.json"
USUAL_PATHS = re.compile(r"distutils-precedence\.pth|.*-nspkg\.pth")
"""Files with which setuptools and packages of namespaces change where modules are found, but to no other folder."""


@cache
def find_modules(environment: str) -> frozenset[str] | None:
    """Return the names of the modules besides Python's own, or None if they are not known.

    For a built environment they are read from it, otherwise from the record of an environment with the same pins.
    """
    pins = find_pins(environment)
    if folder := _find_built(environment, pins):
        return None if _finds_elsewhere(folder) else list_installed(folder)
    known = json.loads(KNOWN.read_text()).get(environment) if KNOWN.exists() else None
    return frozenset(known["modules"]) if known and known["pins"] == hash_requirements(pins) else None


def _find_built(environment: str, pins: list[Path]) -> Path | None:
    """Return the folder of an environment if it is built. With Horovod, its name also depends on the wheel."""
    digest = hash_pins(pins)
    for marker in sorted(find_cache().glob(f"{environment}-*/complete.json")):
        wheel = json.loads(marker.read_text()).get("horovod")
        full = hashlib.sha256(f"{digest} {wheel['sha256']}".encode()).hexdigest() if wheel else digest
        if marker.parent.name == f"{environment}-{full[:12]}":
            return marker.parent
    return None


def _finds_elsewhere(folder: Path) -> bool:
    """Whether an environment takes modules from other folders, as after `pip install --editable`."""
    return any(USUAL_PATHS.fullmatch(path.name) is None for path in folder.glob("lib/python3*/site-packages/*.pth"))


def list_installed(folder: Path) -> frozenset[str]:
    """Return the modules and packages in the folder of an environment."""
    names = {path.name.partition(".")[0] for path in folder.glob("lib/python3*/site-packages/*") if _is_module(path)}
    return frozenset(name for name in names if name.isidentifier())


def _is_module(path: Path) -> bool:
    return path.suffix in (".py", ".so") or (path.is_dir() and "." not in path.name and path.name != "__pycache__")


def render_known(environments: Iterable[str]) -> str:
    """Return the new text of KNOWN, in which the modules of built environments replace the older entries."""
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    for name in environments:
        if (modules := find_modules(name)) is not None:
            known[name] = {"pins": hash_requirements(find_pins(name)), "modules": sorted(modules)}
    return json.dumps(known, indent=1, sort_keys=True) + "\n"

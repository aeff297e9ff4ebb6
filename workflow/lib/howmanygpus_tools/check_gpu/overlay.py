"""
Find the frameworks of a site's own Pythons, and add the packages that the measured side needs besides.

Nothing is installed into a site's Python. A separate environment in the cache uses its packages and has only those that
are missing there.
"""

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from howmanygpus.base.environment import build_surroundings
from howmanygpus.site.environments.build import call_pip, create
from howmanygpus.site.environments.cache import resolve_cache
from howmanygpus.site.environments.existing import NVML
from howmanygpus.site.environments.horovod import find_packages
from howmanygpus.site.environments.pins import read_requirements
from howmanygpus_tools.wheelhouse.wheelhouse import MEASURED, WheelhouseError, normalize

IMPORTS = {
    "pytorch": "import torch as framework",
    "tensorflow": "import tensorflow as framework, keras",
    "jax": "import jax as framework, flax, optax",
    "mxnet": "import mxnet as framework",
    "chainer": "import chainer as framework, chainermn",
    "horovod-pytorch": "import horovod.torch, horovod as framework",
    "horovod-tensorflow": "import horovod.tensorflow.keras, horovod as framework",
}
"""Modules that the frameworks of an environment import, by the environment's name without its accelerator stack."""
COUNTS = {
    "pytorch": "framework.cuda.device_count()",
    "tensorflow": "len(framework.config.list_physical_devices('GPU'))",
    "jax": "len(framework.devices('gpu'))",
    "mxnet": "framework.context.num_gpus()",
    "chainer": "__import__('cupy').cuda.runtime.getDeviceCount()",
    "horovod-pytorch": "horovod.torch.nccl_built() and __import__('torch').cuda.device_count()",
    "horovod-tensorflow": "horovod.tensorflow.keras.nccl_built()",
}
"""Expressions for the number of GPUs that each can use."""
SITE_SCRIPT = """
{imports}
number = {count}
assert number, "it finds no GPU"
print(framework.__version__)
"""
PROBE_S = 180.0
"""Maximum time for the import of a framework, in seconds: the first one from a slow file system takes long."""
MORE_REQUIREMENTS = ("numpy", "pip")
"""Packages that the measured side and the record of an environment need in addition to envs/measured.txt."""
STARTERS = ("horovodrun", "mpirun")
"""Programs that start a run's processes, which may be packages of an environment."""
MISSING = r"""
import importlib.metadata, re, sys
has = {re.sub("[-_.]+", "-", found.metadata["Name"] or "").lower() for found in importlib.metadata.distributions()}
print(*(name for name in sys.argv[1:] if name not in has), sep="\n")
"""
FOLDERS = r"""
import sys
print(*(path for path in sys.path if path.endswith(("site-packages", "dist-packages"))), sep="\n")
"""


@dataclass(frozen=True)
class SiteAnswer:
    """A Python's answer about one environment. version: of the framework, or empty; reason: why it has none."""

    environment: str
    python: str
    version: str
    reason: str


def ask_for(environment: str, python: str, on_gpu: bool) -> SiteAnswer:
    """Import the frameworks of an environment (such as pytorch-cuda13) in a Python, and count its GPUs if `on_gpu`."""
    name = environment.rpartition("-")[0]
    program = SITE_SCRIPT.format(imports=IMPORTS[name], count=COUNTS[name] if on_gpu else 1)
    try:
        asked = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=PROBE_S, env=_own())
    except subprocess.TimeoutExpired:
        return SiteAnswer(environment, python, "", f"did not answer within {PROBE_S:.0f} s")
    if asked.returncode:
        said = asked.stderr.strip().splitlines()
        return SiteAnswer(environment, python, "", said[-1] if said else f"exit status {asked.returncode}")
    return SiteAnswer(environment, python, asked.stdout.split()[-1], "")


def detect_frameworks(environments: list[str], pythons: list[str], on_gpu: bool) -> list[SiteAnswer]:
    """Return for each environment the answer of the first Python that has it, else that of the last Python."""
    pairs = [(environment, python) for environment in environments for python in pythons]
    with ThreadPoolExecutor(max_workers=4) as pool:
        answers = list(pool.map(lambda pair: ask_for(pair[0], pair[1], on_gpu), pairs))
    by_environment: dict[str, SiteAnswer] = {}
    for answer in answers:
        known = by_environment.get(answer.environment)
        if known is None or not known.version:
            by_environment[answer.environment] = answer
    return list(by_environment.values())


def _own() -> dict[str, str]:
    """Return environment variables with which a Python sees only its own packages."""
    return {key: value for key, value in build_surroundings(os.environ).items() if key != "PYTHONPATH"}


def _ask(python: str, program: str, *arguments: str) -> list[str]:
    command = [python, "-c", program, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=_own()).stdout.splitlines()


def list_missing(python: str) -> list[str]:
    """Return the requirements of the measured side that a Python lacks. Any version of a package is enough."""
    wanted = {normalize(line): line for line in [*read_requirements(MEASURED), *MORE_REQUIREMENTS]}
    return [wanted[name] for name in _ask(python, MISSING, *wanted) if name]


def list_hidden(python: str) -> list[str]:
    """Return the requirements of the measured side that a Python has and does not find."""
    has_nvml = not subprocess.run([python, "-c", NVML], capture_output=True, env=_own()).returncode
    return [] if has_nvml else [line for line in read_requirements(MEASURED) if normalize(line) == "nvidia-ml-py"]


def complete(python: str, wheels: Path | None) -> None:
    """Install the packages that a Python lacks for the measured side, from a folder of wheels or from the network.

    Raises WheelhouseError if pip fails.
    """
    source = ["--no-index", "--find-links", str(wheels)] if wheels else []
    for find, options in ((list_missing, []), (list_hidden, ["--ignore-installed"])):
        wanted = find(python)
        if wanted and subprocess.run([*call_pip(python), "install", "--quiet", *source, *options, *wanted]).returncode:
            raise WheelhouseError(
                f"{python} lacks {', '.join(wanted)}, which cannot be installed as pip says above; have "
                "`make wheelhouse` fill the folder without naming these in SITE_HAS"
            )


def add_package_folders(python: str, folders: list[str]) -> None:
    """Let an environment's Python look for packages in other folders too, after its own."""
    lines = [f"import site; site.addsitedir({folder!r})\n" for folder in folders]
    (Path(find_packages(python)) / "site.pth").write_text("".join(lines))


def link_programs(python: str, overlay: str) -> None:
    """Let an environment find the programs that start processes, if they are beside a site's Python."""
    for name in STARTERS:
        program, own = Path(python).with_name(name), Path(overlay).with_name(name)
        if program.exists() and not own.exists():
            own.symlink_to(program)


def build_overlay(python: str, wheels: Path | None) -> str:
    """Return the Python of an environment in the cache with the packages of a site's Python and the missing ones."""
    folders = _ask(python, FOLDERS)
    identity = json.dumps([*_ask(python, "import sys; print(sys.version)"), python, folders])
    folder = resolve_cache() / f"site-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    own = str(folder / "bin" / "python")
    if not Path(own).exists():
        resolve_cache().mkdir(parents=True, exist_ok=True)
        create(folder, python)
    add_package_folders(own, folders)
    link_programs(python, own)
    complete(own, wheels)
    return own


def share_site_packages(overlays: list[str], wheels: Path | None) -> None:
    """Let `.venv` use the packages of a site's Python of the same version; install those that are still missing.

    overlays: the Pythons of build_overlay.
    """
    if list_missing(sys.executable):
        for overlay in overlays:
            if _ask(overlay, "import sys; print(sys.version_info[:2])") == [str(sys.version_info[:2])]:
                add_package_folders(sys.executable, _ask(overlay, FOLDERS))
                break
    complete(sys.executable, wheels)

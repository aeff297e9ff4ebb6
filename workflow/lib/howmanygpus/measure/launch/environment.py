"""Environment variables of the processes of a run."""

import os
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from howmanygpus.base.environment import LEFT_OUT, build_surroundings, parse_variable_names, resolve_cache
from howmanygpus.base.names import FAMILIES, SYSTEM_VARIABLES
from howmanygpus.base.shown import SHOWN
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.host.processes import BINDING_VARIABLE, KEEP_FREED_MEMORY, LOCAL_RANKS, RANKS
from howmanygpus.measure.spec import LaunchSpec, RunSpec

CUDA_CACHE_BYTES = 2**32
"""The largest size that CUDA accepts (CUDA C++ Programming Guide, environment variables: 4 GiB); by default 1 GiB."""

OTHERS_RANKS = {*RANKS, *LOCAL_RANKS, "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"}
"""
If the workflow itself runs in a process of mpirun or torchrun, these number that process. A run's processes would take
them for their own.
"""

OF_STEPS = {"CUDA_VISIBLE_DEVICES", "TMPDIR"}
"""Variables whose values SLURM and a site's scripts choose for each step."""


def is_foreign(variable: str) -> bool:
    """Whether an environment variable belongs to the process in which the workflow runs, and not to its runs.

    With those of torchrun's agent, PyTorch looks for a store of that agent.
    """
    return variable in OTHERS_RANKS or variable.startswith("TORCHELASTIC_")


def build_environment(spec: LaunchSpec, placement: Placement) -> dict[str, str]:
    """Return the environment variables of the run's processes, before their launcher numbers them.

    A framework's processes get what they need of the caller's. A user's program gets all of them, because only its user
    knows what it needs.
    """
    return {
        **(select_needed_variables(spec, placement) if isinstance(spec, RunSpec) else select_all_variables()),
        "OMP_NUM_THREADS": str(spec.cores_per_device),
        # Open MPI refuses to run as root otherwise, and containers usually run as root.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PYTHONUNBUFFERED": "1",
        **(cuda_environment() if spec.device_kind == "cuda" else {}),
        **({} if placement.bind_cores else {BINDING_VARIABLE: "1"}),
    }


def set_again(environment: Mapping[str, str]) -> list[str]:
    """Return the command env(1) with the variables of a step that frameworks, their libraries and Python read.

    A site's TaskProlog exports variables into each step of a job, after srun has passed on its own. Those that it adds
    stay, because the nodes may need them; a run's record shows them. environment: variables that srun passes on.
    """
    networks, names = FAMILIES["networks of a cluster"], ({*SYSTEM_VARIABLES} | SHOWN) - OF_STEPS
    chosen = {name: value for name, value in environment.items() if name in names or networks.fullmatch(name)}
    return ["env", *(f"{name}={value}" for name, value in sorted(chosen.items()))]


def describe_environment(spec: LaunchSpec, placement: Placement) -> dict[str, dict[str, list[str]]]:
    """Return the entry `environment` of a run's record; empty for a user's program."""
    if not isinstance(spec, RunSpec):
        return {}
    found = build_environment(spec, placement)
    return {"environment": {"kept": sorted(found), "left_out": found[LEFT_OUT].split()}}


def select_all_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not is_foreign(name)}


def select_needed_variables(spec: RunSpec, placement: Placement) -> dict[str, str]:
    """Return the variables of the caller that a framework needs, and those by which the `best` tier is faster."""
    found = build_surroundings(os.environ, parse_variable_names(placement.scratch or ""))
    return {
        **{name: value for name, value in found.items() if not is_foreign(name)},
        "TF_CPP_MIN_LOG_LEVEL": "1",
        **(KEEP_FREED_MEMORY if spec.tier == "best" else {}),
    }


def cuda_environment() -> dict[str, str]:
    """Return the variables for CUDA's libraries and its kernel cache. The user's own settings of the cache stay.

    CUDA compiles kernels at their first use if a framework has none for the GPU. Its own cache is in the home folder
    and too small for TensorFlow's kernels, so that every run would compile them again. The parity gate fills the cache
    before a run is timed.
    """
    # CuPy would compile with the headers of nvcc or of /usr/local/cuda, which NVRTC of another version cannot read.
    runtime = Path(sysconfig.get_path("purelib"), "nvidia", "cuda_runtime")
    own = {"CUDA_PATH": str(runtime)} if (runtime / "include").is_dir() else {}
    return {
        **own,
        "LD_LIBRARY_PATH": os.pathsep.join(list_cuda_libraries()),
        "CUDA_CACHE_PATH": os.environ.get("CUDA_CACHE_PATH") or str(resolve_cache() / "cuda"),
        "CUDA_CACHE_MAXSIZE": os.environ.get("CUDA_CACHE_MAXSIZE") or str(CUDA_CACHE_BYTES),
    }


def list_cuda_libraries() -> list[str]:
    """Return the folders of the environment's own CUDA libraries, and then those of LD_LIBRARY_PATH.

    MXNet and CuPy do not look for these folders themselves.
    """
    own = sorted(str(path) for path in Path(sysconfig.get_path("purelib")).glob("nvidia/*/lib"))
    return [*own, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]

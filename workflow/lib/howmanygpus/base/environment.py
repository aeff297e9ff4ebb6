"""
Build the environment variables of the workflow's own processes from what they are known to need.

Everything else that a user's shell has is left out, and named. A user's program gets all variables of its user, because
the workflow does not know what it needs.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from howmanygpus.base.names import FAMILIES, MODULE_VARIABLES, OF_DEVICES, SYSTEM_VARIABLES

KEEP = "HOWMANYGPUS_KEEP"
"""Environment variable with the names of further variables to keep, with spaces between them."""
LEFT_OUT = "HOWMANYGPUS_LEFT_OUT"
"""Environment variable with the names of the variables that were left out."""
OF_SNAKEMAKE = "HOWMANYGPUS_OF_SNAKEMAKE"
"""
Environment variable with the end of PYTHONPATH that only the workflow's own steps need: a site's module of Snakemake
may have set it, and packages there would shadow those of a framework's environment.
"""
NEEDED = {*SYSTEM_VARIABLES, *MODULE_VARIABLES, *OF_DEVICES}
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
"""Variables that make idle threads of OpenMP (GNU, LLVM and Intel) sleep at once.

By default they spin, and if there are more threads than free cores, they keep working threads from their cores.
"""
SHELL_VARIABLES = {"_", "SHLVL", "PWD", "OLDPWD"}
"""Variables that every shell sets anew."""
MAX_TMPDIR_LENGTH = 60
"""
Most characters of a folder for temporary files. The name of a Unix socket has at most 107 (unix(7)), of which
multiprocessing takes 33 for the folder and name of its own, torch 34, and Open MPI up to 45.
"""


def list_caches() -> list[Path]:
    """Return the folders of caches: first the one to write to, then one that may only be read, if there is one.

    A user who may not write into the folder of the variable, in which somebody has installed environments for others,
    has a cache in the home folder besides.
    """
    own = Path("~/.cache/howmanygpus").expanduser()
    given = Path(os.environ.get("HOWMANYGPUS_CACHE") or own).expanduser()
    environments = given / "environments"
    return [own, given] if environments.is_dir() and not os.access(environments, os.W_OK) else [given]


def resolve_cache() -> Path:
    """Return the folder of the cache to write to, which calls in all clones share."""
    return list_caches()[0]


def is_needed(name: str) -> bool:
    """Whether a process of the workflow that fetches nothing needs an environment variable."""
    return name in NEEDED or any(family.fullmatch(name) for family in FAMILIES.values())


def build_surroundings(given: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment variables of a process of the workflow. It is the same if done twice.

    given: those of the caller. names: further variables that the process needs. The variable LEFT_OUT of the result
    names what was left out. Keras takes its settings from a folder of the workflow instead of the user's.
    """
    named = {*given.get(KEEP, "").split(), *names}
    kept = {name: value for name, value in given.items() if is_needed(name) or name in named}
    if of_snakemake := given.get(OF_SNAKEMAKE):
        kept["PYTHONPATH"] = kept["PYTHONPATH"].removesuffix(f"{os.pathsep}{of_snakemake}")
    if "TMPDIR" not in named and not is_usable(kept.get("TMPDIR", "")):
        del kept["TMPDIR"]
    built = {"KERAS_HOME": str(resolve_cache() / "keras"), "PYTHONUNBUFFERED": "1", **kept}
    lost = {name for name in given if built.get(name) != given[name]} - SHELL_VARIABLES
    earlier = {*given.get(LEFT_OUT, "").split()} - named
    return built | {LEFT_OUT: " ".join(sorted(earlier | lost))}


def build_unmeasured(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of a process in which nothing is timed, and of all that it starts.

    given: those of the caller, whose user may keep the default by naming it. Measured runs get build_surroundings,
    because a thread that sleeps begins its next work later.
    """
    found = PASSIVE | build_surroundings(given)
    return found | {KEEP: " ".join([*given.get(KEEP, "").split(), *PASSIVE])}


def is_usable(folder: str) -> bool:
    """Whether processes can keep temporary files, and sockets, in a folder. An empty name stands for the default."""
    return not folder or (len(folder) <= MAX_TMPDIR_LENGTH and os.access(folder, os.W_OK))


def parse_variable_names(text: str) -> list[str]:
    """Return the variables that a path names, such as $SCRATCH or ${SCRATCH}."""
    return re.findall(r"\$\{?(\w+)", text)

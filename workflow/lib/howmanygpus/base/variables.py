"""Environment variables of this process that change how frameworks and their libraries run."""

import os
import re

from howmanygpus.base.names import FAMILIES
from howmanygpus.base.secrets import shorten
from howmanygpus.base.shown import SHOWN

PROCESS_VARIABLES = re.compile(
    r"OMPI_MCA_(ess|orte|pmix|prte|mpi_yield|rmaps|plm|ras|initial|hwloc|state|event|shmem|btl_openib_if|opal)\w*"
)
"""Variables that mpirun sets for each process, which are left out."""
NOT_SHOWN = "set"
"""Shown instead of the value of a variable that may contain anything, such as a token."""


def list_variables() -> dict[str, str]:
    """Return the variables of this process that are read by frameworks and their libraries, sorted by name.

    Values are shown only for the names in a list. Other variables, for a cluster's networks, are named without values.
    """
    others = FAMILIES["networks of a cluster"]
    return {
        name: shorten(value) if name in SHOWN else NOT_SHOWN
        for name, value in sorted(os.environ.items())
        if name in SHOWN or (others.fullmatch(name) and not PROCESS_VARIABLES.fullmatch(name))
    }

"""
Replace functions of other packages, but only the functions that a patch was written for.

With another version, a patch could silently break what it is meant to repair. Both the version of the package and the
function itself are therefore checked. A mismatch ends Snakemake with an error that names the remedy.
"""

import functools
import inspect
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from packaging.specifiers import SpecifierSet
from snakemake_interface_common.exceptions import WorkflowError

TESTED = {
    "snakemake": "~=9.27.1",
    "snakemake-executor-plugin-slurm": "~=2.8.0",
    "snakemake-executor-plugin-slurm-jobstep": "~=0.6",
    "snakemake-interface-executor-plugins": "~=9.4",
}
"""Versions of the patched packages, as pip writes them. The tests passed with 9.27.1, 2.8.0, 0.6.1 and 9.4.0.

The interface and the plugin of steps come with the others and are not pinned by envs/workflow.txt, so that all of 9.x
and 0.x from these on are accepted.
"""
MARK = "_patched_by_howmanygpus"
"""Attribute of our functions that have replaced another."""


def check_version(package: str) -> None:
    """Raise WorkflowError if the installed version of a package is outside the tested range.

    Call it before anything of the package is imported: names move between versions.
    """
    installed = version(package)
    if not SpecifierSet(TESTED[package]).contains(installed, prereleases=True):
        raise WorkflowError(
            f"{package} {installed} is installed, but the project's patches of it were tested with {TESTED[package]} "
            "only. Install the versions that envs/workflow.txt pins (`make` does), or test the patches (`pytest "
            "tests/unit/test_snakemake_patches.py tests/workflow/test_planning.py tests/workflow/test_interrupting.py "
            f"tests/workflow/test_states.py tests/slurm`) and widen the range in {__file__}."
        )


def describe(function: Any) -> str:
    """Return module, name and parameters of a function, regardless of decorators that used functools.wraps."""
    innermost = inspect.unwrap(function) if callable(function) else function
    if not inspect.isfunction(innermost):
        return repr(function)
    nothing = inspect.Parameter.empty
    parameters = inspect.signature(innermost).parameters.values()
    names = (str(parameter.replace(annotation=nothing, default=nothing)) for parameter in parameters)
    return f"{innermost.__module__}.{innermost.__qualname__}({', '.join(names)})"


def replace(owner: Any, name: str, written_for: str, make: Callable[[Any], Any]) -> None:
    """Replace a function of a module or class by `make(function)`; a second call in the same process changes nothing.

    written_for: the function that the replacement was written for, as `describe` returns it. Raises WorkflowError if
    another one is there, for example because the package has changed or another library has replaced it.
    """
    upstream: Any = getattr(owner, name, None)
    if hasattr(upstream, MARK):
        return
    if describe(upstream) != written_for:
        raise WorkflowError(
            f"{owner.__name__}.{name} is {describe(upstream)}, but the project's patch was written for {written_for}. "
            "Install the versions that envs/workflow.txt pins (`make` does), or remove what replaces the function."
        )
    replacement = functools.wraps(upstream)(make(upstream))
    setattr(replacement, MARK, True)
    setattr(owner, name, replacement)

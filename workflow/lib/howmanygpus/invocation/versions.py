"""
Replace functions of other packages, but only the functions that a patch was written for.

With another version, a patch could silently break what it is meant to repair, so the function itself is compared, by
its place, name and parameters, and another one is refused. A Snakemake older than the tested ones is refused, too. One
that is newer, and a SLURM plugin outside of the tested range, are named by a warning.
"""

import functools
import inspect
import shlex
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from packaging.specifiers import SpecifierSet
from snakemake_interface_common.exceptions import WorkflowError

from howmanygpus.clone import CLONE

TESTED = {"snakemake": ">=9.23,<9.28", "snakemake-executor-plugin-slurm": "~=2.8.0"}
"""Versions that the tests passed with, as pip writes them."""
NEEDED = ("filelock", "jinja2", "jsonschema", "numpy", "pandas", "psutil", "safetensors", "yaml")
"""Modules that every study needs; requirements.txt lists what some do besides."""
MARK = "_patched_by_howmanygpus"
"""Attribute of our functions that have replaced another."""
REMEDY = (
    "install what requirements.txt lists, or the versions that envs/workflow.txt pins (`make .venv/installed` does)"
)


def find_unfit() -> str:
    """Return why the Snakemake that runs, or its Python, cannot run the workflow; empty if it can."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        listed = shlex.quote(str(CLONE / "requirements.txt"))
        return (
            f"{sys.executable} has no {', '.join(missing)}, and the workflow's steps run in the Python of Snakemake; "
            f"`{sys.executable} -m pip install -r {listed}` installs what they need"
        )
    installed, fit = version("snakemake"), TESTED["snakemake"]
    oldest = next(each for each in SpecifierSet(fit) if each.operator == ">=")
    if oldest.contains(installed, prereleases=True):
        return ""
    return (
        f"version {installed} of Snakemake runs, and the workflow works with {fit}; "
        f"`{sys.executable} -m pip install 'snakemake{fit}'` installs the newest of these"
    )


def list_untested() -> list[str]:
    """Return a warning for each package whose version is outside of the tested range. Call it after all patches."""
    warnings = []
    for package, tested in TESTED.items():
        # A site's Snakemake may have no plugin for SLURM.
        with suppress(PackageNotFoundError):
            if not SpecifierSet(tested).contains(installed := version(package), prereleases=True):
                warnings.append(
                    f"{package} {installed} is installed; the workflow was tested with {tested} only. The functions "
                    "that it replaces have the names and parameters that it was written for; what they do was not "
                    f"compared. If something goes wrong, {REMEDY}."
                )
    return warnings


def describe(function: Any) -> str:
    """Return module, name and parameters of a function, regardless of decorators that used functools.wraps."""
    innermost = inspect.unwrap(function) if callable(function) else function
    if not inspect.isfunction(innermost):
        return repr(function)
    nothing = inspect.Parameter.empty
    parameters = inspect.signature(innermost).parameters.values()
    names = (str(parameter.replace(annotation=nothing, default=nothing)) for parameter in parameters)
    return f"{innermost.__module__}.{innermost.__qualname__}({', '.join(names)})"


def find_misfit(owner: Any, name: str, written_for: str) -> str:
    """Return how a function of a module or class differs from the one that ours was written for; empty if it does not.

    written_for: that function, as `describe` returns it.
    """
    found = describe(getattr(owner, name, None))
    return "" if found == written_for else f"{owner.__name__}.{name} is {found}, and not {written_for}"


def replace(owner: Any, name: str, written_for: str, make: Callable[[Any], Any]) -> None:
    """Replace a function of a module or class by `make(function)`; a second call in the same process changes nothing.

    Raises WorkflowError if another function than `written_for` is there, for example because the package has changed or
    another library has replaced it.
    """
    upstream: Any = getattr(owner, name, None)
    if hasattr(upstream, MARK):
        return
    if misfit := find_misfit(owner, name, written_for):
        raise WorkflowError(f"{misfit}, for which the project's patch was written; {REMEDY}")
    replacement = functools.wraps(upstream)(make(upstream))
    setattr(replacement, MARK, True)
    setattr(owner, name, replacement)

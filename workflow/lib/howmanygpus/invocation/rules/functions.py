"""Stores the signatures of the functions that Snakemake calls for each job, to save planning time."""

import inspect
import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from howmanygpus.base.requests import write_files
from howmanygpus.invocation.internals import set_signature
from howmanygpus.study.invalidation.recorded import AliasedParameter
from howmanygpus.study.plan import Plan


def with_signature(function: Callable) -> Callable:
    """Return the same function with a signature that is computed once.

    Snakemake calls inspect.signature() about 30 times per job, which took a seventh of a dry run of 5,000 runs.
    """

    @wraps(function)
    def call(*arguments, **options):
        return function(*arguments, **options)

    set_signature(call, inspect.signature(function))
    return call


def give(**values: Any) -> Callable:
    """Return the function of a rule's parameter: the values of its step in JSON. A function is called with wildcards.

    Files are a parameter of their own (`RuleFunctions.files`): Snakemake records no parameter that follows from them.
    """

    def describe(wildcards) -> AliasedParameter:
        found = {name: value(wildcards) if callable(value) else value for name, value in values.items()}
        return AliasedParameter(json.dumps(found), repr(found))

    return with_signature(describe)


class RuleFunctions:
    """Base class of classes whose public methods are passed to rules as functions.

    root: the folder that holds `results/`, relative to that of the call. Snakemake adds it to the paths that the
    methods return for inputs.
    """

    root = Path()

    def __init__(self, plan: Plan):
        self._plan, self._machine = plan, plan.machine
        for name, _ in inspect.getmembers(type(self), inspect.isfunction):
            if not name.startswith("_"):
                setattr(self, name, with_signature(getattr(self, name)))

    def files(self, wildcards, input, output) -> str:
        """Return the named files of a job in JSON, as its step finds them; see base.requests."""
        return write_files(self._name_files(input), self._name_files(output), dict(wildcards.items()))

    def _name_files(self, files) -> dict[str, str | list[str]]:
        return {name: self._find_file(paths) for name, paths in files.items()}

    def _find_file(self, paths):
        if isinstance(paths, str):
            return str(Path(paths).relative_to(self.root))
        return list(map(self._find_file, paths))

"""Stores the signatures of the functions that Snakemake calls for each job, to save planning time."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from howmanygpus.invocation.internals import set_signature
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

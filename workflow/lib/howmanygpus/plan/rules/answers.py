"""Functions that Snakemake calls for each job, with signatures that it need not find out each time."""

import inspect
from collections.abc import Callable
from functools import wraps


def with_signature(function: Callable) -> Callable:
    """The same function, with its signature computed once.

    Snakemake asks inspect.signature() about 30 times a job, which took a seventh of a dry run of 5,000 runs.
    """

    @wraps(function)
    def call(*arguments, **options):
        return function(*arguments, **options)

    call.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return call


class Answers:
    """Base of classes whose public methods are given to rules as functions."""

    def __init__(self):
        for name, _ in inspect.getmembers(type(self), inspect.isfunction):
            if not name.startswith("_"):
                setattr(self, name, with_signature(getattr(self, name)))

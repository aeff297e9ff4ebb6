"""Data sets as the planner sees them: shape and counts, or an error that names the place in the config."""

import re

from howmanygpus.plan.config.errors import refuse, suggest
from howmanygpus.prepare.listing import describe_dataset, is_listed
from howmanygpus.prepare.sources import Description, OptionError, list_sources

INDIFFERENT_OPTIONS = ("library", "on_bad_file", "shard_images", "downloads")
"""Of image files: what they change in the arrays, if anything, the arrays' own record tells."""


def options_of_runs(options: dict) -> dict:
    """The options of a data set, with a source and options, whose change reruns the runs on it."""
    given = options["options"]
    if not is_listed(options["source"]):
        return given
    return {name: value for name, value in given.items() if name not in INDIFFERENT_OPTIONS}


def describe_or_refuse(name: str, options: dict, place: str) -> Description:
    """Shape and counts of a data set with a source and options; `place` is where the config names it."""
    source = options["source"]
    if source not in list_sources():
        raise refuse(place, name, "is not a known data set", suggest(source, list_sources()))
    try:
        return describe_dataset(source, options["options"])
    except OptionError as error:
        where = f"datasets.{name}.options.{error.option}"
        raise refuse(where, error.value, error.problem, error.remedy) from None
    except TypeError as error:
        message = re.sub(r"\b(describe|list_images)\(\)", f"data source {source}", str(error))
        raise refuse(place, name, f"cannot be made: {message}", f"correct datasets.{name}.options") from None

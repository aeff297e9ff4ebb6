"""Describes data sets for the planner by shape and counts. Errors name the place in the config."""

import re

from howmanygpus.plan.config.errors import refuse, suggest
from howmanygpus.prepare.listing import describe_dataset, is_listed
from howmanygpus.prepare.sources import Description, OptionError, list_sources

INDIFFERENT_OPTIONS = ("library", "on_bad_file", "shard_images", "downloads")
"""Options of image files whose change reruns no run by itself: the record of the arrays shows any effect of them."""


def options_of_runs(options: dict) -> dict:
    """Return the options of a data set whose change reruns its runs. `options` has the keys `source` and `options`."""
    given = options["options"]
    if not is_listed(options["source"]):
        return given
    return {name: value for name, value in given.items() if name not in INDIFFERENT_OPTIONS}


def describe_or_refuse(name: str, options: dict, place: str) -> Description:
    """Return shape and counts of a data set, or raise ConfigError. `place` is where the config names the data set."""
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

"""Describes data sets for the planner by shape and counts. Errors name the place in the config."""

import math
import re
from collections.abc import Iterable

from howmanygpus.config.errors import refuse, suggest
from howmanygpus.config.files import expand_path
from howmanygpus.prepare.listing import describe_dataset
from howmanygpus.prepare.sources import Description, OptionError, list_sources

PLACES = ("folder", "table", "listing", "downloads")
"""Options that say where files are. The same contents elsewhere rerun nothing."""
INDIFFERENT_OPTIONS = (*PLACES, "library", "on_bad_file", "shard_images")
"""Options whose change reruns no run by itself: the record of the prepared data shows their effect, if any."""
PATH_OPTIONS = ("folder", "table", "listing")
CHANNELS = (1, 2, 3, 4)
"""Numbers of channels that images usually have: gray or RGB, with or without transparency."""
MAX_BYTES = 2**50
MAX_SIDE = 65_535
"""JPEG stores height and width in 16 bits each."""


def options_of_runs(options: dict) -> dict:
    """Return the options of a data set whose change reruns its runs. `options` has the keys `source` and `options`."""
    return {name: value for name, value in options["options"].items() if name not in INDIFFERENT_OPTIONS}


def expand_paths(datasets: dict[str, dict]) -> dict[str, dict]:
    """Return the data sets with `~` and variables expanded in the options that are paths. Raises ConfigError."""
    return {name: given | {"options": _expand_options(name, given["options"])} for name, given in datasets.items()}


def _expand_options(name: str, options: dict) -> dict:
    return {
        option: expand_path(value, f"datasets.{name}.options.{option}")
        if option in PATH_OPTIONS and isinstance(value, str)
        else value
        for option, value in options.items()
    }


def describe_or_refuse(name: str, options: dict, place: str = "", defined: Iterable[str] = ()) -> Description:
    """Return shape and counts of a data set, or raise ConfigError.

    place: where a study names a data set that is not under `datasets`, which defines the data sets `defined`.
    """
    source = options["source"]
    if source not in list_sources():
        known = {*list_sources(), *(defined if place else ())}
        raise refuse(place or f"datasets.{name}.source", source, "is not a known data set", suggest(source, known))
    _check_image_shape(name, options["options"])
    try:
        return describe_dataset(source, options["options"])
    except OptionError as error:
        where = f"datasets.{name}.options.{error.option}"
        raise refuse(where, error.value, error.problem, error.remedy) from None
    except (TypeError, ValueError, OSError) as error:
        message = re.sub(r"\b(describe|list_images)\(\)", f"data source {source}", str(error))
        remedy = "give it an entry with options under `datasets`" if place else f"correct datasets.{name}.options"
        raise refuse(place or f"datasets.{name}", name, f"cannot be made: {message}", remedy) from None


def _check_image_shape(name: str, options: dict) -> None:
    """Raise ConfigError for images that are too large, or generated ones whose channels come first."""
    shape, size, place = options.get("image_shape"), options.get("size"), f"datasets.{name}.options"
    sides = [side for side in (size if isinstance(size, list) else [size]) if isinstance(side, int)]
    if max(sides, default=0) > MAX_SIDE:
        problem = f"has a side of more than {MAX_SIDE} pixels, the most that a JPEG file can have"
        raise refuse(f"{place}.size", size, problem, "write [height, width] in pixels")
    if shape is None:
        return
    if shape[0] in CHANNELS and shape[2] not in CHANNELS:
        channels_last = [*shape[1:], shape[0]]
        problem = f"is {shape[0]} pixels high and has {shape[2]} channels"
        raise refuse(f"{place}.image_shape", shape, problem, f"channels come last: write {channels_last}")
    num_bytes = math.prod(shape) * sum(options.get(count, 0) for count in ("num_train", "num_test"))
    if num_bytes > MAX_BYTES:
        raise refuse(place, options, f"takes {num_bytes / 2**50:.0f} PiB", "lower num_train, num_test or image_shape")

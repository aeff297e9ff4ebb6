"""Makes variants from the axes of a program."""

import itertools
import re

from howmanygpus.plan.config.errors import refuse
from howmanygpus.train.program.command import PLACEHOLDERS

BASE = "base"
RESERVED_NAMES = (*PLACEHOLDERS, "framework", "variant", "input", "device", "study", "dataset", "program")
"""Names that an axis cannot have, because a placeholder, a key of `exclude` or a column has them."""
LONGEST = 100
"""Maximum number of characters of a variant's name, which names a folder."""


def expand_axes(place: str, axes: dict[str, list]) -> dict[str, dict]:
    """Return the values of each variant by its name, such as model_small for {model: [small, large]}.

    Raises ConfigError for a name that is taken, for true and false, and for values whose names in paths are the same.
    """
    for name, given in axes.items():
        if name in RESERVED_NAMES:
            raise refuse(f"{place}.{name}", name, "is a name of the workflow's own", "choose another name")
        for position, value in enumerate(given):
            if isinstance(value, bool):
                problem = f"is read by YAML, also where {'yes or on' if value else 'no or off'} was written"
                remedy = 'write the text that the command gets in quotes, such as "no" or "false"'
                raise refuse(f"{place}.{name}[{position}]", value, problem, remedy)
    variants: dict[str, dict] = {}
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        variant = "_".join(f"{name}_{slug(value)}" for name, value in chosen.items()) or BASE
        if variant in variants:
            problem = f"has the same name in paths as {list(variants[variant].values())}"
            raise refuse(place, list(values), problem, "change one of them by a letter or a digit")
        if len(variant) > LONGEST:
            raise refuse(place, list(values), f"makes a name of {len(variant)} characters", "give shorter values")
        variants[variant] = chosen
    return variants


def slug(value: str | float) -> str:
    """Return a value as part of a path: lower-case letters, digits and underscores."""
    return re.sub(r"[^a-z0-9]+", "_", str(value).lower().replace("-", "m" if _is_number(value) else "_"))


def _is_number(value) -> bool:
    return isinstance(value, int | float)

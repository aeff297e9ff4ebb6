"""Names of users' models, which are parts of paths, tables and modules."""

import keyword
import re
from pathlib import Path
from typing import Any

from howmanygpus.plan.config.errors import refuse

NAME = re.compile("[a-z][a-z0-9_]*")
PREFIX = "own_"
"""Prefix of the files of users' models in one file, which no other network has."""


def is_own(model: Any) -> bool:
    """Whether a study's `model` is a path, and not the name of a network of the workflow."""
    return isinstance(model, str) and (model.endswith(".py") or "/" in model)


def short_name(model: str) -> str:
    """Return the name that a model has in names of studies, in tables and in figures."""
    return Path(model).name.removesuffix(".py") if is_own(model) else model


def check_name(where: str, given: str, name: str, kind: str) -> None:
    """Raise ConfigError for a name that paths and tables cannot have. kind: `file` or `folder`."""
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        remedy = f"rename the {kind} with lower-case letters, digits and underscores, beginning with a letter"
        raise refuse(where, given, "has a name that is no plain identifier, which paths and tables need", remedy)

"""Checks the files of a user's model folder: its arrays, its options, and the functions that build it."""

import importlib
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema

from howmanygpus.plan.config.errors import make_strict, refuse
from howmanygpus.plan.own.folder import PARAMETERS, ModelFolder
from howmanygpus.plan.own.signature import read_signature
from howmanygpus.train.models.folder import add_folder
from howmanygpus.train.models.initialization import ROLES

FIRST = {"keras": ("x", "num_classes", "context")}
"""Parameters that `build` gets by position, in families where they differ from the usual ones."""
USUAL = ("image_shape", "num_classes", "context")


def read_folder(place: str, given: str, folder: ModelFolder, families: list[str]) -> dict[str, dict]:
    """Import parameters.py, check the functions of the folder, and return OPTIONS. Raises ConfigError.

    place: the study. The module can then be imported by its name like that of a network of the workflow.
    """
    where = f"{place}.model"
    module = _import_parameters(where, given, folder)
    if not callable(getattr(module, "parameters", None)):
        remedy = "write def parameters(image_shape, num_classes, **options)"
        raise refuse(where, given, "has a parameters.py without a function parameters", remedy)
    options = _check_options(where, given, getattr(module, "OPTIONS", {}))
    for family in families:
        _check_build(where, given, folder, family, options)
    return options


def _import_parameters(where: str, given: str, folder: ModelFolder) -> ModuleType:
    try:
        return importlib.import_module(f"{add_folder(folder.path)}.{PARAMETERS}")
    except (Exception, SystemExit) as error:
        problem = f"has a parameters.py that cannot be imported ({_describe(error, folder)})"
        remedy = "correct it; it can import numpy, howmanygpus.train.models and files of the folder, but no framework"
        raise refuse(where, given, problem, remedy) from error


def _check_options(where: str, given: str, rules: Any) -> dict[str, dict]:
    """Return OPTIONS. Raises ConfigError unless each is a rule of JSON Schema with a default that obeys it."""
    if not isinstance(rules, dict) or not all(isinstance(rule, dict) for rule in rules.values()):
        remedy = 'write it like {"width": {"type": "integer", "minimum": 1, "default": 16}}'
        raise refuse(where, given, "has OPTIONS that are no dictionary of rules", remedy)
    for name, rule in rules.items():
        if "default" not in rule:
            raise refuse(where, given, f"has OPTIONS whose {name} has no default", 'add "default": ...')
        try:
            make_strict().check_schema(rule)
            make_strict()(rule).validate(rule["default"])
        except jsonschema.SchemaError as error:
            problem = f"has OPTIONS whose {name} is no rule of JSON Schema ({error.message})"
            raise refuse(where, given, problem, "correct it") from None
        except jsonschema.ValidationError as error:
            problem = f"has OPTIONS whose {name} has a default against its own rule ({error.message})"
            raise refuse(where, given, problem, "change the default or the rule") from None
    return rules


def _check_build(where: str, given: str, folder: ModelFolder, family: str, options: dict[str, dict]) -> None:
    file, first = folder.file(family), FIRST.get(family, USUAL)
    how = f"write def build({', '.join([*first, *options])})"
    signature = read_signature(where, str(file), file, len(USUAL), how)
    if signature is None:
        return
    if signature.num_first < len(USUAL):
        problem = f"has a function build that takes {signature.num_first} of {', '.join(first)}"
        raise refuse(where, str(file), problem, how)
    for name in options:
        if not signature.takes(name):
            raise refuse(where, str(file), f"has a function build that does not take the option {name}", how)
    for name in signature.required:
        if name not in options:
            problem = f"has a function build that needs {name}, which is no option of parameters.py"
            raise refuse(where, str(file), problem, "add it to OPTIONS or give it a default")


def check_arrays(
    place: str, given: str, folder: ModelFolder, shape: tuple[int, int, int], num_classes: int, options: dict
) -> None:
    """Raise ConfigError unless parameters.py names the arrays of a model of this shape, with a draw of each."""
    where = f"{place}.model"
    module = importlib.import_module(f"howmanygpus.train.models.{folder.name}.{PARAMETERS}")
    draws = _call(where, given, folder, "parameters", module.parameters, shape, num_classes, **options)
    if not isinstance(draws, dict) or not draws or not all(map(callable, draws.values())):
        problem = "has a function parameters that returns no dictionary from names of arrays to their draws"
        remedy = 'return one like {"dense.kernel": he_normal(64, num_classes), "dense.bias": constant(0.0, 10)}'
        raise refuse(where, given, problem, remedy)
    for name in draws:
        layer, _, role = str(name).rpartition(".")
        if not layer or role not in ROLES:
            remedy = f"write the layer's name, a dot and one of {', '.join(ROLES)}"
            raise refuse(where, given, f"has a function parameters with the array {name!r}", remedy)
    if smallest_map := getattr(module, "smallest_map", None):
        for size in shape[:2]:
            found = _call(where, given, folder, "smallest_map", smallest_map, size, **options)
            if not isinstance(found, int) or isinstance(found, bool) or found < 0:
                problem = f"has a function smallest_map that returns {found!r} for images of {size} pixels"
                raise refuse(where, given, problem, "return a whole number, 0 if nothing is left of the images")


def _call(where: str, given: str, folder: ModelFolder, name: str, function: Callable, *values: Any, **options: Any):
    try:
        return function(*values, **options)
    except Exception as error:
        words = [*map(str, values), *(f"{key}={value!r}" for key, value in options.items())]
        problem = f"has a parameters.py whose {name}({', '.join(words)}) raised {_describe(error, folder)}"
        raise refuse(where, given, problem, "correct the function, or the options in the config") from error


def _describe(error: BaseException, folder: ModelFolder) -> str:
    """Describe an error with the last line of the folder's code in its traceback."""
    own = Path(folder.path).resolve()
    frames = [each for each in traceback.extract_tb(error.__traceback__) if Path(each.filename).is_relative_to(own)]
    at = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {error}{at}"

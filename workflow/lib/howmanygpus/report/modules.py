"""Constants of modules that describe themselves, read without importing them and the libraries they need."""

import ast
from functools import cache
from pathlib import Path


def list_modules(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("[a-z]*.py"))


@cache
def _read_constants(path: Path) -> dict[str, ast.expr]:
    assignments = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)]
    return {ast.unparse(node.targets[0]): node.value for node in assignments}


def describe_module(path: Path, required: tuple[str, ...], optional: dict) -> dict:
    """Values of literal constants of a module. optional: with the values they have where the module does not say.

    Raises KeyError for a required one that is missing.
    """
    constants = _read_constants(path)
    known = {*required, *(optional.keys() & constants.keys())}
    return optional | {name: ast.literal_eval(constants[name]) for name in known}

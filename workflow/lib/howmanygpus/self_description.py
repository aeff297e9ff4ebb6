"""Constants of modules that describe themselves, read without importing the modules and the libraries they need."""

import ast
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

Description = TypeVar("Description")


@cache
def list_modules(folder: Path) -> list[str]:
    """Return the names of the modules in a folder, sorted."""
    return sorted(path.stem for path in folder.glob("[a-z]*.py"))


@cache
def read_constants(path: Path) -> dict[str, Any]:
    """Return the literal constants of a module, by name."""
    constants = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                constants[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return constants


def read_docstring(path: Path) -> str:
    """Return what a module says about itself; empty if it says nothing."""
    return ast.get_docstring(ast.parse(path.read_text())) or ""


def has_several(study: dict | None, key: str | None) -> bool:
    """Return whether a study has several entries of a key, so that a table or figure can compare them.

    study: the study's config, or None for any study. key: None for a table or figure that compares nothing.
    """
    return study is None or key is None or len(study[key] or ()) > 1


def is_switched_on(study: dict | None, key: str | None) -> bool:
    """Return whether a study has a key without which a table or figure would show nothing.

    study: the study's config, or None for any study. key: None for a table or figure that needs none.
    """
    return study is None or key is None or bool(study[key])


def require_constant(path: Path, name: str) -> Any:
    """Return one literal constant of a module. Raises ValueError, naming the module, if it has none of this name."""
    constants = read_constants(path)
    if name not in constants:
        raise ValueError(f"{path} defines no literal {name}; see the docstring of {path.parent / '__init__.py'}")
    return constants[name]


@cache
def describe_module(path: Path, kind: type[Description]) -> Description:
    """Fill a dataclass with the literal constants of a module, whose names are those of its fields in capitals.

    Raises ValueError, naming the module, if it lacks the constant of a field without default.
    """
    values = {
        field.name: require_constant(path, field.name.upper())
        for field in fields(kind)  # type: ignore[arg-type]
        if field.default is MISSING or field.name.upper() in read_constants(path)
    }
    return kind(**values)

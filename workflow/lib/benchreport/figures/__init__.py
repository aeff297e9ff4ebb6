"""
Figures, one module each.

A module defines TITLE (what its entry in the report is called), TABLES (names of the tables it reads) and
`draw(**tables)`, which gets those tables of one study and returns a matplotlib figure. COMPARES, if it defines it, is
the key of a study whose entries it compares: a study with only one goes without. NEEDS_PREFLIGHT, if it defines it,
says that it is drawn where the preflight has measured something. Its caption is workflow/report/<module>.rst.
"""

import ast
import importlib
import pkgutil
from functools import cache
from pathlib import Path


def list_figures(study: dict | None = None, preflight: bool = False) -> list[str]:
    """All figures, or those that a study (its config), with a preflight or without, has something to show in."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    if study is None:
        return names
    described = {name: describe_figure(name) for name in names}
    return [
        name
        for name, figure in described.items()
        if (figure["COMPARES"] is None or len(study[figure["COMPARES"]]) > 1)
        and (preflight or not figure["NEEDS_PREFLIGHT"])
    ]


def load_figure(name: str):
    return importlib.import_module(f"{__name__}.{name}")


@cache
def describe_figure(name: str) -> dict:
    """The constants of a figure's module, read without importing the drawing library."""
    tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text())
    assignments = [node for node in tree.body if isinstance(node, ast.Assign)]
    constants = {ast.unparse(node.targets[0]): node.value for node in assignments}
    optional = {"COMPARES": None, "NEEDS_PREFLIGHT": False}
    known = {"TITLE", "TABLES", *optional} & constants.keys()
    return optional | {key: ast.literal_eval(constants[key]) for key in known}

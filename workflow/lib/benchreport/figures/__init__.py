"""
Figures, one module each.

A module defines TITLE (what its entry in the report is called), TABLES (names of the tables it reads) and
`draw(**tables)`, which gets those tables of one study and returns a matplotlib figure. COMPARES, if it defines it, is
the key of a study whose entries it compares: a study with only one goes without. Its caption is
workflow/report/<module>.rst.
"""

import ast
import importlib
import pkgutil
from pathlib import Path


def list_figures(study: dict | None = None) -> list[str]:
    """All figures, or those that a study (its config) has something to show in."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    if study is None:
        return names
    compared = {name: describe_figure(name)["COMPARES"] for name in names}
    return [name for name in names if compared[name] is None or len(study[compared[name]]) > 1]


def load_figure(name: str):
    return importlib.import_module(f"{__name__}.{name}")


def describe_figure(name: str) -> dict:
    """TITLE, TABLES and COMPARES (None where it has none) of a figure, read without importing the drawing library."""
    tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text())
    assignments = [node for node in tree.body if isinstance(node, ast.Assign)]
    constants = {ast.unparse(node.targets[0]): node.value for node in assignments}
    described = {key: ast.literal_eval(constants[key]) for key in ("TITLE", "TABLES", "COMPARES") if key in constants}
    return {"COMPARES": None} | described

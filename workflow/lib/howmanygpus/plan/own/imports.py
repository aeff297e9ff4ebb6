"""Finds imports of a user's file that must fail, because its environment does not have the module."""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from howmanygpus.plan.config.errors import refuse
from howmanygpus.plan.invalidation.pins import EXISTING
from howmanygpus.plan.own.modules import find_modules

INSTEAD = "put the module beside the file"
OURS = "howmanygpus"
"""The workflow's own package, which every environment can import."""


@dataclass(frozen=True)
class Import:
    """An import statement. module: the first part of its name."""

    module: str
    file: Path
    line: int


def check_imports(where: str, given: str, file: Path, environment: str, instead: str = INSTEAD) -> None:
    """Raise ConfigError if a file imports modules that its environment does not have, as far as the text tells.

    An interpreter that replaces the environment, or an unbuilt environment with other pins, is not checked. instead:
    what to do if the module is the user's own.
    """
    present = None if environment in EXISTING else find_modules(environment)
    if present is None:
        return
    for each in list_imports(file):
        if each.module not in present:
            problem = f"has {each.file}, which" if each.file != Path(given) else ""
            problem = f"{problem} imports {each.module} in line {each.line}, which is not in {environment}".strip()
            remedy = f"add its package to envs/{environment}.txt, or {instead}"
            raise refuse(where, given, problem, remedy)


def list_imports(file: Path) -> Iterator[Import]:
    """Yield the imports of a file, and of modules beside it, that run whenever a model is built.

    Python's own modules and those beside the file are left out, and so are files that change where modules are found.
    """
    waiting, seen = [file], {file}
    while waiting:
        path = waiting.pop(0)
        text = path.read_bytes()
        if b"sys.path" in text:
            continue
        for statement in _list_statements(ast.parse(text), with_build=path == file):
            for name in _name_modules(statement):
                beside = file.parent / f"{name}.py"
                if beside.is_file():
                    waiting += [beside] * (beside not in seen)
                    seen.add(beside)
                elif name not in sys.stdlib_module_names and name != OURS and not (file.parent / name).is_dir():
                    yield Import(name, path, statement.lineno)


def _list_statements(tree: ast.Module, with_build: bool) -> Iterator[ast.stmt]:
    """Yield the statements that no condition guards: those of the module, and of its function `build`."""
    for statement in tree.body:
        yield statement
        if with_build and isinstance(statement, ast.FunctionDef) and statement.name == "build":
            yield from statement.body


def _name_modules(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Import):
        return [alias.name.partition(".")[0] for alias in statement.names]
    if isinstance(statement, ast.ImportFrom) and statement.level == 0 and statement.module:
        return [statement.module.partition(".")[0]]
    return []

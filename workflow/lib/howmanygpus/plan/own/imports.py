"""Finds imports of a user's file that must fail, because its environment does not have the module."""

import ast
import re
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
FINDING = re.compile(rb"\bsys\s*\.\s*(path|modules|meta_path)|\bfrom\s+sys\b|\baddsitedir\b")
"""What a file has that changes where modules are found."""


@dataclass(frozen=True)
class Import:
    """An import statement. module: the first part of its name."""

    module: str
    file: Path
    line: int


def check_imports(
    where: str,
    given: str,
    file: Path,
    environment: str,
    instead: str = INSTEAD,
    is_folder: bool = False,
    purpose: str = "",
) -> None:
    """Raise ConfigError if a file imports modules that its environment does not have, as far as the text tells.

    An interpreter that replaces the environment, or an unbuilt environment with other pins, is not checked. instead:
    what to do if the module is the user's own. is_folder: see list_imports. purpose: what the environment is for.
    """
    present = None if environment in EXISTING else find_modules(environment)
    if present is None:
        return
    for each in list_imports(file, is_folder):
        if each.module not in present:
            problem = f"has {each.file}, which" if each.file != Path(given) else ""
            problem += f" imports {each.module} in line {each.line}, which is not in {environment}{purpose}"
            remedy = f"add its package to envs/{environment}.txt, or {instead}"
            raise refuse(where, given, problem.strip(), remedy)


def list_imports(file: Path, is_folder: bool = False) -> list[Import]:
    """Return the imports of a file, and of modules beside it, that run whenever a model is built.

    Python's own modules and those beside the file are left out. Nothing is returned if one of the files changes where
    modules are found. is_folder: whether files of its folder are imported relatively only, as in a model's folder.
    """
    start = file.parent / "__init__.py"
    waiting = [file, *([start] if is_folder and start.is_file() else [])]
    found = []
    # The list grows while it is gone through.
    for path in waiting:
        text = path.read_bytes()
        if FINDING.search(text):
            return []
        for statement in _list_statements(ast.parse(text), with_build=path == file):
            beside = list(_find_relative(path, file.parent, statement)) if is_folder else []
            for name in _name_modules(statement):
                module = file.parent / f"{name}.py"
                if not is_folder and module.is_file():
                    beside.append(module)
                elif name not in sys.stdlib_module_names and name != OURS and not (file.parent / name).is_dir():
                    found.append(Import(name, path, statement.lineno))
            waiting += [each for each in dict.fromkeys(beside) if each not in waiting]
    return found


def _list_statements(tree: ast.Module, with_build: bool) -> Iterator[ast.stmt]:
    """Yield the statements that no condition guards: those of the module, and of its function `build`."""
    yield from tree.body
    builds = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == "build"]
    # A decorator can put another function in its place.
    if with_build and builds and not builds[-1].decorator_list:
        for statement in builds[-1].body:
            yield statement
            if any(isinstance(node, ast.Return | ast.Raise) for node in ast.walk(statement)):
                return


def _name_modules(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Import):
        return [alias.name.partition(".")[0] for alias in statement.names]
    if isinstance(statement, ast.ImportFrom) and statement.level == 0 and statement.module:
        return [statement.module.partition(".")[0]]
    return []


def _find_relative(path: Path, folder: Path, statement: ast.stmt) -> Iterator[Path]:
    """Yield the files of a model's folder that a relative import executes."""
    if not isinstance(statement, ast.ImportFrom) or not statement.level:
        return
    package = path.parents[statement.level - 1]
    if not package.is_relative_to(folder):
        return
    for part in filter(None, (statement.module or "").split(".")):
        if (module := package / f"{part}.py").is_file():
            yield module
        package = package / part
        if (start := package / "__init__.py").is_file():
            yield start
    start = package / "__init__.py"
    words = start.read_bytes() if start.is_file() else b""
    for alias in statement.names:
        # A name that the package has by itself is no file.
        if (module := package / f"{alias.name}.py").is_file() and alias.name.encode() not in words:
            yield module

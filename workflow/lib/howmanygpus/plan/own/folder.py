"""Finds the model that a user wrote as a folder with one file per family, like a network of the workflow's own."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from howmanygpus.plan.config.errors import refuse
from howmanygpus.plan.config.files import expand_path
from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.plan.invalidation.syntax import read_code
from howmanygpus.plan.own.naming import PREFIX, check_name
from howmanygpus.train.models.folder import PACKAGE

PARAMETERS, REFERENCE = "parameters", "torch"
"""Files that every folder has: its canonical arrays, and the model from which the gate computes its reference."""


class MissingModuleError(ValueError):
    """A file of the folder imports another one that is not there."""


@dataclass(frozen=True)
class ModelFolder:
    """A user's model with one file per family. digest: hash of all its code, so that equal folders compare equal."""

    name: str
    path: str
    digest: str

    @property
    def place(self) -> dict[str, str]:
        """Where the model is, as a run's specification says it."""
        return {"model_folder": self.path}

    def name_network(self, options: dict[str, Any]) -> str:
        """Return the part of file names that distinguishes this network. Options can have any values."""
        if not options:
            return self.name
        return f"{self.name}-{hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()[:8]}"

    def file(self, module: str) -> Path:
        return Path(self.path, f"{module}.py")

    def find_files(self, *modules: str) -> list[Path]:
        """Return the files of modules, the folder's `__init__.py` if it has one, and all files that they import there.

        Raises SyntaxError, ValueError for a file that is not Python, and MissingModuleError.
        """
        start = self.file("__init__")
        waiting = [*map(self.file, modules), *([start] if start.exists() else [])]
        found: list[Path] = []
        while waiting:
            path = waiting.pop()
            if path not in found:
                found.append(path)
                waiting += [self._find_module(path, name) for name in self._list_names(path) if self._is_inside(name)]
        return sorted(found)

    def list_imports(self, *modules: str) -> list[str]:
        """Return the dotted names that modules import from elsewhere, directly or through files of the folder."""
        names = (name for path in self.find_files(*modules) for name in self._list_names(path))
        return sorted({name for name in names if not self._is_inside(name)})

    def hash_code(self, *modules: str) -> str:
        """Hash code by its place in the folder, so that a moved folder changes nothing."""
        paths = self.find_files(*modules)
        lines = [f"{path.relative_to(self.path)} {read_code(path).digest}" for path in paths]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    @property
    def _package(self) -> str:
        return f"{PACKAGE}.{self.name}"

    def _is_inside(self, name: str) -> bool:
        return name == self._package or name.startswith(f"{self._package}.")

    def _list_names(self, path: Path) -> Iterator[str]:
        """Yield what a file imports as dotted names without leading dots."""
        package = [*self._package.split("."), *path.relative_to(self.path).parent.parts]
        for name in read_code(path).imported:
            rest = name.lstrip(".")
            level = len(name) - len(rest)
            yield ".".join([*package[: len(package) - level + 1], rest]) if level else name

    def _find_module(self, importing: Path, name: str) -> Path:
        """Return the file of a module of the folder, or of the module that contains an imported object."""
        parts = name.removeprefix(self._package).strip(".").split(".")
        for length in range(len(parts), 0, -1):
            module = Path(self.path, *parts[:length])
            for candidate in (module.with_suffix(".py"), module / "__init__.py"):
                if candidate.is_file():
                    return candidate
        if (start := self.file("__init__")).is_file():
            return start
        raise MissingModuleError(f"{importing} imports {'.'.join(parts[:1])}, which is not in the folder")


def find_folder(place: str, given: str, networks: Iterable[str], frameworks: list[str]) -> ModelFolder:
    """Return the model in the folder `given`, after checking that its files for the frameworks can be read.

    place: the study. networks: names that are taken. Raises ConfigError.
    """
    where = f"{place}.model"
    path = Path(expand_path(given, where))
    check_name(where, given, path.name, "folder")
    if path.name in networks or path.name in {each.stem for each in Path(__file__).parents[2].glob("train/models/*")}:
        problem = f"has the name of the workflow's own {'network' if path.name in networks else 'module'} {path.name}"
        raise refuse(where, given, problem, "rename the folder")
    if path.name.startswith(PREFIX):
        raise refuse(where, given, f"has a name that begins with {PREFIX}, as files of the workflow do", "rename it")
    folder = ModelFolder(path.name, str(path), "")
    families = _check_families(where, given, folder, frameworks)
    for module in (PARAMETERS, *families):
        check_files(where, given, folder, module)
    return ModelFolder(folder.name, folder.path, folder.hash_code(PARAMETERS, *families))


def _check_families(where: str, given: str, folder: ModelFolder, frameworks: list[str]) -> list[str]:
    """Return the families of the frameworks, and that of the reference. Raises ConfigError for one without a file."""
    if not folder.file(PARAMETERS).is_file():
        remedy = "write the canonical arrays there, or name a single file, such as model.py, with a function build"
        raise refuse(where, given, "is a folder without parameters.py", remedy)
    if not folder.file(REFERENCE).is_file():
        remedy = "write it, also for studies of other frameworks"
        raise refuse(where, given, "has no torch.py, from which the parity gate computes its reference", remedy)
    for framework in frameworks:
        file = folder.file(FRAMEWORKS[framework].family)
        if not file.is_file():
            raise refuse(where, given, f"is not written for {framework}", f"write {file} or leave {framework} out")
    return list(dict.fromkeys([REFERENCE, *(FRAMEWORKS[framework].family for framework in frameworks)]))


def check_files(where: str, given: str, folder: ModelFolder, module: str) -> None:
    """Raise ConfigError for files that are not Python, or that import modules that do not exist."""
    try:
        files = folder.find_files(module)
    except SyntaxError as error:
        line = f" in line {error.lineno}" if error.lineno else ""
        problem = f"has {error.filename or folder.file(module)}, which is not valid Python{line} ({error.args[0]})"
        raise refuse(where, given, problem, "correct it") from None
    except MissingModuleError as error:
        raise refuse(where, given, f"is not complete: {error}", "add the file or correct the import") from None
    except ValueError as error:
        problem = f"has a file that {module}.py needs and that is not valid Python ({error})"
        raise refuse(where, given, problem, "correct it") from None
    families = {entry.family for entry in FRAMEWORKS.values()}
    beside = {path.stem for path in Path(folder.path).glob("*.py")} - families
    for path in files:
        for name in (name.partition(".")[0] for name in read_code(path).imported):
            if name in beside:
                problem = f"has {path}, which imports {name} as if it were installed"
                raise refuse(where, given, problem, f"write `from .{name} import ...` or `from . import {name}`")

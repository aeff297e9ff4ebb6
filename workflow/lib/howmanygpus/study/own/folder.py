"""
A model that the user wrote as a folder: its layout in network.py, or its arrays and a file for each family.

It is found, hashed and checked without a framework: its files, arrays, options, and the functions that build it.
"""

import hashlib
import importlib
import json
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema

from howmanygpus.config.errors import make_strict, refuse
from howmanygpus.config.files import expand_path
from howmanygpus.measure.models.initialization import ROLES, Draw
from howmanygpus.measure.models.layout import Layout
from howmanygpus.measure.models.networks import import_network
from howmanygpus.measure.models.own import NETWORK, PACKAGE, PARAMETERS, add_folder
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.study.invalidation.syntax import read_code
from howmanygpus.study.own.model import PREFIX, check_name
from howmanygpus.study.own.signature import read_signature

REFERENCE = "torch"
"""Family from which the gate computes its reference."""
FIRST = {"keras": ("x", "num_classes", "context")}
"""Parameters that `build` gets by position, in families where they differ from the usual ones."""
USUAL = ("image_shape", "num_classes", "context")


class MissingModuleError(ValueError):
    """A file of the folder imports another one that is not there."""


@dataclass(frozen=True)
class ModelFolder:
    """A user's model in a folder. digest: hash of all its code, so that equal folders compare equal."""

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

    @property
    def is_laid_out(self) -> bool:
        """Whether the folder has a layout from which every family builds the network, and no file for a family."""
        return self.file(NETWORK).is_file()

    @property
    def source(self) -> str:
        """The file that says which arrays and options the network has."""
        return f"{NETWORK if self.is_laid_out else PARAMETERS}.py"

    def find_files(self, *modules: str) -> list[Path]:
        """Return the files of modules, the folder's `__init__.py` if it has one, and all files that they import there.

        A folder with a layout has one module for all. Raises SyntaxError, ValueError for a file that is not Python, and
        MissingModuleError.
        """
        modules = (NETWORK,) if self.is_laid_out else modules
        start = self.file("__init__")
        waiting = [*map(self.file, modules), *([start] if start.exists() else [])]
        found: list[Path] = []
        while waiting:
            path = waiting.pop()
            if path not in found:
                found.append(path)
                waiting += [
                    self._resolve_module(path, name) for name in self._list_names(path) if self._is_inside(name)
                ]
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

    def _resolve_module(self, importing: Path, name: str) -> Path:
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


def read_model_folder(place: str, given: str, networks: Iterable[str], frameworks: list[str]) -> ModelFolder:
    """Return the model in the folder `given`, after checking that its files for the frameworks can be read.

    place: the study. networks: names that are taken. Raises ConfigError.
    """
    where = f"{place}.model"
    path = Path(expand_path(given, where))
    check_name(where, given, path.name, "folder")
    if path.name in networks or path.name in {each.stem for each in Path(__file__).parents[2].glob("measure/models/*")}:
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
    """Return the families of the frameworks, and that of the reference; none if the folder has a layout for all.

    Raises ConfigError for a family without a file.
    """
    if folder.is_laid_out and folder.file(PARAMETERS).is_file():
        remedy = "delete parameters.py and the families' files, or network.py"
        raise refuse(where, given, "has both network.py, for all families, and parameters.py", remedy)
    if folder.is_laid_out:
        return []
    if not folder.file(PARAMETERS).is_file():
        remedy = "write the network's layout in network.py, or its canonical arrays in parameters.py, or name a single "
        remedy += "file, such as model.py, with a function build"
        raise refuse(where, given, "is a folder without network.py and without parameters.py", remedy)
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


def read_folder(place: str, given: str, folder: ModelFolder, families: list[str]) -> dict[str, dict]:
    """Import the folder's source, check its functions, and return OPTIONS. Raises ConfigError.

    place: the study. The module can then be imported by its name like that of a network of the workflow.
    """
    where = f"{place}.model"
    module = _import_source(where, given, folder)
    name, first = ("lay_out", "num_classes") if folder.is_laid_out else ("parameters", "image_shape, num_classes")
    if not callable(getattr(module, name, None)):
        remedy = f"write def {name}({first}, **options)"
        raise refuse(where, given, f"has a {folder.source} without a function {name}", remedy)
    options = _check_options(where, given, getattr(module, "OPTIONS", {}))
    for family in () if folder.is_laid_out else families:
        _check_build(where, given, folder, family, options)
    return options


def _import_source(where: str, given: str, folder: ModelFolder) -> ModuleType:
    try:
        return importlib.import_module(f"{add_folder(folder.path)}.{folder.source.removesuffix('.py')}")
    except (Exception, SystemExit) as error:
        problem = f"has a {folder.source} that cannot be imported ({_describe(error, folder)})"
        remedy = "correct it; it can import numpy, howmanygpus.measure.models and files of the folder, but no framework"
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
    """Raise ConfigError unless the folder names the arrays of a model of this shape, with a draw of each."""
    where = f"{place}.model"
    module = import_network(folder.name)
    if folder.is_laid_out:
        draws = _read_layout(where, given, folder, module, shape, num_classes, options)
    else:
        draws = _call(where, given, folder, "parameters", module.parameters, shape, num_classes, **options)
    if not isinstance(draws, dict) or not draws or not all(map(callable, draws.values())):
        problem = "has a function parameters that returns no dictionary from names of arrays to their draws"
        remedy = 'return one like {"dense.kernel": he_normal(64, num_classes), "dense.bias": constant(0.0, 10)}'
        raise refuse(where, given, problem, remedy)
    for name in draws:
        layer, _, role = str(name).rpartition(".")
        if not layer or role not in ROLES:
            remedy = f"write the layer's name, a dot and one of {', '.join(ROLES)}"
            raise refuse(where, given, f"has a {folder.source} with the array {name!r}", remedy)
    if smallest_map := getattr(module, "smallest_map", None):
        for size in shape[:2]:
            found = _call(where, given, folder, "smallest_map", smallest_map, size, **options)
            if not isinstance(found, int) or isinstance(found, bool) or found < 0:
                problem = f"has a function smallest_map that returns {found!r} for images of {size} pixels"
                raise refuse(where, given, problem, "return a whole number, 0 if nothing is left of the images")


def _read_layout(
    where: str, given: str, folder: ModelFolder, module: ModuleType, shape: tuple, num_classes: int, options: dict
) -> dict[str, Draw]:
    """Return the draws of a network that ends with one logit for each class."""
    layout = _call(where, given, folder, "lay_out", module.lay_out, num_classes, **options)
    if not isinstance(layout, Layout):
        problem = f"has a function lay_out that returns {type(layout).__name__}"
        raise refuse(where, given, problem, "return a Layout of howmanygpus.measure.models.layout")
    draws = _call(where, given, folder, "lay_out(...).list_draws", layout.list_draws, shape)
    if (found := _call(where, given, folder, "lay_out(...).body.infer", layout.body.infer, shape)) != (num_classes,):
        remedy = 'let it end with Dense("dense", num_classes), after GlobalAveragePool or Flatten'
        raise refuse(where, given, f"has a layout that ends with {found} instead of {(num_classes,)}", remedy)
    return draws


def _call(where: str, given: str, folder: ModelFolder, name: str, function: Callable, *values: Any, **options: Any):
    try:
        return function(*values, **options)
    except Exception as error:
        words = [*map(str, values), *(f"{key}={value!r}" for key, value in options.items())]
        problem = f"has a {folder.source} whose {name}({', '.join(words)}) raised {_describe(error, folder)}"
        raise refuse(where, given, problem, "correct the function, or the options in the config") from error


def _describe(error: BaseException, folder: ModelFolder) -> str:
    """Describe an error with the last line of the folder's code in its traceback."""
    own = Path(folder.path).resolve()
    frames = [each for each in traceback.extract_tb(error.__traceback__) if Path(each.filename).is_relative_to(own)]
    at = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {error}{at}"

"""
Finds the code that each rule's job executes, and computes its hash, which is a parameter of the rule.

Files are found by following import statements, without importing anything. Modules that are imported by a name known
only at run time (a strategy, a model, a figure, ...) are given as additional starting points.
"""

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from howmanygpus.clone import LIBRARY, SCRIPTS, TEMPLATES
from howmanygpus.files import sha256_of_file
from howmanygpus.measure.models.own import PLAIN
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.study.invalidation.pins import hash_pins
from howmanygpus.study.invalidation.syntax import PACKAGE, hash_files, module_file, read_code
from howmanygpus.study.loaders import SHARED, name_loader
from howmanygpus.study.own.folder import PARAMETERS, REFERENCE, ModelFolder
from howmanygpus.study.own.model import OwnModel

UNMEASURED = ("base", "measure.around")
"""Folders that measured processes import, and that change nothing that is measured. A change of them reruns nothing."""
Model = str | OwnModel | ModelFolder
"""A network of the workflow by its name, or one of the user."""


@cache
def hash_script(name: str, *modules: str) -> str:
    """Return the hash of a script of workflow/scripts/, of `modules` of the package, and of everything they import."""
    return hash_files(collect_script_code(name, *modules))


@cache
def hash_templates(*names: str | Path) -> str:
    """Return the hash of templates and other files of workflow/report/templates/ that a script fills in."""
    contents = [sha256_of_file(TEMPLATES / name) for name in names]
    return hashlib.sha256(" ".join(contents).encode()).hexdigest()[:16]


@cache
def hash_preparing(name: str, *modules: str) -> str:
    """Return the hash of a script that prepares what runs read, and of `modules`, without UNMEASURED."""
    return hash_files(find_measured_code(*modules, more=[SCRIPTS / f"{name}.py"]))


@cache
def hash_allreduce() -> str:
    return hash_files(find_measured_code("measure.allreduce"))


def collect_script_code(name: str, *modules: str) -> list[str]:
    return collect_code(SCRIPTS / f"{name}.py", *map(module_file, modules))


@cache
def collect_training_code(
    framework: str, model: Model, loader: str = SHARED, is_traced: bool = False, is_independent: bool = False
) -> list[str]:
    """Find all code of one run: launcher, process, loader, strategy, profiler, and the family's file of the model.

    The files of a user's model are not included, but the workflow's files that they import are.
    """
    entry = FRAMEWORKS[framework]
    modules = [
        *("measure.launch.launch", "measure.launch.rank_process", "measure.loop.train"),
        f"measure.frameworks.{entry.family}.{entry.strategy}",
        *([f"measure.frameworks.{entry.family}.own_model"] if isinstance(model, OwnModel) else []),
    ]
    if entry.launcher == "per_device" or is_independent:
        modules.append("measure.launch.spawn")
    if loader != SHARED:
        modules.append(f"measure.frameworks.{name_loader(framework, loader)}")
    if is_traced:
        modules.append(f"measure.frameworks.{entry.family}.profiler")
    return find_measured_code(*modules, more=_list_model_files(model, entry.family))


def _list_model_files(model: Model, *modules: str) -> list[Path]:
    """Return the workflow's files from which the search for a model's code starts.

    modules: PARAMETERS, and families, whose layers are found by those that the network declares.
    """
    if isinstance(model, OwnModel):
        return []
    families = [module for module in modules if module != PARAMETERS]
    files = [
        module_file(f"measure.frameworks.{family}.layers.{layer}")
        for family in families
        for layer in list_layers(model)
    ]
    return [*_find_network(model, *modules), *(file for file in files if file)]


def _find_network(model: str | ModelFolder, *modules: str) -> list[Path]:
    if isinstance(model, str):
        file = module_file(f"measure.networks.{model}")
        return [file] if file else []
    return list(list_named_files(model.list_imports(*modules)))


@cache
def list_layers(model: str | ModelFolder) -> list[str]:
    """Return the layers that a network's code declares. A folder with a file for each family declares none."""
    if isinstance(model, ModelFolder) and not model.is_laid_out:
        return []
    files = map(Path, collect_code(*_find_network(model)))
    return [file.stem for file in files if file.parent == LIBRARY / PACKAGE / "measure" / "models" / "layers"]


def list_missing_layers(model: str | ModelFolder, family: str) -> list[str]:
    """Return the layers of a network that a family lacks."""
    return [each for each in list_layers(model) if module_file(f"measure.frameworks.{family}.layers.{each}") is None]


def _join(digest: str, model: Model, *modules: str) -> str:
    """Return a hash of the workflow's code with that of modules of a user's model."""
    if isinstance(model, str):
        return digest
    return f"{digest} {model.digest if isinstance(model, OwnModel) else model.hash_code(*modules)}"


@cache
def hash_training(
    framework: str, model: Model, loader: str = SHARED, is_traced: bool = False, is_independent: bool = False
) -> str:
    digest = hash_files(collect_training_code(framework, model, loader, is_traced, is_independent))
    return _join(digest, model, FRAMEWORKS[framework].family)


@cache
def hash_search(framework: str, model: Model) -> str:
    """Return the hash of the code of a search for the largest batch. The settings of its tries are a parameter."""
    searching = find_measured_code("measure.largest.bisecting", "measure.largest.tries")
    return f"{hash_training(framework, model)} {hash_files(searching)}"


@cache
def hash_weights(model: str | ModelFolder) -> str:
    """Return the hash of the code that draws the initial weights of a network of the workflow or a user's folder."""
    digest = hash_files(collect_code(SCRIPTS / "initialize_weights.py", *_list_model_files(model, PARAMETERS)))
    return _join(digest, model, PARAMETERS)


@cache
def hash_initialization(model: OwnModel) -> str:
    """Return the hash of the code that draws the initial weights of a user's model."""
    modules = ["measure.frameworks.initialize_own_model", f"measure.frameworks.{model.family}.own_model"]
    return f"{hash_files(find_measured_code(*modules))} {model.digest}"


@cache
def hash_own_reference(model: OwnModel) -> str:
    """Return the hash of the code of the gate's reference for a user's model."""
    family = model.family
    modules = [f"measure.frameworks.{family}.{name}" for name in (PLAIN[family], "own_model")]
    return f"{hash_files(find_measured_code('gate.own', *modules))} {model.digest}"


@cache
def hash_program() -> str:
    """Return the hash of the code that starts a user's program and takes its reports."""
    modules = (
        "measure.program.launch",
        "measure.program.process",
        "measure.launch.rank_process",
        "measure.launch.spawn",
    )
    return hash_files(find_measured_code(*modules))


@cache
def hash_program_search() -> str:
    """Return the hash of the code of a search for a program's largest batch."""
    return f"{hash_program()} {hash_files(find_measured_code('measure.largest.bisecting', 'measure.largest.tries'))}"


@cache
def hash_parity(framework: str, model: Model) -> str:
    """Return the hash of the observing code of the parity gate that no run executes.

    The hash of the remaining code is part of the verdict's file name.
    """
    own = find_measured_code("gate.observe", "gate.process")
    return hash_files(sorted(set(own) - set(collect_training_code(framework, model))))


@cache
def hash_reference(model: str | ModelFolder, computed_by: str = "gate.reference") -> str:
    modules = (PARAMETERS, REFERENCE)
    digest = hash_files(find_measured_code(computed_by, more=_list_model_files(model, *modules)))
    return _join(digest, model, *modules)


@cache
def hash_checked(framework: str, model: Model, environment: str, loader: str = SHARED) -> str:
    """Return the hash of everything that a verdict of the parity gate covers: the code of a run, and its pins."""
    digest = hashlib.sha256(f"{hash_pins(environment)} {hash_training(framework, model, loader)}".encode())
    return digest.hexdigest()[:8]


def find_measured_code(*modules: str, more: Iterable[Path | None] = ()) -> list[str]:
    """Return the paths of modules of the package and of all that they import, without UNMEASURED.

    more: further files to start from.
    """
    return collect_code(*map(module_file, modules), *more, without=list_unmeasured())


def list_unmeasured() -> list[Path]:
    """Return the files of UNMEASURED."""
    folders = (LIBRARY / PACKAGE / folder.replace(".", "/") for folder in UNMEASURED)
    return [path for folder in folders for path in folder.rglob("*.py")]


def collect_code(*starts: Path | None, without: Iterable[Path | None] = ()) -> list[str]:
    """Return the sorted paths of `starts` and of all files of the package that they import, directly or indirectly.

    Files that contain nothing to execute are left out. without: files that are left out, and not followed.
    """
    left_out = {path for path in without if path}
    found, waiting = set(left_out), [start for start in starts if start]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting.extend(imported_files(path))
    return sorted(str(path) for path in found - left_out if not read_code(path).is_empty)


@cache
def imported_files(path: Path) -> frozenset[Path]:
    """Return the files of the package that one file imports, and the `__init__.py` of every package involved."""
    names = list(read_code(path).imported)
    if path.is_relative_to(LIBRARY / PACKAGE):
        names.append(".".join([PACKAGE, *path.relative_to(LIBRARY / PACKAGE).parent.parts]))
    return list_named_files(names)


def list_named_files(imported: Iterable[str]) -> frozenset[Path]:
    """Return the files of the package that imported names mean, and the `__init__.py` of every package involved."""
    within = (name for name in imported if name == PACKAGE or name.startswith(f"{PACKAGE}."))
    names = [name.removeprefix(PACKAGE).removeprefix(".") for name in within]
    parents = {".".join(name.split(".")[:length]) for name in names for length in range(name.count(".") + 2)}
    return frozenset(file for file in map(module_file, parents) if file is not None)

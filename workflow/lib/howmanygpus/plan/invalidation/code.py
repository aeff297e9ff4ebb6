"""
The code that each step executes, and its hash, which is a parameter of the step.

Files are found by following import statements, without importing anything. What a module imports by a name that is
known only at run time (a strategy, a model, a figure, ...) is given as a further start.
"""

import hashlib
from functools import cache
from pathlib import Path

from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.plan.invalidation.pins import hash_pins
from howmanygpus.plan.invalidation.syntax import hash_files, read_code
from howmanygpus.plan.loaders import NATIVE, SHARED

LIBRARY = Path("workflow/lib")
SCRIPTS = Path("workflow/scripts")
PACKAGE = "howmanygpus"


@cache
def hash_script(name: str, *modules: str) -> str:
    """Hash of a script of workflow/scripts/ and of `modules` of the package, with all they import."""
    return hash_files(find_script_code(name, *modules))


def find_script_code(name: str, *modules: str) -> list[str]:
    return find_code(SCRIPTS / f"{name}.py", *map(module_file, modules))


@cache
def find_training_code(framework: str, model: str, loader: str = SHARED) -> list[str]:
    """Everything one run executes: launcher, process, loader, one strategy and its family's file of one model."""
    entry = FRAMEWORKS[framework]
    modules = [
        *("train.start.launch", "train.start.task", "train.loop.train"),
        f"train.frameworks.{entry.family}.{entry.strategy}",
        f"train.models.{model}.{entry.family}",
    ]
    if entry.launcher == "per_device":
        modules.append("train.start.spawn")
    if loader == NATIVE:
        modules.append(f"train.frameworks.{entry.native_loader}")
    return find_code(*map(module_file, modules))


@cache
def hash_training(framework: str, model: str, loader: str = SHARED) -> str:
    return hash_files(find_training_code(framework, model, loader))


@cache
def hash_parity(framework: str, model: str) -> str:
    """Hash of what observes for the parity gate and no run executes; the verdict's name has the hash of the rest."""
    own = find_script_code("observe_parity", "train.parity.observe", "train.parity.probe")
    return hash_files(sorted(set(own) - set(find_training_code(framework, model))))


@cache
def hash_reference(model: str) -> str:
    modules = ("train.parity.reference", f"train.models.{model}.parameters", f"train.models.{model}.torch")
    return hash_files(find_code(*map(module_file, modules)))


@cache
def hash_checked(framework: str, model: str, environment: str) -> str:
    """Hash of everything that the parity gate's verdict is about: the code of a run, and its pins."""
    digest = hashlib.sha256(f"{hash_pins(environment)} {hash_training(framework, model)}".encode())
    return digest.hexdigest()[:8]


@cache
def module_file(module: str) -> Path | None:
    """File of a module of the package, by its dotted name without the package's; None for anything else."""
    path = LIBRARY.joinpath(PACKAGE, *filter(None, module.split(".")))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.exists():
            return candidate
    return None


def find_code(*starts: Path | None) -> list[str]:
    """Sorted paths of the starts and of all files of the package that they import, directly or not.

    Files with nothing to execute are left out.
    """
    found, waiting = set(), [start for start in starts if start]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting.extend(imported_files(path))
    return sorted(str(path) for path in found if not read_code(path).is_empty)


@cache
def imported_files(path: Path) -> frozenset[Path]:
    """Files of the package that one file imports, with the packages that they and the file are in."""
    names = [name.removeprefix(f"{PACKAGE}.") for name in read_code(path).imported if name.startswith(f"{PACKAGE}.")]
    if path.is_relative_to(LIBRARY / PACKAGE):
        names.append(".".join(path.relative_to(LIBRARY / PACKAGE).parent.parts))
    parents = {".".join(name.split(".")[:length]) for name in names for length in range(name.count(".") + 2)}
    return frozenset(file for file in map(module_file, parents) if file is not None)

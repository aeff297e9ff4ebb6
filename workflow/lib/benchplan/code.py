"""
Which files of this project each step executes: a change of one of them reruns the step.

The files are found by following import statements, without importing anything; what a module imports by a name
known only at run time (a backend, a model, a figure, ...) is given as a further start.
"""

import ast
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from benchplan.frameworks import FRAMEWORKS
from benchplan.loaders import NATIVE, SHARED

LIBRARY = Path("workflow/lib")
SCRIPTS = Path("workflow/scripts")


def let_jobs_find_it() -> None:
    """Put this Python and workflow/lib/ first on the paths of every job that is started from here."""
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(LIBRARY), os.environ.get("PYTHONPATH")]))


def script(name: str, *modules: str) -> list[str]:
    """A script of workflow/scripts/, what it imports of workflow/lib/, and `modules` (dotted) with what they import."""
    return find_code(SCRIPTS / f"{name}.py", *(module_file(module) for module in modules))


@cache
def training_code(framework: str, model: str, loader: str = SHARED) -> list[str]:
    """Everything one run executes: launcher, process, loader, one backend and its family's file of one model."""
    family_model = f"trainbench.models.{model}.{FRAMEWORKS[framework].family}"
    modules = [
        "trainbench.launch",
        "trainbench.task",
        "trainbench.train",
        f"trainbench.backends.{framework}",
        family_model,
    ]
    if FRAMEWORKS[framework].launcher == "per_device":
        modules.append("trainbench.spawn")
    if loader == NATIVE:
        modules.append(f"trainbench.loaders.{FRAMEWORKS[framework].native_loader}")
    return find_code(*(module_file(module) for module in modules))


def parity_code(framework: str, model: str) -> list[str]:
    """What the parity gate executes and a run does not; what both execute is in the hash of the verdict's name."""
    own = script("check_parity", "trainbench.parity.observe", "trainbench.parity.probe")
    return sorted(set(own) - set(training_code(framework, model)))


def reference_code(model: str) -> list[str]:
    modules = (
        "trainbench.parity.reference",
        f"trainbench.models.{model}.parameters",
        f"trainbench.models.{model}.torch",
    )
    return find_code(*(module_file(module) for module in modules))


@cache
def hash_checked(framework: str, model: str, environment: str) -> str:
    """Of everything that the parity gate's verdict is about: the code of a run and its pins."""
    digest = hashlib.sha256(hash_pins(environment).encode())
    for path in training_code(framework, model):
        digest.update(_hash_file(path))
    return digest.hexdigest()[:8]


@cache
def _hash_file(path: str) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()


def environment_record(environment: str) -> str:
    """Record of an environment; its name bears the hash of its pins, so that other pins are another file."""
    return f"results/environments/{environment}-{hash_pins(environment)}.json"


def environment_pins(environment: str) -> list[str]:
    """The environment's pins, those they include, and those of what it needs to be built, if it has such."""
    pins = [f"envs/{environment}.txt"]
    for path in pins:
        included = (line.split()[1] for line in Path(path).read_text().splitlines() if line.startswith("-r "))
        pins += [f"envs/{name}" for name in included]
    build = f"envs/{environment}.build.txt"
    return [*pins, *([build] if Path(build).exists() else [])]


HOROVOD = "horovod-"
HOROVOD_TOOLS, HOROVOD_SOURCE = "envs/horovod.build.txt", "envs/horovod.source.txt"


def horovod_base(environment: str) -> str | None:
    """The environment beside which the Horovod of another is built; None where there is no Horovod in it."""
    return environment.removeprefix(HOROVOD) if environment.startswith(HOROVOD) else None


def horovod_tools(environment: str) -> list[str]:
    """Pins of what builds the Horovod of an environment; those of a CUDA compiler too, where one can be installed."""
    compiler = f"envs/horovod.build-{environment.rpartition('-')[2]}.txt"
    return [HOROVOD_TOOLS, *([compiler] if Path(compiler).exists() else [])]


EXISTING: dict[str, dict] = {}
"""Interpreters of the machine file that take the place of environments, by environment; see use_existing."""


def use_existing(environments: dict[str, dict]) -> None:
    """Take interpreters that are there instead of building environments: each is a `python` and its `modules`."""
    EXISTING.update(environments)
    hash_pins.cache_clear()


@cache
def hash_pins(environment: str) -> str:
    """Of what decides the content of an environment: its pins, or the interpreter that takes its place."""
    paths = environment_pins(environment)
    if horovod_base(environment):
        paths += [*horovod_tools(environment), HOROVOD_SOURCE, str(SCRIPTS / "build_horovod.py")]
    content = b"".join(Path(path).read_bytes() for path in paths)
    if environment in EXISTING:
        content += json.dumps(EXISTING[environment], sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()[:8]


@cache
def module_file(module: str) -> Path | None:
    """File of a module of workflow/lib/, by its dotted name; None for anything else."""
    path = LIBRARY.joinpath(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.exists():
            return candidate
    return None


def find_code(*starts: Path) -> list[str]:
    """Sorted paths of the starts and of all files of workflow/lib/ that they import, directly or not.

    Empty files are left out: there is nothing in them to execute.
    """
    found, waiting = set(), list(starts)
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting.extend(imported_files(path))
    return sorted(str(path) for path in found if path.stat().st_size)


@cache
def imported_files(path: Path) -> frozenset[Path]:
    """Files of workflow/lib/ that one file imports, with the packages that they are in."""
    files = (module_file(name) for name in _imported_names(path))
    return frozenset(file for file in files if file is not None)


def _imported_names(path: Path) -> Iterator[str]:
    for node in _statements(ast.parse(path.read_text()).body):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))
    if path.is_relative_to(LIBRARY):
        package = path.relative_to(LIBRARY).parent.parts
        yield from (".".join(package[:length]) for length in range(1, len(package) + 1))


NESTED = ("body", "orelse", "handlers", "finalbody", "cases")


def _statements(body: list[ast.AST]) -> Iterator[ast.AST]:
    """All statements, also those within others; expressions, most of a file, are not looked into."""
    for node in body:
        yield node
        for name in NESTED:
            yield from _statements(getattr(node, name, []))

"""
A model that the user wrote in one file: found, hashed, and refused if it is wrong, as far as its text tells.

Names of users' models are parts of paths, tables and modules.
"""

import hashlib
import json
import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from howmanygpus.config.errors import refuse
from howmanygpus.config.files import expand_path
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.environments.pins import resolve_horovod_base
from howmanygpus.study.invalidation.syntax import read_code
from howmanygpus.study.own.signature import Signature, read_signature

NAME = re.compile("[a-z][a-z0-9_]*")
PREFIX = "own_"
"""Prefix of the files of users' models in one file, which no other network has."""
FAMILIES = {
    "torch": ("torch", "torchvision", "timm"),
    "keras": ("keras", "tensorflow"),
    "flax": ("flax", "jax"),
}
"""Packages whose import tells the family of a model."""
WORDS = {"torch": "PyTorch", "keras": "Keras", "flax": "flax"}


def is_own(model: Any) -> bool:
    """Whether a study's `model` is a path, and not the name of a network of the workflow."""
    return isinstance(model, str) and (model.endswith(".py") or "/" in model)


def short_name(model: str) -> str:
    """Return the name that a model has in names of studies, in tables and in figures."""
    return Path(model).name.removesuffix(".py") if is_own(model) else model


def check_name(where: str, given: str, name: str, kind: str) -> None:
    """Raise ConfigError for a name that paths and tables cannot have. kind: `file` or `folder`."""
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        remedy = f"rename the {kind} with lower-case letters, digits and underscores, beginning with a letter"
        raise refuse(where, given, "has a name that is no plain identifier, which paths and tables need", remedy)


@dataclass(frozen=True)
class OwnModel:
    """A user's model. name: the stem of its file. digest: of its code and that of the modules beside it."""

    name: str
    path: str
    family: str
    digest: str
    signature: Signature | None

    @property
    def place(self) -> dict[str, str]:
        """Where the model is, as a run's specification says it."""
        return {"model_file": self.path}

    def name_network(self, options: dict[str, Any]) -> str:
        """Return the part of file names that distinguishes this network. Options can have any values."""
        if not options:
            return PREFIX + self.name
        digest = hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()
        return f"{PREFIX}{self.name}-{digest[:8]}"

    @property
    def environment(self) -> str:
        """The environment in which its initial weights are drawn."""
        return resolve_environment(self.family)

    def explain_unsupported(self, framework: str, precision: str) -> str:
        # The reason is part of the plan, in which another place of the file changes nothing.
        family, file = FRAMEWORKS[framework].family, Path(self.path).name
        if family != self.family:
            return f"{file} is a model of {WORDS[self.family]}, and {framework} trains those of {_word(family)}"
        if self.family == "flax" and precision == "bf16" and not self.takes("dtype"):
            return f"build of {file} has no parameter dtype, by which flax is told to compute in bf16"
        return ""

    def takes(self, parameter: str) -> bool:
        return self.signature is None or self.signature.takes(parameter)


def resolve_environment(family: str) -> str:
    """Return the environment for CPUs of a family, without Horovod."""
    names = (entry.environments["cpu"] for entry in FRAMEWORKS.values() if entry.family == family)
    return next(name for name in names if resolve_horovod_base(name) is None)


def read_own_model(
    place: str, place_of_options: str, given: str, family: str | None, options: dict, networks: Iterable[str]
) -> OwnModel:
    """Return the model in the file `given`.

    place: the study. family: the study's `model_family`. networks: names that are taken. Raises ConfigError.
    """
    where = f"{place}.model"
    file = Path(expand_path(given, where))
    _check_file(where, given, file, networks)
    try:
        code = read_code(file)
    except (SyntaxError, ValueError) as error:
        raise refuse(where, given, f"is not valid Python{describe_place(error)}", "correct it") from None
    if relative := next((name for name in code.imported if name.startswith(".")), ""):
        problem = f"imports {relative} relatively, which a single file cannot"
        beside = relative.strip(".").partition(".")[0]
        raise refuse(where, given, problem, f"write `import {beside}` for a file beside it")
    files = find_files(where, given, file)
    found = _read_family(where, given, family, code.imported)
    signature = read_signature(where, given, file)
    if signature is not None:
        signature.check(where, given, place_of_options, options, found)
    return OwnModel(file.stem, str(file), found, _hash_files(file, files), signature)


def describe_place(error: SyntaxError | ValueError) -> str:
    """Return where a file is not Python, and why."""
    line = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
    return f"{line} ({error.args[0]})"


def _check_file(where: str, given: str, file: Path, networks: Iterable[str]) -> None:
    if not file.is_file():
        raise refuse(where, given, f"does not exist, seen from {Path.cwd()}", "correct the path")
    if file.suffix != ".py":
        raise refuse(where, given, "is no file of Python", "give it the suffix .py")
    check_name(where, given, file.stem, "file")
    if file.stem in networks:
        raise refuse(where, given, f"has the name of the workflow's own network {file.stem}", "rename the file")


def find_files(where: str, given: str, file: Path) -> list[Path]:
    """Return the modules beside a file that it imports, directly or indirectly."""
    found: list[Path] = []
    waiting = [file]
    while waiting:
        path = waiting.pop()
        try:
            imported = read_code(path).imported
        except (SyntaxError, ValueError) as error:
            problem = f"imports {path}, which is not valid Python{describe_place(error)}"
            raise refuse(where, given, problem, "correct it") from None
        # Relative imports of a package beside it stay inside that package.
        for name in {name.partition(".")[0] for name in imported if not name.startswith(".")}:
            beside = [file.parent / f"{name}.py", *sorted((file.parent / name).rglob("*.py"))]
            new = [each for each in beside if each.is_file() and each != file and each not in found]
            found += new
            waiting += new
    return sorted(found)


def _hash_files(file: Path, others: list[Path]) -> str:
    """Hash code by its place beside the file, so that a moved folder changes nothing."""
    lines = [f"{path.relative_to(file.parent)} {read_code(path).digest}" for path in (file, *others)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _read_family(where: str, given: str, family: str | None, imported: list[str]) -> str:
    if family:
        return family
    packages = {name.partition(".")[0] for name in imported}
    found = [family for family, names in FAMILIES.items() if packages & set(names)]
    if len(found) == 1:
        return found[0]
    key = f"`model_family`, which is {', '.join(FAMILIES)}"
    if not found:
        raise refuse(where, given, "imports none of torch, keras, tensorflow and flax", f"import one, or give {key}")
    raise refuse(where, given, f"imports packages of {' and '.join(found)}", f"say which builds the model by {key}")


def _word(family: str) -> str:
    return WORDS.get(family, family)


def check_frameworks(place: str, model: OwnModel, frameworks: list[str]) -> None:
    """Raise ConfigError if no framework of the study trains models of this family."""
    if any(FRAMEWORKS[name].family == model.family for name in frameworks):
        return
    fitting = [name for name, entry in FRAMEWORKS.items() if entry.family == model.family]
    problem = f"has none that trains {model.path}, a model of {WORDS[model.family]}"
    raise refuse(f"{place}.frameworks", frameworks, problem, f"name some of {', '.join(fitting)}")

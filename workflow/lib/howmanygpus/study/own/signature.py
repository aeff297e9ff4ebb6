"""Reads the parameters of the function `build` from a file's text, without importing it."""

import ast
from dataclasses import dataclass
from pathlib import Path

from howmanygpus.config.errors import ConfigError, refuse, suggest

GIVEN = ("image_shape", "num_classes")
BY_FAMILY = {"flax": ("rngs", "dtype")}
"""Parameters that the workflow fills in: nnx.Rngs, and the type of the arithmetic."""
HOW = "write def build(image_shape, num_classes, **options)"


@dataclass(frozen=True)
class Signature:
    """Parameters of `build` after those given by position. required: those without a default. line: of `build`."""

    line: int
    num_first: int
    options: tuple[str, ...]
    required: tuple[str, ...]
    takes_any: bool

    def takes(self, parameter: str) -> bool:
        return self.takes_any or parameter in self.options

    def check(self, where: str, given: str, place: str, options: dict, family: str) -> None:
        """Raise ConfigError if `build` cannot be called with the study's options. place: of the options."""
        filled_in = BY_FAMILY.get(family, ())
        if self.num_first < len(GIVEN):
            problem = f"has a function build in line {self.line} that takes {self.num_first} of {' and '.join(GIVEN)}"
            raise refuse(where, given, problem, HOW)
        if family == "flax" and not self.takes("rngs"):
            lack = "without a parameter rngs, from which flax draws the initial weights"
            problem = f"has a function build in line {self.line} {lack}"
            raise refuse(where, given, problem, "write def build(image_shape, num_classes, *, rngs, **options)")
        for name in options:
            if name in filled_in or name in GIVEN:
                raise refuse(f"{place}.{name}", options[name], "is filled in by the workflow", "remove it")
            if not self.takes(name):
                known = [option for option in self.options if option not in filled_in]
                remedy = suggest(name, known) if known else "remove it, or give build such a parameter"
                problem = f"is no parameter of build in line {self.line} of {given}"
                raise refuse(f"{place}.{name}", options[name], problem, remedy)
        for name in self.required:
            if name not in options and name not in filled_in:
                lack = f"build in line {self.line} of {given} needs {name}"
                raise ConfigError(f"{place}: {lack}; give it here, or give it a default there")


def read_signature(where: str, given: str, file: Path, num_given: int = len(GIVEN), how: str = HOW) -> Signature | None:
    """Return the parameters, or None if the file has `build` from elsewhere. Raises ConfigError if it has none.

    num_given: parameters that the workflow gives by position. how: what to write instead.
    """
    body = ast.parse(file.read_bytes(), filename=str(file)).body
    functions = [each for each in body if isinstance(each, ast.FunctionDef) and each.name == "build"]
    if functions:
        if not _can_return(functions[-1]):
            problem = f"has a function build in line {functions[-1].lineno} that returns nothing"
            raise refuse(where, given, problem, "return the model")
        if _is_swapped(functions[-1]):
            problem = f"has a function build in line {functions[-1].lineno} with num_classes before image_shape"
            raise refuse(where, given, problem, how)
        return _read_arguments(functions[-1], num_given)
    others = (each for each in body if isinstance(each, ast.AsyncFunctionDef | ast.ClassDef) and each.name == "build")
    if other := next(others, None):
        raise refuse(where, given, f"has a build in line {other.lineno} that is no plain function", how)
    if _binds_build(body):
        return None
    near = [each.name for each in body if isinstance(each, ast.FunctionDef)]
    also = f", only {', '.join(near[:5])}" if near else ""
    raise refuse(where, given, f"has no function build{also}", how)


def _can_return(function: ast.FunctionDef) -> bool:
    """Whether a function returns a value, or raises an error that a call will show."""
    nodes = list(ast.walk(function))
    return any(isinstance(node, ast.Raise) or (isinstance(node, ast.Return) and node.value) for node in nodes)


def _is_swapped(function: ast.FunctionDef) -> bool:
    """Whether the parameters that are given by position have each other's names."""
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    return tuple(names[: len(GIVEN)]) == GIVEN[::-1]


def _read_arguments(function: ast.FunctionDef, num_given: int) -> Signature:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = len(positional) - len(arguments.defaults)
    num_first = num_given if arguments.vararg else min(len(positional), num_given)
    # A parameter before the slash cannot be given by its name.
    rest = [(each, index < defaults) for index, each in enumerate(positional) if index >= num_given]
    rest += [(each, default is None) for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return Signature(
        function.lineno,
        num_first,
        tuple(each.arg for each, _ in rest if each not in arguments.posonlyargs),
        tuple(each.arg for each, is_required in rest if is_required),
        arguments.kwarg is not None,
    )


def _binds_build(body: list[ast.stmt]) -> bool:
    """Whether `build` is imported, assigned, or defined under a condition, so that only an import can tell."""
    for each in body:
        for node in ast.walk(each):
            if isinstance(node, ast.alias) and (node.asname or node.name) in ("build", "*"):
                return True
            if isinstance(each, ast.Assign | ast.AnnAssign) and isinstance(node, ast.Name) and node.id == "build":
                return True
            if isinstance(each, ast.If | ast.Try) and isinstance(node, ast.FunctionDef) and node.name == "build":
                return True
    return False

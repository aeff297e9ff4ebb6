"""
Analyses files of code: computes the hashes of their syntax trees, and lists the names that they import.

A hash ignores comments, line breaks, docstrings and the strings that document constants. It is the same in every
version of Python: another Python for the workflow reruns nothing. The hash of several files also ignores where they
are, what their modules are called, and the texts of errors and of messages on stderr.
"""

import ast
import atexit
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from howmanygpus.clone import LIBRARY
from howmanygpus.files import write_json_atomic

PACKAGE = "howmanygpus"
KNOWN = Path(".snakemake/howmanygpus-syntax-4.json")
"""Cache of analysed files. The number in its name is the version of _analyse: increase it if _analyse changes."""
MODULE = re.compile(rf"{PACKAGE}(\.\w+)*\.?")
"""A string that names a module or, before a name that is known only at run time, a folder of modules."""
NESTED = ("body", "orelse", "handlers", "finalbody", "cases")
"""Fields of syntax tree nodes that contain statements."""


@dataclass(frozen=True)
class AnalysedFile:
    """The result of analysing one file.

    digest: SHA-256 of the syntax tree.
    work: the same, without texts of errors and messages, and without names of modules of the package.
    names: the modules of the package that it names, and names in them, each with the name that it has here; sorted.
    imported: dotted names in all import statements, including those inside functions. Relative ones begin with dots.
    is_empty: whether the file contains nothing to execute, like the `__init__.py` of most packages.
    """

    digest: str
    work: str
    names: list[list[str]]
    imported: list[str]
    is_empty: bool


@cache
def read_code(path: Path) -> AnalysedFile:
    """Analyse a file, or look it up in the cache. Raises SyntaxError, which names the file, if it is not Python."""
    content, known = path.read_bytes(), read_known_code()
    key = hashlib.sha256(content).hexdigest()
    if key not in known:
        known[key] = asdict(_analyse(content, path))
    return AnalysedFile(**known[key])


def _analyse(content: bytes, path: Path) -> AnalysedFile:
    tree = ast.parse(content, filename=str(path))
    imported = list(dict.fromkeys(_imported_names(tree)))
    _drop_strings(tree)
    digest, is_empty = _hash(tree), not tree.body
    names = sorted(_take_names_out(tree))
    _take_messages_out(tree)
    return AnalysedFile(digest, _hash(tree), names, imported, is_empty)


def _hash(tree: ast.AST) -> str:
    return hashlib.sha256(_dump(tree).encode()).hexdigest()


def _take_names_out(tree: ast.AST) -> list[list[str]]:
    """Remove the imports from the package, and the names of modules in strings. Return all of them; see Code."""
    found = []
    for node in ast.walk(tree):
        for field in NESTED:
            body = getattr(node, field, None)
            if not isinstance(body, list):
                continue
            for each in list(body):
                if _is_own(each):
                    found += [[name.asname or name.name, f"{each.module}.{name.name}"] for name in each.names]
                    body.remove(each)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and MODULE.fullmatch(node.value):
            found.append(["", node.value])
            node.value = PACKAGE
    return found


def _is_own(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and not node.level and f"{node.module}.".startswith(f"{PACKAGE}.")


def _take_messages_out(tree: ast.AST) -> None:
    """Remove the texts of errors, of failed assertions, and of what is printed to stderr: no work depends on them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            node.exc.args = [each for each in node.exc.args if not _is_text(each)]
        elif isinstance(node, ast.Assert):
            node.msg = None
        elif isinstance(node, ast.Call) and _dump(node.func) == _PRINT and _STDERR in map(_dump, node.keywords):
            node.args = [each for each in node.args if not _is_text(each)]


def _is_text(node: ast.AST) -> bool:
    """Whether an expression is a string: a constant, an f-string, or a sum of these."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _dump(node: object) -> str:
    """Write a syntax tree like ast.dump, without empty fields.

    Versions of Python differ in which empty fields a node has, and in the empty strings among the parts of an f-string.
    A constant of its own is always written, because None is also a constant.
    """
    if isinstance(node, list):
        return f"[{','.join(map(_dump, node))}]"
    if isinstance(node, ast.JoinedStr):
        parts = [part for part in node.values if not (isinstance(part, ast.Constant) and part.value == "")]
        return f"JoinedStr({_dump(parts)})"
    if isinstance(node, ast.Constant):
        return f"Constant({node.value!r})"
    if not isinstance(node, ast.AST):
        return repr(node)
    filled = ((name, getattr(node, name, None)) for name in node._fields)
    written = (f"{name}={_dump(value)}" for name, value in filled if value is not None and value != [])
    return f"{type(node).__name__}({','.join(written)})"


@cache
def read_known_code() -> dict[str, dict]:
    """Read the cached analyses, by the hash of each file's content. New analyses are saved when the process exits.

    Without the cache, every call and every job would spend a quarter of a second on analysing all files.
    """
    known = {}
    with suppress(OSError, ValueError):
        known = json.loads(KNOWN.read_text())
    atexit.register(_keep_known, known, len(known))
    return known


def _keep_known(known: dict[str, dict], count: int) -> None:
    with suppress(OSError):
        if len(known) > count and KNOWN.parent.is_dir():
            write_json_atomic(KNOWN, known)


def hash_files(paths: Iterable[str | Path]) -> str:
    """Return one hash of the code of several files.

    It depends on what the files contain, not on their names and folders: a module of the package that another one names
    counts by its own code.
    """
    works = {str(path): read_code(Path(path)) for path in paths}
    lines = []
    for code in works.values():
        targets = [f"{name}={_identify(target, works)}" for name, target in code.names]
        lines.append(" ".join([code.work, *sorted(targets)]))
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def _identify(target: str, works: dict[str, AnalysedFile]) -> str:
    """Return the code of a module, and the name in it if `target` is one. Code that is not hashed counts for nothing.

    target: dotted name of a module, or of something in it.
    """
    module = target.rstrip(".").removeprefix(PACKAGE).removeprefix(".")
    file, name = module_file(module), ""
    if file is None:
        module, _, name = module.rpartition(".")
        file = module_file(module)
    return f"{works[str(file)].work if str(file) in works else ''}.{name}"


@cache
def module_file(module: str) -> Path | None:
    """Return the file of a module, given its dotted name below the package, or None if there is no such module."""
    path = LIBRARY.joinpath(PACKAGE, *filter(None, module.split(".")))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.exists():
            return candidate
    return None


def _drop_strings(node: ast.AST) -> None:
    """Remove strings that are statements of their own: docstrings, and documentation after constants."""
    for name in NESTED:
        body = getattr(node, name, None)
        if isinstance(body, list):
            body[:] = [statement for statement in body if not _is_string(statement)]
            for statement in body:
                _drop_strings(statement)


_PRINT = _dump(ast.parse("print", mode="eval").body)
_STDERR = _dump(ast.parse("print(file=sys.stderr)", mode="eval").body.keywords[0])  # type: ignore[attr-defined]


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _imported_names(node: ast.AST) -> Iterator[str]:
    for statement in _statements(node):
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            module = "." * statement.level + f"{statement.module}." * bool(statement.module)
            yield from [module.removesuffix(".")] if statement.module else []
            yield from (f"{module}{alias.name}" for alias in statement.names)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements below a node. Expressions, which are most of a syntax tree, are not searched."""
    for name in NESTED:
        body = getattr(node, name, None)
        for statement in body if isinstance(body, list) else ():
            yield statement
            yield from _statements(statement)

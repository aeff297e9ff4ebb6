"""
Analyses one file of code: computes the hash of its syntax tree, and lists the names that it imports.

The hash ignores comments, line breaks, docstrings and the strings that document constants. It is the same in every
version of Python: another Python for the workflow reruns nothing.
"""

import ast
import atexit
import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from howmanygpus.files import write_json_atomic

KNOWN = Path(".snakemake/howmanygpus-syntax-3.json")
"""Cache of analysed files. The number in its name is the version of _analyse: increase it if _analyse changes."""
NESTED = ("body", "orelse", "handlers", "finalbody", "cases")
"""Fields of syntax tree nodes that contain statements."""


@dataclass(frozen=True)
class Code:
    """The result of analysing one file.

    digest: SHA-256 of the syntax tree.
    imported: dotted names in all import statements, including those inside functions. Relative ones begin with dots.
    is_empty: whether the file contains nothing to execute, like the `__init__.py` of most packages.
    """

    digest: str
    imported: list[str]
    is_empty: bool


@cache
def read_code(path: Path) -> Code:
    """Analyse a file, or look it up in the cache. Raises SyntaxError, which names the file, if it is not Python."""
    content, known = path.read_bytes(), _read_known()
    key = hashlib.sha256(content).hexdigest()
    if key not in known:
        known[key] = asdict(_analyse(content, path))
    return Code(**known[key])


def _analyse(content: bytes, path: Path) -> Code:
    tree = ast.parse(content, filename=str(path))
    imported = list(dict.fromkeys(_imported_names(tree)))
    _drop_strings(tree)
    return Code(hashlib.sha256(_dump(tree).encode()).hexdigest(), imported, is_empty=not tree.body)


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
def _read_known() -> dict[str, dict]:
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


def hash_files(paths: list[str] | list[Path]) -> str:
    """Return one hash of the code and the names of several files."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path} {read_code(Path(path)).digest}".encode())
    return digest.hexdigest()[:16]


def _drop_strings(node: ast.AST) -> None:
    """Remove strings that are statements of their own: docstrings, and documentation after constants."""
    for name in NESTED:
        body = getattr(node, name, None)
        if isinstance(body, list):
            body[:] = [statement for statement in body if not _is_string(statement)]
            for statement in body:
                _drop_strings(statement)


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

"""
One file of code as a step depends on it: the hash of its syntax tree, and the names it imports.

Comments, line breaks, docstrings and the strings that document constants are not part of the hash.
"""

import ast
import atexit
import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from howmanygpus.files import write_json_atomic

KNOWN = Path(f".snakemake/howmanygpus-syntax-1-python{sys.version_info.major}.{sys.version_info.minor}.json")
"""The number counts the ways to hash: raise it with a change of _analyse."""
NESTED = ("body", "orelse", "handlers", "finalbody", "cases")
"""Fields of statements that hold other statements."""


@dataclass(frozen=True)
class Code:
    """digest: SHA-256 of the syntax tree. imported: dotted names of all import statements, wherever they stand.

    is_empty: whether there is nothing to execute, as in the `__init__.py` of most packages.
    """

    digest: str
    imported: list[str]
    is_empty: bool


@cache
def read_code(path: Path) -> Code:
    """Raises SyntaxError, naming the file, for a file that is not Python."""
    content, known = path.read_bytes(), _read_known()
    key = hashlib.sha256(content).hexdigest()
    if key not in known:
        known[key] = asdict(_analyse(content, path))
    return Code(**known[key])


def _analyse(content: bytes, path: Path) -> Code:
    tree = ast.parse(content, filename=str(path))
    imported = list(dict.fromkeys(_imported_names(tree)))
    _drop_strings(tree)
    return Code(hashlib.sha256(ast.dump(tree).encode()).hexdigest(), imported, is_empty=not tree.body)


@cache
def _read_known() -> dict[str, dict]:
    """What is known of files by the hash of their content; what is learned now is kept at the end of the process.

    Analysing all files takes a quarter of a second, which every call and every job would pay.
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
    """Hash of the code of some files, with their names."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path} {read_code(Path(path)).digest}".encode())
    return digest.hexdigest()[:16]


def _drop_strings(node: ast.AST) -> None:
    """Remove strings that stand alone as statements: docstrings, and documentation after constants."""
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
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            yield statement.module
            yield from (f"{statement.module}.{alias.name}" for alias in statement.names)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node; expressions, which are most of a file, are not searched."""
    for name in NESTED:
        body = getattr(node, name, None)
        for statement in body if isinstance(body, list) else ():
            yield statement
            yield from _statements(statement)

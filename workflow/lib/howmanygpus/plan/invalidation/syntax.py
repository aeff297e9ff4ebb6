"""
One file of code as a step depends on it: the hash of its syntax tree, and the names it imports.

Comments, line breaks, docstrings and the strings that document constants are not part of the hash.
"""

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

NESTED = ("body", "orelse", "handlers", "finalbody", "cases")
"""Fields of statements that hold other statements."""


@dataclass(frozen=True)
class Code:
    """digest: SHA-256 of the syntax tree. imported: dotted names of all import statements, wherever they stand.

    is_empty: whether there is nothing to execute, as in the `__init__.py` of most packages.
    """

    digest: bytes
    imported: tuple[str, ...]
    is_empty: bool


@cache
def read_code(path: Path) -> Code:
    """Raises SyntaxError, naming the file, for a file that is not Python."""
    tree = ast.parse(path.read_bytes(), filename=str(path))
    imported = tuple(dict.fromkeys(_imported_names(tree)))
    _drop_strings(tree)
    digest = hashlib.sha256(ast.dump(tree).encode()).digest()
    return Code(digest, imported, is_empty=not tree.body)


def hash_files(paths: list[str] | list[Path]) -> str:
    """Hash of the code of some files, with their names."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(str(path).encode() + read_code(Path(path)).digest)
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

"""No framework's code reads a clock, because only the training loop measures time."""

import ast
from pathlib import Path

import pytest

from howmanygpus.measure import frameworks

CLOCKS = {"clock", "perf_counter", "perf_counter_ns", "process_time", "monotonic_ns", "time_ns", "thread_time"}
MAY_WAIT = {"horovod.py": {"monotonic", "sleep"}}
"""Exceptions by file. A deadline for processes to find each other is not a measurement."""


def clocks_read(source: str, allowed: set[str]) -> set[str]:
    """Return the names in a module that read a clock or come from the module `time`, except for the allowed ones."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            is_of_time = isinstance(node.value, ast.Name) and node.value.id in ("time", "timeit")
            found |= {node.attr} if is_of_time or node.attr in CLOCKS else set()
        elif isinstance(node, ast.ImportFrom) and node.module in ("time", "timeit"):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and node.id in CLOCKS:
            found.add(node.id)
    return found - allowed


@pytest.mark.parametrize(
    "source", ["import time; time.time()", "from time import time", "loop.clock()", "x = time.perf_counter"]
)
def test_a_clock_would_be_seen(source):
    assert clocks_read(source, {"sleep"})


def test_no_framework_reads_a_clock():
    """Only the training loop measures time."""
    folder = Path(frameworks.__file__).parent
    read = {
        str(path.relative_to(folder)): clocks_read(path.read_text(), MAY_WAIT.get(str(path.relative_to(folder)), set()))
        for path in sorted(folder.rglob("*.py"))
    }
    assert len(read) > 50
    assert not {path: names for path, names in read.items() if names}

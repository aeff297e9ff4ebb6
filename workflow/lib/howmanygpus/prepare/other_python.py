"""
Call functions in the Python of another environment and time them there, in turns with calls in this process.

The other process executes this module. It reads pickled calls and answers each with the CPU seconds that the function
took, and its result.
"""

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from howmanygpus.base.environment import build_surroundings
from howmanygpus.prepare.images.decoding import Levels, decode
from howmanygpus.prepare.images.resizing import resize

LIBRARY = Path(__file__).resolve().parents[2]


class OtherPython:
    """A process in another environment that calls functions of the package. It ends with the block of `with`."""

    def __init__(self, python: str):
        environment = build_surroundings(os.environ) | {"PYTHONPATH": str(LIBRARY)}
        command = [python, "-m", "howmanygpus.prepare.other_python"]
        self._process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> "OtherPython":
        return self

    def __exit__(self, *_) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()

    def call(self, function: Callable, *arguments: Any, **options: Any) -> tuple[float, Any]:
        """Return the CPU seconds of a call, and its result. Raises EOFError if the process has ended."""
        assert self._process.stdin and self._process.stdout
        pickle.dump((function, arguments, options), self._process.stdin)
        self._process.stdin.flush()
        return pickle.load(self._process.stdout)


def call_here(function: Callable, *arguments: Any, **options: Any) -> tuple[float, Any]:
    """Return the CPU seconds of a call in this process, and its result."""
    started = time.process_time()
    result = function(*arguments, **options)
    return time.process_time() - started, result


def decode_and_resize(
    data: bytes, channels: int, library: str, levels: Levels | None, size: tuple[int, int], filter_name: str
) -> np.ndarray:
    """Prepare one image, as howmanygpus.prepare.shards does. This module can be imported without pandas."""
    return resize(decode(data, channels, library, levels), size, filter_name)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer calls until there are no more."""
    while True:
        try:
            function, arguments, options = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(call_here(function, *arguments, **options), answers)
        answers.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)

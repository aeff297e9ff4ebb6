"""Keeps what the processes of a run, and the program that started them, write to stderr."""

import io
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

from howmanygpus.base.secrets import make_hiding


def tee_stderr(stream, path: Path) -> threading.Thread:
    """Copy the lines of a stream of bytes to stderr and to a new file, in a thread that ends with the stream.

    Secrets in this process's variables are replaced.

    The writers use the encoding of the locale. The file is UTF-8. On a full disk the lines are lost, but they are still
    read, so that the writers do not block.
    """
    path.unlink(missing_ok=True)

    def pass_on() -> None:
        for line in map(make_hiding(os.environ), io.TextIOWrapper(stream, errors="replace")):
            with suppress(OSError):
                # Python's stderr escapes what it cannot encode.
                sys.stderr.write(line)
            # The encoding of the locale may lack characters, and an error would end the thread.
            with suppress(OSError), open(path, "a", encoding="utf-8", errors="replace") as kept:
                kept.write(line)

    thread = threading.Thread(target=pass_on, name="stderr", daemon=True)
    thread.start()
    return thread

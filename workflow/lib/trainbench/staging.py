"""Copies of the data on a node's own disk, made once per node and data set."""

import fcntl
import os
import shutil
import time
from pathlib import Path

from trainbench.data import read_description

STAGED = "TRAINBENCH_DATA_DIR"
"""Environment variable by which a process learns where the data lie instead."""


def stage(data_dir: Path, scratch: str) -> tuple[Path, float]:
    """Folder of the copy, and the seconds it took to have it there; the first process of a node makes it.

    Its name bears the hash of the manifest of the images, so that other data are another folder. It stays for the next
    run. Variables such as $TMPDIR are this node's. Raises FileNotFoundError where the scratch folder does not exist.
    """
    started, root = time.monotonic(), Path(os.path.expandvars(scratch))
    if not root.is_dir():
        raise FileNotFoundError(f"scratch folder {root} ({scratch} in the machine file) does not exist on this node")
    copy = root / f"howmanygpus-{read_description(data_dir)['sha256']['manifest.tsv'][:16]}-{data_dir.name}"
    with open(copy.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not copy.exists():
            partial = copy.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(data_dir, partial)
            partial.rename(copy)
    return copy, time.monotonic() - started

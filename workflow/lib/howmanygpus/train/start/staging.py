"""Copies of the data on a node's own disk, made once per node and data set."""

import os
import shutil
import time
from pathlib import Path

from howmanygpus.files import atomic_folder, hold_lock
from howmanygpus.train.input.prepared import read_description

STAGED = "HOWMANYGPUS_DATA_DIR"
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
    with hold_lock(copy.with_suffix(".lock")):
        if not copy.exists():
            with atomic_folder(copy) as partial:
                shutil.copytree(data_dir, partial, dirs_exist_ok=True)
    return copy, time.monotonic() - started

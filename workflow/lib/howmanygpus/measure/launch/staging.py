"""Copy the data to a node's own disk, once per node and data set."""

import os
import shutil
import time
from pathlib import Path

from howmanygpus.files import atomic_folder, hold_lock, remove_leftovers
from howmanygpus.measure.input.description import read_description

STAGED = "HOWMANYGPUS_DATA_DIR"
"""Environment variable with the folder of the copy, which a process reads in place of the data."""


def stage(data_dir: Path, scratch: str) -> tuple[Path, float]:
    """Return the folder of the copy, and the seconds until it was there; the first process of a node makes it.

    The folder's name has the hash of the images' manifest, so that other data go to another folder. The copy stays for
    the next run. Variables in `scratch`, such as $TMPDIR, are those of this node. Raises FileNotFoundError if the
    scratch folder does not exist.
    """
    started, root = time.monotonic(), Path(os.path.expandvars(scratch))
    if not root.is_dir():
        raise FileNotFoundError(f"scratch folder {root} ({scratch} in the machine file) does not exist on this node")
    copy = root / f"howmanygpus-{read_description(data_dir)['sha256']['manifest.tsv'][:16]}-{data_dir.name}"
    with hold_lock(copy.with_suffix(".lock")):
        if not copy.exists():
            remove_leftovers(copy)  # of a process that was killed
            with atomic_folder(copy) as partial:
                shutil.copytree(data_dir, partial, dirs_exist_ok=True)
    return copy, time.monotonic() - started

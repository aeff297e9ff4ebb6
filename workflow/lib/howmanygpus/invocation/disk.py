"""Find out whether files can still be written, before the first job and when a job has failed."""

import errno
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from howmanygpus.base.environment import resolve_cache
from howmanygpus.config.errors import ConfigError
from howmanygpus.config.findings import Finding, find_error
from howmanygpus.paths import RUNS, STATE
from howmanygpus.study.plan import Plan

PROBE_MIB = 16
"""Amount of data written to find out, because a quota is only noticed by writing."""
FULL = (errno.ENOSPC, errno.EDQUOT)
DISK_FULL_MESSAGE = re.compile(f"{os.strerror(errno.ENOSPC)}|{os.strerror(errno.EDQUOT)}")
GIB = 2**30
UNCOMPRESSED = ("arrays", "synthetic", "resident")
"""Inputs whose prepared images take one byte for each channel of each pixel."""


def list_folders() -> list[Path]:
    """Return the folders in which calls write: the project's, its results, and the cache of environments."""
    folders = [Path().resolve(), resolve_cache().resolve()]
    results = Path("results")
    if results.is_symlink() or results.is_mount():
        folders.insert(1, results.resolve())
    return folders


def refuse_lost_links() -> None:
    """Raise ConfigError for each folder in which calls write that is a link to something that is gone."""
    results = Path("results")
    paths = [STATE.parent, results, *(sorted(results.iterdir()) if results.is_dir() else [])]
    lost = [path for path in paths if path.is_symlink() and not path.exists()]
    if lost:
        remedy = "make that folder or mount what it is on, or remove the link"
        raise ConfigError(*(f"{path}: is a link to {path.readlink()}, which is not there; {remedy}" for path in lost))


def list_full_disks(folders: Iterable[Path]) -> list[str]:
    """Return a message for each folder in which PROBE_MIB cannot be written. Read-only folders are left out."""
    messages = []
    for folder in folders:
        existing = next(each for each in (folder, *folder.parents) if each.exists())
        try:
            _write(existing)
        except OSError as error:
            if error.errno in FULL:
                messages.append(_explain(existing, error))
    return messages


def find_lack_of_space(plan: Plan) -> list[Finding]:
    """Return each data set that missing runs need and that does not fit on the disk of the results.

    Existing data is left out, and so are files of compressed images, whose size is not known in advance.
    """
    results = Path("results").resolve()
    existing = next(folder for folder in (results, *results.parents) if folder.exists())
    free = left = shutil.disk_usage(existing).free
    found = []
    for folder, (name, num_bytes) in _list_missing_data(plan).items():
        left -= num_bytes
        if left < 0:
            beside = (
                f", where {(left + num_bytes) / GIB:.2f} remain beside other data" if left + num_bytes < free else ""
            )
            problem = f"its images in {folder} take {num_bytes / GIB:.2f} GiB, and {existing} has "
            problem += f"{free / GIB:.2f} GiB free{beside}"
            found.append(find_error(f"datasets.{name}", "", problem, "use fewer or smaller images, or make room"))
    return found


def _list_missing_data(plan: Plan) -> dict[str, tuple[str, int]]:
    """Return data set and bytes of each folder of prepared images that is to be made for a missing run."""
    found: dict[str, tuple[str, int]] = {}
    for study in plan.studies.values():
        for run in [] if study.is_program else study.runs:
            folder = study.data_dir(run)
            if run.input not in UNCOMPRESSED or run.unsupported or folder in found:
                continue
            if not (Path(folder, "dataset.json").exists() or (RUNS / run.path / "run.json").exists()):
                images = study.description.num_train + study.description.num_test
                found[folder] = (study.config["dataset"], math.prod(study.description.image_shape) * images)
    return found


def _write(folder: Path) -> None:
    # Random bytes, because some file systems compress. Network file systems notice a quota only at fsync.
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(PROBE_MIB):
            file.write(os.urandom(2**20))
        file.flush()
        os.fsync(file.fileno())


def _explain(folder: Path, error: OSError) -> str:
    usage = shutil.disk_usage(folder)
    free = f"{usage.free / GIB:.2f} of {usage.total / GIB:.2f} GiB are free"
    if error.errno == errno.EDQUOT:
        free = "`quota -s` or your site's own command shows the quota"
    return (
        f"{folder}: {PROBE_MIB} MiB cannot be written: {error.strerror} ({free}); delete what is not needed, then give "
        "the same call again"
    )


def read_end(log: Path, num_bytes: int = 2**16) -> str:
    """Return the end of a log; empty if there is no log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - num_bytes))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def find_disk_full_message(log: Path) -> str:
    """Return the last line of a log that says that the disk or a quota was full; empty if there is none."""
    lines = reversed(read_end(log).splitlines())
    return next((line.strip() for line in lines if DISK_FULL_MESSAGE.search(line)), "")

"""The kernel's limits on memory and processor time, by control groups of version 1 and 2, also nested ones."""

import os
from collections.abc import Iterator
from pathlib import Path

import psutil

SELF = Path("/proc/self")
UNLIMITED = 2**60
"""Version 1 writes about 2^63 for no limit."""
FILES = {2: ("memory.max", "memory.current", ""), 1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")}
"""Files with a group's limit and use, and the prefix of the names in memory.stat that count its descendants too.

Version 2 always counts them (kernel documentation, admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst).
"""


def list_groups(controller: str) -> tuple[int, list[Path]]:
    """Return the version of a controller, and the folders of this process's group and of the groups around it.

    A container sees a part of the hierarchy, whose root is the fourth field of its mount (proc(5), mountinfo).
    """
    paths: dict[str, str] = {}
    for line in _read_lines(SELF / "cgroup"):
        _, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), path)
    version = 1 if controller in paths else 2
    own = paths.get(controller if version == 1 else "")
    for root, mounted in _list_mounts(version, controller):
        if own is None:
            break
        # A group that is not below the root of the mount is seen from another namespace.
        below = os.path.relpath(own, root) if Path(own).is_relative_to(root) else "."
        folder = mounted / below
        return version, [path for path in (folder, *folder.parents) if path.is_relative_to(mounted)]
    return version, []


def _list_mounts(version: int, controller: str) -> Iterator[tuple[str, Path]]:
    for line in _read_lines(SELF / "mountinfo"):
        fields, _, rest = line.partition(" - ")
        (_, _, _, root, mounted, *_), (kind, _, options) = fields.split(" "), rest.split(" ", 2)
        if (kind == "cgroup2" and version == 2) or (kind == "cgroup" and controller in options.split(",")):
            yield root, Path(mounted)


def read_memory_bytes() -> int:
    """Return the memory that this process and its children may use: the host's, or less by its groups."""
    version, groups = list_groups("memory")
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([total, *filter(None, (_read_number(group / FILES[version][0]) for group in groups))])


def compute_free_bytes() -> int:
    """Return the memory that files may fill, within the limits of this process's groups."""
    version, groups = list_groups("memory")
    free = psutil.virtual_memory().available
    for group in groups:
        if limit := _read_number(group / FILES[version][0]):
            free = min(free, limit - _read_kept_bytes(group, version))
    return free


def _read_kept_bytes(group: Path, version: int) -> int:
    """Return the memory in use by a group, without cached files, which the kernel can drop."""
    _, current, prefix = FILES[version]
    dropped = {f"{prefix}active_file", f"{prefix}inactive_file"}
    lines = (line.split() for line in _read_lines(group / "memory.stat"))
    used = _read_number(group / current) or 0
    return used - sum(int(value) for name, value in lines if name in dropped)


def count_cores_in_quota() -> int | None:
    """Return the whole cores that this process's groups may use at a time, at least 1; None without a quota.

    A set of cores (cpuset) is no quota: the kernel shows it as the cores that a process may run on.
    """
    version, groups = list_groups("cpu")
    shares = []
    for group in groups:
        if version == 2:
            quota, _, period = "".join(_read_lines(group / "cpu.max")).partition(" ")
        else:
            quota, period = ("".join(_read_lines(group / f"cpu.cfs_{name}_us")) for name in ("quota", "period"))
        if quota.isdigit() and period:
            shares.append(int(quota) / int(period))
    return max(1, int(min(shares))) if shares else None


def _read_number(path: Path) -> int | None:
    """Return the number in a file; None without the file, or if the number stands for no limit."""
    text = "".join(_read_lines(path))
    return int(text) if text.isdigit() and int(text) < UNLIMITED else None


def _read_lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []

"""The kernel's limits are found by every version of control groups, also inside of containers."""

import os

import pytest

from howmanygpus.measure.host import limits
from howmanygpus.measure.host.processes import list_cores

GIB = 2**30
V2 = "30 23 0:26 {root} {mounted} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "31 23 0:27 {root} {mounted}/memory rw - cgroup cgroup rw,memory\n"
    "32 23 0:28 {root} {mounted}/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
)


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Return a function that gives this process groups: what /proc tells, and files by their path below the mount."""
    monkeypatch.setattr(limits, "SELF", tmp_path)

    def set_up(cgroup: str, mountinfo: str, files: dict[str, str], root: str = "/") -> None:
        mounted = tmp_path / "sys"
        (tmp_path / "cgroup").write_text(cgroup)
        (tmp_path / "mountinfo").write_text(
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + mountinfo.format(root=root, mounted=mounted)
        )
        for name, text in files.items():
            (mounted / name).parent.mkdir(parents=True, exist_ok=True)
            (mounted / name).write_text(f"{text}\n")

    return set_up


def test_the_smallest_limit_of_nested_groups_of_version_2_counts(host):
    files = {"job/memory.max": "max", "job/step/memory.max": str(GIB), "job/cpu.max": "150000 100000"}
    files |= {"job/step/cpu.max": "max 100000", "job/memory.current": "0"}
    files |= {"job/step/memory.current": "900", "job/step/memory.stat": "anon 300\nactive_file 250\ninactive_file 350"}
    host("0::/job/step\n", V2, files)
    assert limits.read_memory_bytes() == GIB and limits.compute_free_bytes() == GIB - 300
    assert limits.count_cores_in_quota() == 1


def test_limits_of_version_1_count(host):
    files = {"memory/job/memory.limit_in_bytes": str(GIB), "memory/memory.limit_in_bytes": "9223372036854771712"}
    files |= {"memory/job/memory.usage_in_bytes": "900", "cpu,cpuacct/job/cpu.cfs_quota_us": "250000"}
    files |= {"memory/job/memory.stat": "inactive_file 1\ntotal_active_file 250\ntotal_inactive_file 350"}
    files |= {"cpu,cpuacct/job/cpu.cfs_period_us": "100000", "cpu,cpuacct/cpu.cfs_quota_us": "-1"}
    host("5:memory:/job\n4:cpu,cpuacct:/job\n0::/init.scope\n", V1, files)
    assert limits.read_memory_bytes() == GIB and limits.compute_free_bytes() == GIB - 300
    assert limits.count_cores_in_quota() == 2


@pytest.mark.parametrize("root", ["/docker/abc", "/elsewhere"])
def test_the_limits_of_a_container_are_at_the_root_of_its_mount(host, root):
    files = {"memory/memory.limit_in_bytes": str(GIB)}
    host("5:memory:/docker/abc\n", V1, files, root=root)
    assert limits.read_memory_bytes() == GIB


def test_version_2_counts_beside_version_1_of_other_controllers(host):
    host("1:name=systemd:/job\n0::/job\n", V2 + V1.replace("rw,memory", "rw,freezer"), {"job/memory.max": str(GIB)})
    assert limits.read_memory_bytes() == GIB and limits.count_cores_in_quota() is None


def test_a_host_without_groups_limits_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "SELF", tmp_path)
    assert limits.read_memory_bytes() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert limits.compute_free_bytes() > 0 and limits.count_cores_in_quota() is None


def test_devices_share_no_more_cores_than_a_quota_gives(host, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1, 2, 3})
    host("0::/job\n", V2, {"job/cpu.max": "200000 100000"})
    assert len(list_cores()) == 2

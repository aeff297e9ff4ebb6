"""The node and the CPU devices of a run are sampled: cores, memory, energy, disks and network."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from howmanygpus.measure.host import host_samples
from howmanygpus.measure.host.host_samples import HOST, Node, ProcessMemory, ProcessorEnergy, Traffic

GIB = 2**30
HOLD = "import sys; held = b'x' * (int(sys.argv[1]) * 2**20); print('holds', flush=True); sys.stdin.read()"
"""A process that holds some MiB until its input ends."""


@pytest.fixture
def proc(tmp_path, monkeypatch):
    """Return a function that writes /proc/stat. ticks: user, idle and iowait of each core."""
    monkeypatch.setattr(host_samples, "PROC", tmp_path)

    def write(*ticks):
        lines = [f"cpu{core} {user} 0 0 {idle} {wait} 0 0 0 7 0" for core, (user, idle, wait) in ticks]
        (tmp_path / "stat").write_text("\n".join(["cpu  1 2 3 4 5 6 7 8 9 0", *lines, "intr 1 2 3", "ctxt 5"]))

    return write


def sample(node, is_slow):
    return dict(node.sample(0.0, is_slow))


def test_a_device_has_the_utilisation_of_its_own_cores(proc):
    proc((0, (100, 100, 0)), (1, (0, 0, 0)), (2, (50, 0, 0)), (8, (0, 0, 0)))
    node = Node([[0, 2], [1, 8]], ProcessMemory(os.getpid(), 2, is_process_each=False))
    proc((0, (110, 100, 0)), (1, (5, 5, 0)), (2, (50, 10, 0)), (8, (0, 2, 8)))
    found = sample(node, is_slow=False)
    assert found["cpu0"]["utilisation_frac"] == 0.5 and found["cpu1"]["utilisation_frac"] == 0.25
    assert found[HOST] == {"utilisation_frac": pytest.approx(15 / 40)}, "the rest is read once a second"
    proc((0, (110, 110, 0)), (1, (15, 5, 0)), (2, (60, 10, 0)), (8, (0, 12, 8)))
    found = sample(node, is_slow=True)
    assert found["cpu0"]["utilisation_frac"] == 0.5 and found["cpu1"]["utilisation_frac"] == 0.5
    assert found[HOST]["cores_frac"] == "0.50 0.75 0.50 0.00", "since the last slow sample, by number of core"


def test_a_kernel_that_counts_no_time_leaves_the_utilisation_empty(proc):
    proc((0, (0, 0, 0)))
    node = Node([[0]], ProcessMemory(os.getpid(), 1, is_process_each=False))
    found = sample(node, is_slow=True)
    assert found["cpu0"]["utilisation_frac"] is None and found[HOST]["cores_frac"] == "nan"


def hold(mib: int, rank: int | None, command: tuple = (), **variables: str) -> subprocess.Popen:
    """Start a process that holds memory. rank: its number on its node."""
    environment = {key: value for key, value in os.environ.items() if key not in host_samples.LOCAL_RANKS}
    environment |= variables | ({} if rank is None else {"LOCAL_RANK": str(rank)})
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    return subprocess.Popen([*command, sys.executable, "-c", HOLD, str(mib)], **pipes)


@pytest.fixture
def holders():
    """Two processes of device 0, of which the second has a shell for parent, one of device 1, and a launcher."""
    started = [hold(64, 0), hold(32, 0, ("sh", "-c", '"$@"; true', "sh")), hold(128, 1), hold(256, None)]
    for each in started:
        assert each.stdout.readline() == "holds\n"
    yield started
    for each in started:
        each.communicate("")


def test_a_device_has_the_memory_of_its_own_processes(holders):
    found = ProcessMemory(os.getpid(), 2, is_process_each=True).sample()
    mib = [each * 1024 for each in found]
    assert 96 < mib[0] < 96 + 3 * 24 and 128 < mib[1] < 128 + 24, "without the launcher's"


def test_independent_runs_have_memory_of_their_own():
    """Each of their processes is the first one of a run."""
    started = [hold(mib, 0, HOWMANYGPUS_DEVICE=str(device)) for device, mib in enumerate((64, 128))]
    for each in started:
        assert each.stdout.readline() == "holds\n"
    found = [each * 1024 for each in ProcessMemory(os.getpid(), 2, is_process_each=True).sample()]
    for each in started:
        each.communicate("")
    assert 64 < found[0] < 64 + 24 and 128 < found[1] < 128 + 24


def test_devices_that_share_a_process_have_its_memory_once(holders):
    first, second = ProcessMemory(os.getpid(), 2, is_process_each=False).sample()
    assert first * 1024 > 64 + 32 + 128 + 256 and second is None
    node = Node([[0], [0]], ProcessMemory(os.getpid(), 2, is_process_each=False))
    assert "memory_gib" in node.expected["cpu0"] and "memory_gib" not in node.expected["cpu1"]


def test_a_process_that_starts_later_is_found_and_one_that_ends_is_not_missed(monkeypatch):
    monkeypatch.setattr(host_samples, "SEARCH_EVERY_S", 0.0)
    monkeypatch.setattr(host_samples, "SEARCH_FRAC", 1e9)
    memory = ProcessMemory(os.getpid(), 1, is_process_each=True)
    assert memory.sample() == [0.0]
    with hold(64, 0) as later:
        later.stdout.readline()
        time.sleep(0.01)
        assert memory.sample()[0] * 1024 > 64
        later.communicate("")
    assert memory.sample() == [0.0]


def test_looking_for_processes_has_a_budget(monkeypatch):
    """A node has thousands of threads, and the search is repeated for as long as the run takes."""
    memory, searches = ProcessMemory(os.getpid(), 1, is_process_each=False), []
    clock, cpu_s = iter([0.0, 0.0, 1.0, 9.0, 10.1, 10.1]), iter([0.0, 0.02, 5.0, 5.0])
    times = SimpleNamespace(monotonic=lambda: next(clock), thread_time=lambda: next(cpu_s))
    monkeypatch.setattr(host_samples, "time", times)
    monkeypatch.setattr(host_samples, "list_descendants", lambda pid: searches.append(pid) or [])
    for _ in range(4):
        memory.sample()
    assert len(searches) == 2, "one of 20 ms, and the next 10 s later"


def write_zone(folder, name, kind, energy_uj):
    (folder / name).mkdir(exist_ok=True)
    for file, value in (("name", kind), ("energy_uj", energy_uj), ("max_energy_range_uj", 100_000_000)):
        (folder / name / file).write_text(f"{value}\n")


def test_the_energy_of_processors_goes_on_when_a_counter_begins_again(tmp_path, monkeypatch):
    monkeypatch.setattr(host_samples, "POWERCAP", tmp_path)
    write_zone(tmp_path, "intel-rapl:0", "package-0", 90_000_000)
    write_zone(tmp_path, "intel-rapl:0:0", "core", 1)
    write_zone(tmp_path, "intel-rapl:0:1", "dram", 5_000_000)
    write_zone(tmp_path, "intel-rapl:1", "psys", 1)
    energy = ProcessorEnergy()
    assert energy.sample(10.0) == {"energy_j": 0.0, "power_w": None}
    write_zone(tmp_path, "intel-rapl:0", "package-0", 30_000_000)
    write_zone(tmp_path, "intel-rapl:0:1", "dram", 9_000_000)
    for name, kind in (("intel-rapl:0:0", "core"), ("intel-rapl:1", "psys")):
        write_zone(tmp_path, name, kind, 40_000_000)
    assert energy.sample(12.0) == {"energy_j": pytest.approx(44.0), "power_w": pytest.approx(22.0)}
    assert energy.problem is None


def test_energy_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    """Since Linux 5.10 only the administrator may read it. Half of a node's processors are not its energy."""
    monkeypatch.setattr(host_samples, "POWERCAP", tmp_path)
    for number in range(2):
        write_zone(tmp_path, f"intel-rapl:{number}", f"package-{number}", 1)
    (tmp_path / "intel-rapl:1" / "energy_uj").unlink()
    energy = ProcessorEnergy()
    assert energy.sample(1.0) == {} and "intel-rapl:1/energy_uj: No such file" in energy.problem
    node = Node([], None)
    assert set(node.missing[HOST]) == {"power_w", "energy_j"}


def test_traffic_over_hardware_counts_once(tmp_path, monkeypatch):
    """The kernel counts what passes a bridge, or a bond of two interfaces, in each of them."""
    monkeypatch.setattr(host_samples, "INTERFACES", tmp_path)
    (tmp_path / "eth0" / "device").mkdir(parents=True)
    counted = {"lo": 9, "eth0": 1, "br0": 1}

    def read(pernic):
        return {name: SimpleNamespace(bytes_recv=count * GIB, bytes_sent=0) for name, count in counted.items()}

    monkeypatch.setattr(host_samples.psutil, "net_io_counters", read)
    traffic = Traffic()
    assert traffic.sample(0.0)["network_rx_gib_per_s"] is None
    counted |= {"lo": 90, "eth0": 5, "br0": 5}
    assert traffic.sample(2.0)["network_rx_gib_per_s"] == 2.0
    (tmp_path / "eth0" / "device").rmdir()
    in_container = Traffic()
    in_container.sample(0.0)
    counted |= {"lo": 900, "eth0": 6, "br0": 8}
    assert in_container.sample(1.0)["network_rx_gib_per_s"] == 4.0, "all but the loopback"

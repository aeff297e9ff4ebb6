"""The samples of a node arrive on the clock of events, and a sampler that dies, is late or lacks values is noticed."""

import json
import subprocess
import sys
import threading
import time

import pynvml
import pytest

from hanging import HANG_S
from helpers.messages import says
from helpers.nvml import FakeGpu, FakeNvml
from howmanygpus.measure.host import telemetry
from howmanygpus.measure.host.samples import COLUMNS
from howmanygpus.measure.host.telemetry import (
    Telemetry,
    describe_samples,
    find_problem,
    format_value,
    get_node_path,
    get_start_path,
    merge_nodes,
)
from howmanygpus.report.telemetry import read_telemetry

UNTIL_SAMPLED = """
import sys, time
from pathlib import Path

path = Path(sys.argv[1])
while not path.exists() or "GPU-one" not in path.read_text():
    time.sleep(0.01)
"""
"""A run that ends when its GPU has been sampled."""
INTERVAL_S, LATE_FRAC = 0.01, telemetry.LATE_FRAC


@pytest.fixture(autouse=True)
def never_late(monkeypatch):
    """Samplers that get no CPU for some of these short intervals are no problem here."""
    monkeypatch.setattr(telemetry, "LATE_FRAC", 1.0)


class Simulated:
    """A source with one device. behave: called at each sample with its number, from 1; returns the values."""

    def __init__(self, behave, expected=("power_w",), problems=()):
        self.of_board = {}
        self._behave, self.num_samples, self._problems = behave, 0, list(problems)
        self.expected, self.missing = {"GPU-one": expected}, {"GPU-one": {}}

    def sample(self, time_s, is_slow):
        self.num_samples += 1
        yield "GPU-one", self._behave(self.num_samples)

    def find_problems(self):
        return self._problems


def run_sampler(folder, source, num_samples, interval_s=INTERVAL_S, node=0):
    """Sample a source so many times."""
    with Telemetry(get_node_path(folder, node), lambda: [source], time.time(), interval_s, node):
        deadline = time.monotonic() + HANG_S
        while source.num_samples < num_samples and time.monotonic() < deadline:
            time.sleep(0.001)


def start_program(monkeypatch, folder, watched, **placement):
    """Start the program of a cluster's node in this process."""
    values = {"pid": watched.pid, "gpu_uuids": ["GPU-one"], "cores": [], "is_process_each": False}
    options = ["--folder", str(folder), "--node", "1", "--watched", json.dumps(values), "--interval-s", "0.02"]
    monkeypatch.setattr(sys, "argv", ["telemetry", *options])
    telemetry.main()


def test_the_program_of_a_cluster_samples_gpus(tmp_path, monkeypatch):
    """A process of its own has to initialise NVML before it asks."""
    FakeNvml([FakeGpu("GPU-one")]).install(monkeypatch)
    get_start_path(tmp_path).write_text(repr(time.time() - 1000))
    watched = subprocess.Popen([sys.executable, "-c", UNTIL_SAMPLED, str(get_node_path(tmp_path, 1))])
    start_program(monkeypatch, tmp_path, watched)
    merge_nodes(tmp_path, tmp_path / "telemetry.csv")
    samples = read_telemetry(tmp_path)
    assert tuple(samples.columns) == COLUMNS and set(samples["device"]) == {"GPU-one", "host"}
    gpu = samples[samples["device"] == "GPU-one"].iloc[0]
    assert (gpu["node"], gpu["utilisation_frac"], gpu["memory_gib"], gpu["power_w"]) == (1, 0.5, 1.0, 300.0)
    assert samples["time_s"].between(1000, 1400).all(), "since the launcher of the run started, on every node"
    get_node_path(tmp_path, 0).touch()
    assert find_problem(tmp_path, 2, time.time()) is None


def test_a_program_that_cannot_sample_leaves_its_reason(tmp_path, monkeypatch):
    """It ends with the run."""
    FakeNvml([]).install(monkeypatch)
    get_start_path(tmp_path).write_text("0.0")
    start_program(monkeypatch, tmp_path, subprocess.Popen(["sleep", "0.5"]))
    get_node_path(tmp_path, 0).touch()
    assert find_problem(tmp_path, 2, time.time()).startswith("the sampler of node 1 failed: pynvml.NVMLError_NotFound")


def test_a_sampler_that_dies_is_noticed(tmp_path):
    def die(number):
        if number == 3:
            raise OSError("the device is lost")
        return {"power_w": 1.0}

    run_sampler(tmp_path, Simulated(die), 3)
    assert says(find_problem(tmp_path, 1, time.time()), "node 0", "OSError: the device is lost")
    merge_nodes(tmp_path, tmp_path / "telemetry.csv")
    assert len((tmp_path / "telemetry.csv").read_text().splitlines()) == 3, "the samples before stay"


def test_a_sampler_that_cannot_write_its_reason_stops_no_run(tmp_path):
    path = get_node_path(tmp_path, 0)
    path.touch()
    path.with_suffix(".problem.txt").touch()
    assert says(find_problem(tmp_path, 1, time.time()), "node 0", "could not write why")


def test_a_sampler_that_was_killed_is_noticed_by_its_silence(tmp_path):
    path = get_node_path(tmp_path, 0)
    path.touch()
    written = path.stat().st_mtime
    assert find_problem(tmp_path, 1, written + 5) is None
    assert says(find_problem(tmp_path, 1, written + 95), "node 0", "no sample", "95 s")
    assert says(find_problem(tmp_path, 2, written), "node 1", "no sample")


def test_a_sampler_that_is_late_is_noticed(tmp_path, monkeypatch):
    """A device that takes four times as long as the interval leaves out three of four samples."""
    monkeypatch.setattr(telemetry, "LATE_FRAC", LATE_FRAC)
    run_sampler(tmp_path, Simulated(lambda number: time.sleep(4.5 * INTERVAL_S) or {"power_w": 1.0}), 8)
    problem = describe_samples(tmp_path, 1, time.time(), INTERVAL_S)["problem"]
    assert says(problem, "node 0", "late", "left out")
    left_out, due = [int(word) for word in problem.split() if word.isdigit()][-2:]
    assert 8 * 3 <= left_out <= due - 8


def test_a_run_does_not_wait_for_a_device_that_never_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(telemetry, "END_S", 0.2)
    answer = threading.Event()
    run_sampler(tmp_path, Simulated(lambda number: answer.wait(60) and {}), 1)
    assert says(find_problem(tmp_path, 1, time.time()), "node 0", "not answered for 0.2 s")
    answer.set()


def test_a_device_that_is_lost_is_noticed(tmp_path):
    run_sampler(tmp_path, Simulated(lambda number: {"power_w": 1.0}, problems=["GPU-one gave no power"]), 3)
    assert says(find_problem(tmp_path, 1, time.time()), "node 0", "GPU-one gave no power")


def test_what_was_never_given_is_named_with_its_reason(tmp_path, monkeypatch):
    """Samples of a second: all columns have been asked for."""
    monkeypatch.setattr(telemetry, "SLOW_S", INTERVAL_S)
    source = Simulated(lambda number: {"power_w": 1.0, "energy_j": None}, ("power_w", "energy_j", "memory_gib"))
    source.missing["GPU-one"]["memory_gib"] = "Insufficient Permissions"
    run_sampler(tmp_path, source, 3)
    described = describe_samples(tmp_path, 1, time.time(), INTERVAL_S)
    assert described["missing"] == {"GPU-one": ["energy", "memory (Insufficient Permissions)"]}
    assert described["problem"] is None and described["interval_s"] == INTERVAL_S
    assert 0 < described["core_frac"] <= 1


def test_of_a_part_the_record_names_what_only_its_board_gives(tmp_path, monkeypatch):
    monkeypatch.setattr(telemetry, "SLOW_S", INTERVAL_S)
    source = Simulated(lambda number: {"power_w": 1.0})
    source.of_board = {"GPU-one": ["power_w", "temperature_c"]}
    run_sampler(tmp_path, source, 3)
    assert describe_samples(tmp_path, 1, time.time(), INTERVAL_S)["of_board"] == {"GPU-one": "power, temperature"}


def test_no_reason_means_no_throttling_and_not_that_nobody_knows(tmp_path, monkeypatch):
    monkeypatch.setattr(telemetry, "SLOW_S", INTERVAL_S)
    run_sampler(tmp_path, Simulated(lambda number: {"throttle_reasons": ""}, ("throttle_reasons",)), 3)
    assert describe_samples(tmp_path, 1, time.time(), INTERVAL_S)["missing"] == {}


def test_a_long_run_is_sampled_more_rarely(tmp_path, monkeypatch):
    """Of each 10 samples, the later ones take twice as long: 10 + 20 + 40 + 80 ms."""
    monkeypatch.setattr(telemetry, "THIN_AFTER", 10)
    began = time.monotonic()
    run_sampler(tmp_path, Simulated(lambda number: {}), 40, interval_s=0.001)
    assert time.monotonic() - began >= 0.149 - 0.008


def test_values_are_short_and_counters_keep_their_digits():
    found = [format_value(value) for value in (None, "", "a b", 0.123456789, 1980, 0, 123456789.06)]
    assert found == ["", "", "a b", "0.123457", "1980", "0", "123456789.1"]


def test_the_files_of_nodes_are_merged_in_their_order_without_half_lines(tmp_path):
    for node in (10, 9, 0):
        get_node_path(tmp_path, node).write_text(f"header\n1.0,{node},host\n2.0,{node},ho")
    merge_nodes(tmp_path, tmp_path / "telemetry.csv")
    assert (tmp_path / "telemetry.csv").read_text().splitlines()[1:] == ["1.0,0,host", "1.0,9,host", "1.0,10,host"]


def test_a_lost_gpu_reaches_the_record_of_the_run(tmp_path, monkeypatch):
    fake, other = FakeGpu("GPU-one"), FakeGpu("GPU-two")
    FakeNvml([fake, other]).install(monkeypatch)
    watched = telemetry.Watched(pid=1, gpu_uuids=["GPU-one", "GPU-two"], cores=[], is_process_each=False)
    path = get_node_path(tmp_path, 0)

    def count(uuid):
        return path.read_text().count(f",{uuid},0.5") if path.exists() else 0

    monkeypatch.setattr(telemetry, "SLOW_S", 0.05)
    with Telemetry(path, watched.create_sources, time.time(), 0.01):
        deadline = time.monotonic() + HANG_S
        while not count("GPU-one") and time.monotonic() < deadline:
            time.sleep(0.01)
        names = [name for name in vars(FakeNvml) if name.startswith("nvmlDeviceGet")]
        fake.refusals |= dict.fromkeys(names, pynvml.NVML_ERROR_GPU_IS_LOST)
        before = count("GPU-two")
        while count("GPU-two") < before + 20 and time.monotonic() < deadline:
            time.sleep(0.01)
    described = describe_samples(tmp_path, 1, time.time(), 0.01)
    assert says(described["problem"], "node 0", "GPU-one gave no utilisation", "GPU is lost")
    assert "GPU-two" not in described["problem"]

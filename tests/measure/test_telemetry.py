"""The samples of a node's GPUs arrive, and a sampler that dies is noticed."""

import os
import subprocess
import sys
import time

import pynvml
import pytest

from howmanygpus.measure.host import telemetry
from howmanygpus.measure.host.telemetry import Telemetry, find_problem, get_node_path, merge_nodes
from messages import says
from nvml import FakeGpu, FakeNvml

UNTIL_SAMPLED = """
import sys, time
from pathlib import Path

path = Path(sys.argv[1])
while not path.exists() or "GPU-one" not in path.read_text():
    time.sleep(0.01)
"""
"""A run that ends when its GPU has been sampled."""


class Dying:
    """A source that fails at its third sample."""

    name = "dying"

    def __init__(self):
        self.num_samples = 0

    def sample(self):
        self.num_samples += 1
        if self.num_samples == 3:
            raise OSError("the device is lost")
        return {"power_w": 1.0}


def test_the_program_of_a_cluster_samples_gpus(tmp_path, monkeypatch):
    """A process of its own has to initialise NVML before it asks."""
    FakeNvml([FakeGpu("GPU-one")]).install(monkeypatch)
    monkeypatch.setattr(Telemetry.__init__, "__defaults__", (0, 0.02))
    watched = subprocess.Popen([sys.executable, "-c", UNTIL_SAMPLED, str(get_node_path(tmp_path, 0))])
    options = ["--folder", str(tmp_path), "--node", "0", "--pid", str(watched.pid), "--num-cores", "1"]
    monkeypatch.setattr(sys, "argv", ["telemetry", *options, "--gpu-uuids", "GPU-one"])
    telemetry.main()
    merge_nodes(tmp_path, tmp_path / "telemetry.csv")
    lines = (tmp_path / "telemetry.csv").read_text().splitlines()
    assert any(",GPU-one,0.5,1.0,300.0,1000.0" in line for line in lines)
    assert find_problem(tmp_path, 1, time.time()) is None


def test_a_program_that_cannot_sample_leaves_its_reason(tmp_path, monkeypatch):
    FakeNvml([]).install(monkeypatch)
    options = ["--folder", str(tmp_path), "--node", "1", "--pid", str(os.getpid()), "--num-cores", "1"]
    monkeypatch.setattr(sys, "argv", ["telemetry", *options, "--gpu-uuids", "GPU-lost"])
    with pytest.raises(pynvml.NVMLError):
        telemetry.main()
    get_node_path(tmp_path, 0).touch()
    assert find_problem(tmp_path, 2, time.time()).startswith("the sampler of node 1 failed: pynvml.NVMLError_NotFound")


def test_a_sampler_that_dies_is_noticed(tmp_path):
    source = Dying()
    with Telemetry(get_node_path(tmp_path, 0), [source], interval_s=0.01):
        deadline = time.monotonic() + 180
        while source.num_samples < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert says(find_problem(tmp_path, 1, time.time()), "node 0", "OSError: the device is lost")
    merge_nodes(tmp_path, tmp_path / "telemetry.csv")
    assert len((tmp_path / "telemetry.csv").read_text().splitlines()) == 3, "the samples before stay"


def test_a_sampler_that_was_killed_is_noticed_by_its_silence(tmp_path):
    path = get_node_path(tmp_path, 0)
    path.touch()
    written = path.stat().st_mtime
    assert find_problem(tmp_path, 1, written + 5) is None
    assert says(find_problem(tmp_path, 1, written + 95), "node 0", "no sample", "95 s")
    assert says(find_problem(tmp_path, 2, written), "node 1", "no sample")

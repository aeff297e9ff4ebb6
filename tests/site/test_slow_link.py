"""Two network namespaces stand for nodes, with a link between them that the kernel slows. Gloo sends over it."""

import json
import os
import shutil
import subprocess
import uuid

import pandas as pd
import pytest

from helpers.constructed_studies import Grid, Truth, find_row, make_tables
from howmanygpus.measure.allreduce import WHAT
from howmanygpus.measure.host.processes import BINDING_VARIABLE
from howmanygpus.measure.spec import LaunchSpec
from howmanygpus.report.network import compute_bus_bandwidth, judge
from howmanygpus.site.network import describe_exchange
from project import ROOT

RATE_GB_PER_S, FULL_GB_PER_S = 0.01, 0.05
"""What the slowed link can do, and what it should."""
SHAPE = f"rate {RATE_GB_PER_S * 8:g}gbit burst 256kb latency 20ms"
SIZE_MIB = 16


@pytest.fixture
def nodes():
    """Return the names of two network namespaces with a slowed link between them."""
    if not all(map(shutil.which, ("ip", "tc"))):
        pytest.skip("no network namespaces: apt-get install --no-install-recommends iproute2")
    names = [f"hmg-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    first, second = names
    commands = [f"ip netns add {name}" for name in names]
    commands += [f"ip link add wire0 netns {first} type veth peer name wire0 netns {second}"]
    for number, name in enumerate(names, 1):
        commands += [
            f"ip -n {name} addr add 10.77.0.{number}/24 dev wire0",
            f"ip -n {name} link set lo up",
            f"ip -n {name} link set wire0 up",
            f"ip netns exec {name} tc qdisc add dev wire0 root tbf {SHAPE}",
        ]
    try:
        for command in commands:
            done = subprocess.run(command.split(), capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"no network namespaces here: {command}: {done.stderr.strip()}")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def measure(python, nodes, folder):
    """Measure the all-reduce of one process on each node; return its record without a link."""
    size = {"num_gpus": 2, "num_nodes": 2, "global_batch_size": 2}
    spec = LaunchSpec(**WHAT, device="cpu", device_kind="cpu", cores_per_device=1, **size)
    (folder / "spec.json").write_text(json.dumps(spec.to_dict()))
    command = [python, "-m", "howmanygpus.measure.allreduce", "--measure", "--folder", str(folder)]
    command += ["--bytes", str(SIZE_MIB * 2**20)]
    shared = {"PYTHONPATH": str(ROOT / "workflow/lib"), "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    shared |= {"MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29555", "GLOO_SOCKET_IFNAME": "wire0"}
    shared |= {BINDING_VARIABLE: "1"}
    started = [
        subprocess.Popen(["ip", "netns", "exec", name, *command], env=os.environ | shared | {"RANK": str(rank)})
        for rank, name in enumerate(nodes)
    ]
    assert [process.wait(timeout=300) for process in started] == [0, 0]
    measured = json.loads((folder / "allreduce.json").read_text()) | describe_exchange(folder, "cpu", 2)
    return {"device": "cpu", "num_gpus": 2, "num_nodes": 2, "weights": "w"} | measured


def test_a_slowed_link_is_named_with_its_part_of_the_loss(environment_python, nodes, tmp_path):
    (tmp_path / "measured").mkdir()
    record = measure(environment_python("pytorch-cpu"), nodes, tmp_path / "measured")
    assert record["transport"]["between_nodes"]["interfaces"] == ["wire0"]
    seconds = record["sizes"][0]["median_s"]
    bus = compute_bus_bandwidth(2, SIZE_MIB, seconds)
    assert bus < 1.2 * RATE_GB_PER_S
    assert judge(record | {"link_gb_per_s": {"between_nodes": RATE_GB_PER_S}}) is None, "it does what it can"
    truth, grid = Truth(noise=0.005, exchange_s=lambda run: seconds), Grid(counts=(1, 2), nodes=lambda count: (count,))
    slow = record | {"link_gb_per_s": {"between_nodes": FULL_GB_PER_S}}
    row = find_row(make_tables(tmp_path, truth, grid, (slow,)), 2)
    assert "on 2 nodes" in row["network"] and "TCP sockets over wire0" in row["network"]
    expected = row["exchange_frac"] * (1 - bus / FULL_GB_PER_S)
    assert row["network_frac"] == pytest.approx(expected, abs=0.05)
    stated = record | {"link_gb_per_s": {"between_nodes": RATE_GB_PER_S}}
    assert pd.isna(find_row(make_tables(tmp_path / "full", truth, grid, (stated,)), 2)["network"])

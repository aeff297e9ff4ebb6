"""Test what a probe reports about a node, and how the numbers of the preflight are computed."""

import json
import subprocess
import sys

import pytest

from helpers.fake_slurm import pretend
from helpers.messages import says
from howmanygpus.measure.host.slurm import JOB
from howmanygpus.report.network import compute_bus_bandwidth
from howmanygpus.report.pages.node_checks import tabulate as tabulate_probes
from howmanygpus.report.tables.allreduce import tabulate
from howmanygpus.site.node_check import find_refusal, inspect_node, judge
from project import ROOT

EXPECTED = {
    **{"kind": "cuda", "devices_per_node": 2, "max_nodes": 2, "cores_per_device": 4, "compute_capability": "8.0"},
    **{"request": "gpu:a100:{n}", "bind_cores": True, "network_interface": "ib0", "rendezvous_suffix": ""},
    **{
        "scratch": None,
        "compute_nodes_have_network": True,
        "environments": ["pytorch-cuda13"],
        "longest_job_min": 65,
        "packed": False,
        "modules": [],
        "starts_steps": True,
        "placement": {"scheduler": "slurm", "step_options": ["--gres=gpu:a100:{n}"], "bind_cores": False},
    },
}
GPU = {"uuid": "GPU-1", "name": "A100", "compute_capability": "8.0", "memory_gib": 40.0, "mig": False}
FOUND = {
    **{"host": {"hostname": "n1", "cpu_model": "c", "driver_version": "580.95.05"}, "visible_devices": "0,1"},
    **{"gpus": [GPU, GPU], "topology": None, "num_cores": 8, "memory_gib": 64, "address": "10.0.0.1"},
    **{"interfaces": {"ib0": {"address": "10.1.0.1", "mbit_per_s": 200000}}, "scratch": None},
    **{"reaches_package_index": True, "partition_limit": "1-00:00:00", "srun": "/usr/bin/srun"},
    **{"home": {"path": "/home/me", "is_folder": True}, "modules": {"cuda": ""}},
    "step": {"variables": {}, "added": []},
    "job": {"allocated": "cpu=8", "requested": None, "nodes": "n1"},
}


def test_a_node_that_matches_the_machine_file_has_no_findings():
    assert judge(FOUND, EXPECTED) == []


@pytest.mark.parametrize(
    ("found", "expected", "level", "words"),
    [
        ({"visible_devices": "0"}, {}, "error", "2 devices were asked for, the job sees 1"),
        ({"gpus": [], "visible_devices": "0,1"}, {}, "error", "no NVIDIA driver answers"),
        ({"host": FOUND["host"] | {"driver_version": "535.1"}}, {}, "warning", "pytorch-cuda13 needs driver 580.65"),
        ({}, {"compute_capability": "9.0"}, "error", "compute_capability is 8.0, not 9.0"),
        ({}, {"compute_capability": None}, "warning", 'add compute_capability: "8.0"'),
        ({"gpus": [GPU | {"mig": True}] * 2}, {}, "warning", "MIG"),
        ({"num_cores": 6}, {}, "error", "the job may use 6; lower `cores_per_device` to 3"),
        ({}, {"network_interface": "ib7"}, "error", "there is no network_interface ib7; choose from ib0"),
        ({"address": None}, {"network_interface": None}, "error", "leads to no address"),
        ({"address": "127.0.1.1"}, {"network_interface": None}, "warning", "leads to 127.0.1.1"),
        ({"scratch": {"path": "/s", "writable": False, "free_gib": None}}, {}, "error", "/s cannot be written to"),
        ({"srun": None, "step": None}, {}, "error", "srun is not in the PATH of jobs"),
        (
            {"step": {"problem": "no module named x"}},
            {},
            "error",
            "a step that srun starts as it starts a run fails: no",
        ),
        ({"step": {"variables": {"KMP_AFFINITY": "none"}, "added": ["KMP_AFFINITY"]}}, {}, "warning", "KMP_AFFINITY=n"),
        (
            {"home": {"path": "/home/me", "is_folder": False}},
            {},
            "error",
            "the home folder /home/me is not on the node",
        ),
        (
            {"modules": {"cuda/13": "not known"}},
            {},
            "error",
            "`module load cuda/13` fails: not known; correct `modules`",
        ),
        ({"reaches_package_index": False}, {}, "warning", "compute_nodes_have_network: false"),
        ({"partition_limit": "01:00:00"}, {}, "error", "at 01:00:00; lower `time_limit_min` of the studies by 5"),
    ],
)
def test_each_difference_is_a_finding(found, expected, level, words):
    (finding,) = judge(FOUND | found, EXPECTED | expected)
    assert finding["level"] == level and words in finding["text"]


def test_a_gpu_with_shared_memory_is_labelled():
    found = FOUND | {"gpus": [GPU | {"memory_gib": None}]}
    table = tabulate_probes([{"device": "gb10", "found": found, "findings": []}])
    assert list(table[table["what"] == "GPUs"]["value"]) == ["A100, the host's memory, 8.0"]


def test_this_host_can_be_probed_and_tabulated(tmp_path):
    expected = EXPECTED | {"kind": "cpu", "request": None, "network_interface": None, "bind_cores": False}
    found = inspect_node(expected | {"starts_steps": False}, tmp_path)
    table = tabulate_probes([{"device": "d", "found": found, "findings": judge(found, expected)}])
    assert "lo 127.0.0.1" in table.set_index("what").loc["interfaces", "value"]


def test_a_driver_that_is_too_old_for_a_stack_is_refused():
    assert find_refusal("pytorch-cpu", None) == find_refusal("jax-cuda13", "580.65.06") == ""
    assert says(find_refusal("mxnet-cuda11", "440.33"), "mxnet-cuda11", "450.80 or later", "440.33")


def test_bus_bandwidth_counts_bytes_sent_per_device():
    """Two devices send the whole array each; very many send it twice."""
    assert compute_bus_bandwidth(2, 1000, 1.0) == pytest.approx(1.048576)
    assert compute_bus_bandwidth(1000, 1000, 1.0) == pytest.approx(2 * 1.048576, rel=2e-3)
    record = {"device": "d", "num_gpus": 2, "num_nodes": 1, "sizes": [{"size_mib": 16, "median_s": 0.5, "seconds": []}]}
    assert tabulate({}, [record])["bus_gb_per_s"].tolist() == pytest.approx([16 * 2**20 / 0.5 / 1e9])
    sharded = tabulate({}, [record | {"is_sharded": True}])["bus_gb_per_s"].tolist()
    assert sharded == pytest.approx([1.5 * 16 * 2**20 / 0.5 / 1e9]), "a reduce-scatter and two all-gathers"


@pytest.mark.parametrize(
    ("status", "said", "fails"), [(1, "Lmod: unknown", True), (0, "ERROR:105: Unable", True), (0, "", False)]
)
def test_modules_are_tried_in_a_login_shell(tmp_path, monkeypatch, status, said, fails):
    module = f"module() {{ [ -z '{said}' ] || echo '{said}' $* >&2; return {status}; }}"
    (tmp_path / ".bash_profile").write_text(f"printf 'Welcome: '\nunset BASH_ENV\n{module}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    found = inspect_node(EXPECTED | {"kind": "cpu", "modules": [["cuda/13"]], "starts_steps": False}, tmp_path)
    assert found["modules"] == {"cuda/13": f"{said} load cuda/13" if fails else ""}
    assert found["home"] == {"path": str(tmp_path), "is_folder": True}


IN_STEP = """while [ "${1#-}" != "$1" ]; do shift; done
export SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=1 CUDA_VISIBLE_DEVICES=0,1 KMP_BLOCKTIME=7
%s
exec "$@"
"""
"""A program in place of srun, which starts the command that follows its options."""


INSPECT = """import json, sys
from pathlib import Path
from howmanygpus.site.node_check import inspect_node

print(json.dumps(inspect_node(json.loads(sys.argv[1]), Path(sys.argv[2]))))
"""


@pytest.mark.parametrize(
    ("prolog", "found"),
    [
        ("export PYTHONPATH=/nowhere OMP_NUM_THREADS=77", {"OMP_NUM_THREADS": "4", "KMP_BLOCKTIME": "7"}),
        ("export CUDA_VISIBLE_DEVICES=0", "2 devices were asked for; CUDA_VISIBLE_DEVICES is '0'"),
        ("echo 'slurmstepd: error: task_prolog failed status=1' >&2; exit 1", "task_prolog failed status=1"),
    ],
    ids=["variables", "too few devices", "a prolog that fails"],
)
def test_the_probe_starts_a_step_as_a_run_does(tmp_path, monkeypatch, prolog, found):
    pretend(monkeypatch, tmp_path / "bin", "srun", IN_STEP % prolog)
    monkeypatch.delenv("KMP_BLOCKTIME", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "workflow" / "lib"))
    monkeypatch.setenv(JOB, json.dumps({"record": {"id": "7"}, "nodes": ["n1"]}))
    # Like a run, a step ends all processes below its own, among which are those of other tests here.
    expected = json.dumps(EXPECTED | {"kind": "cpu", "bind_cores": False})
    command = [sys.executable, "-c", INSPECT, expected, str(tmp_path)]
    step = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["step"]
    if isinstance(found, str):
        assert says(step["problem"], found)
    else:
        assert found.items() <= step["variables"].items() and step["added"] == ["KMP_BLOCKTIME"]


@pytest.mark.parametrize("profile", [".bash_profile", ".bash_login", ".profile"])
@pytest.mark.parametrize("end", ["exec sh", "exit 0"])
def test_a_profile_that_ends_the_login_shell_is_named(tmp_path, monkeypatch, profile, end):
    (tmp_path / profile).write_text(f"module() {{ :; }}\n{end}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    found = inspect_node(EXPECTED | {"kind": "cpu", "modules": [["cuda/13"]], "starts_steps": False}, tmp_path)
    assert says(found["modules"]["cuda/13"], str(tmp_path / profile), "`[[ $- == *i* ]] && exec zsh`")

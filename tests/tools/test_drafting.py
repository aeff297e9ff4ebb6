"""Drafts for a cluster are right as far as SLURM tells, pass the workflow's checks, and say what is to be stated."""

import getpass
import subprocess
import sys

import pytest
import yaml

from helpers.fake_slurm import AWAY, pretend, show
from helpers.messages import says
from helpers.slurm_lines import ACCOUNTING, NODES, PARTITION, show_configuration
from howmanygpus.invocation.cluster import find_misfits
from howmanygpus.site.machine import read_machine
from howmanygpus.study.plan import Plan
from howmanygpus_tools.draft_machine.drafting import (
    ask_site,
    draft_machine,
    draft_profile,
    list_statements,
    name_device,
)
from project import ROOT, study

OPEN = "AllowGroups=ALL AllowAccounts=ALL Default=NO MaxNodes=UNLIMITED State=UP RootOnly=NO"
GPU = f"PartitionName=gpu {OPEN} MaxTime=1-00:00:00 MaxMemPerNode=UNLIMITED"
CPU = f"PartitionName=cpu {OPEN.replace('Default=NO', 'Default=YES')} MaxTime=UNLIMITED MaxMemPerNode=UNLIMITED"
NODE = "NodeName={} CPUTot=64 RealMemory=512000 Sockets=2 TmpDisk=0 Gres={} Partitions={}"
A100 = [NODE.format(f"n{i}", "gpu:a100:4(S:0-1)", "gpu") for i in range(3)]


@pytest.fixture
def site(monkeypatch, tmp_path):
    """Return a function that describes a cluster by what its commands print. associations: None without a database."""

    def ask(partitions, nodes, version="24.11", associations=None):
        folder = tmp_path / "commands"
        folder.mkdir()
        shown = {"partition": "\n".join(partitions), "node": "\n".join(nodes), "config": show_configuration(version)}
        for what, text in shown.items():
            (folder / what).write_text(f"{text}\n")
        pretend(monkeypatch, folder, "scontrol", f'for last; do :; done; exec cat "{folder}/$last"')
        answer = "echo 'not running a supported accounting_storage plugin' >&2; exit 1"
        if associations is not None:
            is_asked = f'case "$*" in *user={getpass.getuser()}*) ;; *) exit 1;; esac\n'
            answer = is_asked + show("\n".join(associations))
        pretend(monkeypatch, folder, "sacctmgr", answer)
        return ask_site()

    return ask


@pytest.fixture
def read(tmp_path):
    """Return a function that writes a draft and reads it as the workflow does."""

    def read(text):
        (tmp_path / "machine.yaml").write_text(text)
        return read_machine(tmp_path / "machine.yaml")

    return read


def draft_config(site) -> dict:
    return yaml.safe_load(draft_profile(site, (ROOT / "profiles/slurm/config.yaml").read_text()))


def plan_of(machine, **changes):
    values = {"frameworks": ["pytorch_ddp"], "devices": list(machine.devices), "num_gpus": [1], "time_limit_min": 5}
    return Plan({"studies": {"s": study(**values | changes)}}, machine)


@pytest.mark.parametrize("version", NODES)
def test_a_draft_has_what_a_node_of_each_version_offers_and_passes_the_checks(site, read, tmp_path, version):
    line, (cores, memory_mb, devices) = NODES[version]
    partition = PARTITION.format(name="gpu", default="YES", hidden="NO").strip()
    text = draft_machine(found := site([partition], [line], version))
    machine = read(text)
    (device,) = machine.devices.values()
    drafted = (device.devices_per_node, device.cores_per_device, device.options["memory_per_device_mb"])
    assert drafted == (devices, cores // devices, memory_mb // devices)
    assert find_misfits(plan_of(machine), tmp_path) == []
    assert f"SLURM {version} tells about the cluster demo" in text.replace("\n# ", " ")
    profile = draft_profile(found, (ROOT / "profiles/slurm/config.yaml").read_text())
    assert ("This cluster has a database." in profile) == (version not in ACCOUNTING)


def test_the_check_of_a_call_refuses_a_draft_that_was_changed_against_the_cluster(site, read, tmp_path):
    text = draft_machine(site([GPU, CPU], A100))
    for right, wrong in [
        ('partition: "gpu"', 'partition: "gpus"'),
        ("devices_per_node: 4", "devices_per_node: 8"),
        ("memory_per_device_mb: 128000", "memory_per_device_mb: 128001"),
    ]:
        (message,) = find_misfits(plan_of(read(text.replace(right, wrong))), tmp_path)
        key, value = wrong.split(": ")
        assert says(message, f"devices.a100.{key}", value.strip('"'))


def test_each_type_of_gpu_becomes_a_device_in_the_partition_with_most_of_its_nodes(site, read):
    few = f"PartitionName=debug {OPEN} MaxTime=02:00:00 MaxMemPerNode=UNLIMITED"
    nodes = [
        NODE.format("m1", "gpu:V100-SXM2:2,gpu:2080ti:8", "gpu,debug"),
        NODE.format("m2", "gpu:V100-SXM2:4", "gpu"),
        NODE.format("m3", "gpu:V100-SXM2:4", "gpu"),
    ]
    text = draft_machine(site([few, GPU], nodes))
    devices = read(text).devices
    assert devices.keys() == {"gpu-2080ti", "v100-sxm2"}
    device = devices["v100-sxm2"]
    assert (device.options["partition"], device.options["request"]) == ("gpu", "--gpus-per-node=V100-SXM2:{n}")
    assert (device.devices_per_node, device.max_nodes, device.compute_capability) == (4, 2, "7.0")
    assert devices["gpu-2080ti"].compute_capability is None
    assert any("compute capability" in each for each in list_statements(text))
    assert "debug (nodes: 1, longest job: 02:00:00)" in text.replace("\n  # ", " ")


@pytest.mark.parametrize("part", ["1g.5gb", "a100_1c.3g.40gb", "a100-mig-1g.5gb"])
def test_a_part_of_a_gpu_is_drafted_as_the_only_device_of_a_run_and_the_draft_says_why(site, read, tmp_path, part):
    text = draft_machine(site([GPU], [NODE.format(f"n{i}", f"gpu:{part}:8", "gpu") for i in range(2)]))
    machine = read(text)
    (device,) = machine.devices.values()
    assert (device.devices_per_node, device.cores_per_device) == (1, 8)
    assert says(text.replace("\n    # ", " "), "one of the 8 parts", "NCCL", "`independent: true`")
    assert find_misfits(plan_of(machine), tmp_path) == []
    machine = read(text.replace("devices_per_node: 1", "devices_per_node: 8"))
    apart = {run.num_gpus: run.unsupported for run in plan_of(machine, num_gpus=[1, 2, 8]).runs.values()}
    assert not apart[1] and says(apart[2], "2 parts of GPUs (MIG)") and says(apart[8], "8 parts of GPUs (MIG)")
    assert not any(run.unsupported for run in plan_of(machine, num_gpus=[1, 8], independent=True).runs.values())


@pytest.mark.parametrize(
    "closed",
    [
        GPU.replace("State=UP", "State=DOWN"),
        GPU.replace("RootOnly=NO", "RootOnly=YES"),
        GPU.replace("AllowGroups=ALL", "AllowGroups=nobody_is_in_it"),
        GPU.replace("AllowAccounts=ALL", "AllowAccounts=chemistry"),
    ],
)
def test_a_partition_that_the_user_may_not_use_is_left_out_and_named(site, read, closed):
    other = GPU.replace("=gpu ", "=other ")
    nodes = [*A100, NODE.format("m1", "gpu:a100:4", "other")]
    text = draft_machine(site([closed, other], nodes, associations=["physics|", "teaching|"]))
    assert read(text).devices["a100"].options["partition"] == "other"
    assert any("Left out" in line and line.endswith(" gpu.") for line in text.splitlines())


def test_limits_of_the_partition_limit_the_shares_of_a_device(site, read):
    limited = f"PartitionName=gpu {OPEN} MaxTime=1-00:00:00 MaxCPUsPerNode=40 MaxMemPerCPU=3000"
    device = read(draft_machine(site([limited], A100))).devices["a100"]
    assert (device.cores_per_device, device.options["memory_per_device_mb"]) == (10, 30000)


def test_a_node_whose_memory_nobody_has_configured_has_a_valid_draft(site, read):
    nodes = [NODE.format("n1", "gpu:a100:4", "gpu").replace("RealMemory=512000", "RealMemory=1")]
    assert read(draft_machine(site([GPU], nodes))).devices["a100"].options["memory_per_device_mb"] == 1


def test_accounts_that_a_partition_wants_are_named(site):
    wanted = GPU.replace("AllowAccounts=ALL", "AllowAccounts=physics,chemistry")
    text = draft_machine(site([wanted], A100, associations=["physics|", "teaching|"]))
    assert says(text.replace("\n  # ", " "), "partition gpu", "one of the accounts physics, chemistry")


def test_a_partition_for_another_qos_than_the_default_is_drafted_with_the_qos_that_it_wants(site, read):
    wanted = GPU.replace("AllowAccounts=ALL", "AllowAccounts=ALL AllowQos=short,long")
    text = draft_machine(site([wanted], A100, associations=["physics||"]))
    assert read(text).devices["a100"].options["partition"] == "gpu"
    assert says(text.replace("\n  # ", " "), "partition gpu", "one of the QOS short, long")


def test_short_jobs_have_a_shorter_gate(site, read, tmp_path):
    machine = read(draft_machine(site([GPU.replace("1-00:00:00", "00:20:00")], A100)))
    assert machine.slurm["gate_limit_min"] == 15
    assert find_misfits(plan_of(machine, parity="required"), tmp_path) == []


def test_the_profile_has_the_limits_and_partition_of_jobs_without_devices(site):
    found = site(
        [CPU.replace("MaxTime=UNLIMITED", "MaxTime=00:45:00"), GPU], [*A100, NODE.format("c1", "(null)", "cpu")]
    )
    drafted = draft_config(found)
    # Environments take longer than the partition without GPUs gives them.
    assert drafted["default-resources"]["slurm_partition"] == "gpu"
    template = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text())
    template["default-resources"]["slurm_partition"] = "gpu"
    assert drafted == template


def test_the_profile_knows_the_accounts_and_how_many_jobs_they_may_submit(site):
    found = site([CPU], [NODE.format("c1", "(null)", "cpu")], associations=["physics|", "teaching|20"])
    assert (draft_config(found)["jobs"], draft_config(found)["default-resources"]["slurm_partition"]) == (20, "cpu")
    text = draft_profile(found, (ROOT / "profiles/slurm/config.yaml").read_text())
    assert any("physics, teaching" in each for each in list_statements(text))


def test_a_cluster_without_gpus_offers_its_sockets(site, read):
    (device,) = read(draft_machine(site([CPU], [NODE.format("c1", "(null)", "cpu")]))).devices.values()
    assert (device.kind, device.devices_per_node, device.cores_per_device) == ("cpu", 2, 32)
    assert device.options["request"] is None


@pytest.mark.parametrize(
    ("gres", "name"),
    [("gpu", "gpu"), ("gpu:a100_3g.20gb", "a100-3g-20gb"), ("gpu:NVIDIA_A100-SXM4-80GB", "nvidia-a100-sxm4-80gb")],
)
def test_names_of_types_become_names_of_devices(gres, name):
    assert name_device(gres) == name


def call_script(folder, *options):
    command = [sys.executable, "-m", "howmanygpus_tools.draft_machine", "--profile", str(folder), *options]
    return subprocess.run(command, cwd=ROOT, env=None, capture_output=True, text=True)


def test_files_are_overwritten_only_on_demand(site, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "workflow/lib"))
    site([GPU], A100)
    folder = tmp_path / "profile"
    done = call_script(folder)
    assert done.returncode == 0 and "TO STATE: what an hour costs" in done.stdout, done.stderr
    drafted = (folder / "machine.yaml").read_text()
    (folder / "machine.yaml").write_text("mine")
    (folder / "config.yaml").unlink()
    done = call_script(folder)
    assert done.returncode and says(done.stderr, str(folder / "machine.yaml"), "exists", "--overwrite")
    assert (folder / "machine.yaml").read_text() == "mine" and not (folder / "config.yaml").exists()
    assert call_script(folder, "--overwrite").returncode == 0
    assert (folder / "machine.yaml").read_text() == drafted


def test_without_an_answer_of_slurm_nothing_is_written(site, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "workflow/lib"))
    site([GPU], A100)
    pretend(monkeypatch, tmp_path / "commands", "scontrol", AWAY)
    done = call_script(tmp_path / "profile")
    assert done.returncode and says(done.stderr, "Unable to contact slurm controller", "where jobs are submitted")
    assert not (tmp_path / "profile").exists()

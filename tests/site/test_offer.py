"""Test how SLURM's answers about partitions and nodes are read and compared with the machine file and the studies."""

import json
import os
from datetime import datetime
from math import inf

import pytest
import yaml

from helpers.call_folders import work_without_calls
from helpers.fake_slurm import pretend, show
from helpers.messages import list_texts
from howmanygpus.invocation.cluster import find_closures, find_misfits
from howmanygpus.paths import JOB_LOGS
from howmanygpus.site import retrying
from howmanygpus.site.jobs.invocations import announce
from howmanygpus.site.machine import read_machine
from howmanygpus.site.offer import Node, PartitionError, ask_for_offer, count_devices
from howmanygpus.site.retrying import STARTED, Growth, compute_growth, compute_growth_of_job
from howmanygpus.study.plan import Plan
from project import study

PARTITIONS = """\
PartitionName=cpu Default=YES MaxTime=UNLIMITED MaxMemPerNode=UNLIMITED Nodes=c1
PartitionName=gpu Default=NO MaxTime=01:00:00 MaxMemPerNode=200000 Nodes=n[1-3]
"""
NODES = """\
NodeName=c1 CPUTot=128 RealMemory=500000 Gres=(null) AvailableFeatures=(null) Partitions=cpu
NodeName=n1 CPUTot=64 CPUEfctv=60 RealMemory=256000 Gres=gpu:a100:4(S:0-1) AvailableFeatures=nvlink,ib Partitions=gpu
NodeName=n2 CPUTot=32 RealMemory=128000 MemSpecLimit=8000 Gres=gpu:a100:4 AvailableFeatures=ib Partitions=gpu,all
NodeName=n3 CPUTot=32 RealMemory=128000 Gres=gpu:v100:2 AvailableFeatures=ib Partitions=gpu
"""
A100 = {
    **{"devices_per_node": 4, "max_nodes": 4, "cores_per_device": 8, "memory_per_device_mb": 30000},
    **{"partition": "gpu", "request": "gpu:a100:{n}", "compute_capability": "8.0"},
}


@pytest.fixture(autouse=True)
def scontrol(monkeypatch, tmp_path_factory):
    """Answer questions about partitions and nodes by the files of a folder; return the folder."""
    folder = tmp_path_factory.mktemp("scontrol")
    (folder / "partition").write_text(PARTITIONS)
    (folder / "node").write_text(NODES)
    pretend(monkeypatch, folder, "scontrol", f'for last; do :; done; exec cat "{folder}/$last"')
    return folder


def ask(**changes):
    return ask_for_offer({"partition": "gpu", "request": "gpu:a100:{n}", "constraint": None} | changes)


def test_an_offer_counts_only_nodes_with_the_device():
    offer = ask()
    assert (offer.partition, offer.longest_job_min) == ("gpu", 60)
    assert offer.nodes == (Node(60, 200000, 4), Node(32, 120000, 4))
    assert [offer.most("memory_mb", count) for count in (1, 2, 3)] == [200000, 120000, 0]
    assert len(ask(constraint="nvlink&ib").nodes) == 1
    assert len(ask(constraint="[nvlink|ib]").nodes) == 2, "SLURM judges it"


def test_a_partition_may_give_jobs_fewer_cores_than_its_nodes_have(scontrol):
    (scontrol / "partition").write_text(PARTITIONS.replace("MaxTime=01:00:00", "MaxTime=01:00:00 MaxCPUsPerNode=48"))
    assert [node.cores for node in ask().nodes] == [48, 32]


def test_the_default_partition_and_the_shortest_of_several():
    assert ask(partition=None, request=None).longest_job_min == inf
    assert ask(partition="cpu,gpu", request=None).partition == "gpu"


def test_an_unknown_partition_is_refused_with_the_known_ones():
    with pytest.raises(PartitionError, match="'gpus' is no partition of this cluster; choose from cpu, gpu"):
        ask(partition="gpus")


def test_a_controller_that_does_not_answer_offers_nothing(scontrol):
    (scontrol / "partition").unlink()
    assert ask() is None


@pytest.mark.parametrize(
    ("gres", "request_", "count"),
    [
        ("gpu:a100:4(S:0-1),nvme:1", "gpu:a100:{n}", 4),
        ("gpu:a100:4,gpu:v100:2", "gpu:{n}", 6),
        ("gpu:v100:2", "gpu:a100:{n}", 0),
        ("(null)", "gpu:{n}", 0),
        ("gpu:a100:4", "--gpus-per-node=a100:{n}", None),
        ("gpu:a100:4", None, None),
    ],
)
def test_devices_of_a_node_are_counted(gres, request_, count):
    assert count_devices(gres, request_) == count


def find(tmp_path, slurm=None, packed=False, changes=None, is_done=False, **device):
    values = {"scheduler": "slurm", "devices": {"a100": A100 | device}, "slurm": slurm or {}}
    (tmp_path / "machine.yaml").write_text(yaml.safe_dump(values))
    options = {"frameworks": ["pytorch_ddp"], "devices": ["a100"], "time_limit_min": 55} | (changes or {})
    plan = Plan({"studies": {"s": study(**options)}}, read_machine(tmp_path / "machine.yaml", packed))
    for run in plan.runs.values() if is_done else ():
        (tmp_path / run.path).mkdir(parents=True)
        (tmp_path / run.path / "run.json").touch()
    return list_texts(find_misfits(plan, tmp_path))


def test_data_that_fits_is_not_mentioned(tmp_path):
    assert find(tmp_path) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"partition": "gpus"}, "devices.a100.partition: 'gpus' is no partition of this cluster; choose from cpu, gpu"),
        ({"request": "gpu:h100:{n}"}, "no node of partition gpu has gpu:h100:{n}; correct `request`"),
        ({"devices_per_node": 8}, "devices_per_node: 8 is too large, a node of partition gpu has 4; lower it to 4"),
        ({"cores_per_device": 16}, "cores_per_device: 16 for each of 4 devices is 64 cores"),
        ({"memory_per_device_mb": 60000}, "240000 MB, a node of partition gpu has 200000; lower it to 50000"),
        ({"changes": {"num_gpus": [12], "per_device_batch_size": [8]}}, "runs need 3 nodes, and partition gpu has 2"),
        (
            {"changes": {"time_limit_min": 60}},
            "studies.s.time_limit_min: 60 and the 5 of slurm.overhead_min exceed the 60 minutes that partition gpu "
            "allows a job; lower it to 55",
        ),
    ],
)
def test_an_unsuitable_value_is_refused_with_place_and_remedy(tmp_path, given, words):
    (message,) = find(tmp_path, **given)
    assert words in message


@pytest.mark.parametrize(
    ("limits", "given", "remedy"),
    [
        ("MaxCPUsPerNode=3", {}, "8 for each of 4 devices is 32 cores"),
        ("MaxMemPerNode=3", {}, "30000 for each of 4 devices is 120000 MB"),
        ("MaxTime=00:05:00", {"changes": {"time_limit_min": 1}}, "allows a job; name another partition"),
        (
            "MaxTime=00:05:00",
            {"changes": {"time_limit_min": 1, "parity": "required"}},
            "after 5; name another partition",
        ),
    ],
)
def test_no_value_is_to_be_lowered_to_nothing(tmp_path, scontrol, limits, given, remedy):
    name = limits.partition("=")[0]
    lines = [" ".join(word for word in line.split() if not word.startswith(name)) for line in PARTITIONS.splitlines()]
    (scontrol / "partition").write_text("".join(f"{line} {limits}\n" for line in lines))
    messages = find(tmp_path, **given)
    assert remedy in " ".join(messages) and "another partition" in messages[0]
    assert not any("to 0" in message or "to -" in message for message in messages), messages


def test_a_partition_whose_jobs_are_too_short_for_the_gate_is_refused(tmp_path, scontrol):
    (scontrol / "partition").write_text(PARTITIONS.replace("MaxTime=01:00:00", "MaxTime=00:30:00"))
    (message,) = find(tmp_path, changes={"time_limit_min": 20, "parity": "required"})
    assert "devices.a100.partition: a job of the parity gate takes up to 35 minutes, and" in message
    assert "ends jobs after 30; lower `slurm.gate_limit_min` of " in message and " to 25, or name another" in message
    assert find(tmp_path, {"gate_limit_min": 25}, changes={"time_limit_min": 20, "parity": "required"}) == []
    assert find(tmp_path, changes={"time_limit_min": 20}) == []


@pytest.fixture
def sacctmgr(monkeypatch, tmp_path_factory):
    """Return a function that sets the accounts of this user, with the default QOS of one of them."""

    def answer(*associations):
        pretend(monkeypatch, tmp_path_factory.mktemp("sacctmgr"), "sacctmgr", show("\n".join(associations)))

    answer("lab||", "other||long")
    return answer


def find_closed(tmp_path, account=None, **device):
    find(tmp_path, **device)
    options = {"frameworks": ["pytorch_ddp"], "devices": ["a100"]}
    plan = Plan({"studies": {"s": study(**options)}}, read_machine(tmp_path / "machine.yaml"))
    return list_texts(find_closures(plan, account, None, tmp_path))


@pytest.mark.parametrize(
    ("limits", "given", "words"),
    [
        ("AllowGroups=nobody_here", {}, "gpu is only for the groups nobody_here"),
        ("AllowAccounts=third", {}, "gpu is only for the accounts third, and jobs have lab, other"),
        ("AllowAccounts=other", {"account": "lab"}, "gpu is only for the accounts other, and jobs have lab"),
        ("AllowAccounts=other", {"account": "other"}, ""),
        ("AllowAccounts=other", {}, ""),
        ("DenyAccounts=lab", {"account": "lab"}, "gpu is closed to the accounts lab"),
        ("AllowQos=short", {}, "gpu is only for the QOS short, and jobs have long, normal"),
        ("AllowQos=short", {"qos": "short"}, ""),
        ("AllowQos=long", {"account": "other"}, ""),
        ("DenyQos=short", {"qos": "short"}, "gpu is closed to the QOS short"),
        ("AllowAccounts=other", {"SBATCH_ACCOUNT": "lab"}, "gpu is only for the accounts other, and jobs have lab"),
        ("AllowQos=short", {"SBATCH_QOS": "short"}, ""),
        ("AllowQos=short", {"SBATCH_QOS": "long", "qos": "short"}, ""),
        ("", {"account": "third"}, "slurm_account: 'third' is none of your accounts; choose from lab, other"),
        ("", {}, ""),
    ],
)
@pytest.mark.usefixtures("sacctmgr")
def test_a_partition_that_is_closed_to_the_user_is_named_before_the_first_job(
    tmp_path, scontrol, monkeypatch, limits, given, words
):
    for name in ("SBATCH_ACCOUNT", "SBATCH_QOS"):
        monkeypatch.setenv(name, given.get(name, ""))
    given = {key: value for key, value in given.items() if not key.startswith("SBATCH_")}
    (scontrol / "partition").write_text(PARTITIONS.replace("MaxTime=01:00:00", f"MaxTime=01:00:00 {limits}"))
    messages = find_closed(tmp_path, **given)
    assert len(messages) == bool(words) and words in "".join(messages), messages


@pytest.mark.parametrize(("enforced", "is_told"), [("associations,limits", True), ("none", False)])
def test_a_user_without_an_account_is_told_if_slurm_requires_one(tmp_path, scontrol, sacctmgr, enforced, is_told):
    sacctmgr()
    (scontrol / "config").write_text(f"AccountingStorageEnforce = {enforced}\n")
    messages = find_closed(tmp_path)
    assert len(messages) == is_told and all("no account of yours" in message for message in messages)


def test_a_partition_that_gives_a_job_fewer_nodes_is_named(tmp_path, scontrol):
    over_nodes = {"num_gpus": [8], "per_device_batch_size": [8]}
    (scontrol / "partition").write_text(PARTITIONS.replace("MaxTime=01:00:00", "MaxTime=01:00:00 MaxNodes=2"))
    assert find(tmp_path, changes=over_nodes) == []
    (scontrol / "partition").write_text(PARTITIONS.replace("MaxTime=01:00:00", "MaxTime=01:00:00 MaxNodes=1"))
    (message,) = find(tmp_path, changes=over_nodes)
    assert "devices.a100.max_nodes: runs need 2 nodes, and partition gpu gives a job 1 at most; lower num_gp" in message
    assert find(tmp_path) == [] and find(tmp_path, changes=over_nodes, qos="unknown") == []


def test_a_qos_may_exceed_the_limit_of_the_partition(tmp_path):
    assert find(tmp_path, changes={"time_limit_min": 600}, qos="long") == []


def test_finished_runs_need_no_partition(tmp_path):
    assert find(tmp_path, partition="gpus") != []
    assert find(tmp_path, partition="gpus", is_done=True) == []


def test_inside_an_allocation_nothing_is_compared(tmp_path):
    assert find(tmp_path, packed=True, cores_per_device=99) == []


def leave(folder, name, status):
    (folder / "s/run" / name).mkdir(parents=True)
    record = {"status": status, "reason": "", "settled": True}
    (folder / "s/run" / name / "attempt.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("ends", "growth"),
    [
        (["time_limit"], Growth(time=2)),
        (["host_out_of_memory"], Growth(memory=2)),
        (["cancelled"], Growth()),
        (["node_failed"], Growth()),
        (["crashed"], Growth()),
        (["time_limit", "host_out_of_memory"], Growth(2, 2)),
        (["time_limit", "time_limit"], Growth(time=3)),
        ([], Growth()),
    ],
)
def test_an_attempt_requests_more_of_the_exhausted_resource(tmp_path, monkeypatch, ends, growth):
    monkeypatch.setenv(STARTED, "20260102T000000")
    leave(tmp_path, "20260101T000000-job1", "time_limit")
    leave(tmp_path, "20260101T000001-job2", "host_out_of_memory")
    for number, end in enumerate(ends):
        leave(tmp_path, f"20260102T00000{number}-job{3 + number}", end)
    assert compute_growth("s/run", 1 + max(len(ends), 1), tmp_path) == growth
    assert compute_growth("s/run", 1, tmp_path) == Growth()


def test_a_retried_gate_job_requests_more_of_the_exhausted_resource(tmp_path, monkeypatch):
    ends = {"1": "time_limit", "2": "host_out_of_memory", "3": "cancelled", "4": "time_limit"}
    monkeypatch.setattr(retrying, "ask_for_end", lambda job_id: {"status": ends[job_id]})
    monkeypatch.setenv(STARTED, "20260102T000000")
    work_without_calls(tmp_path, monkeypatch)
    announce("call", logs=tmp_path / JOB_LOGS)  # the folder of logs that is also searched by its relative path
    folder = tmp_path / JOB_LOGS / "rule_observe_parity" / "torch-1"
    folder.mkdir(parents=True)

    def fail(job_id, started="2026-01-02T00:01"):
        (folder / f"{job_id}.log").touch()
        moment = datetime.fromisoformat(f"{started}+00:00").timestamp()
        os.utime(folder / f"{job_id}.log", (moment, moment))
        return compute_growth_of_job("observe_parity", ["torch-1"], 2)

    assert fail("4", "2026-01-01T23:59") == Growth()
    assert fail("3") == Growth()
    assert fail("1") == Growth(time=2)
    assert fail("2") == Growth(time=2, memory=2)
    assert compute_growth_of_job("observe_parity", ["torch-1"], 1) == Growth()

"""What SLURM's accounting allows one job is read as SLURM prints it, and bounds what further attempts request."""

from math import inf

import pytest
from snakemake.cli import get_argument_parser
from snakemake.settings.types import ResourceSettings

from howmanygpus.plan.cluster.associations import find_account
from howmanygpus.plan.cluster.checking import count_resources
from howmanygpus.plan.cluster.limits import UNKNOWN, Limit, ask_for_limits, parse_amounts
from howmanygpus.plan.cluster.offer import Node, Offer
from howmanygpus.plan.cluster.retrying import Growth
from howmanygpus.plan.config.machine import Device, Machine
from howmanygpus.plan.jobs import JobSize, job_resources
from howmanygpus.train.host import slurm as asking

ENFORCED = "AccountingStorageEnforce = associations,limits,qos\nEnforcePartLimits       = NO\n"
QOS = """\
normal|||||||
short|DenyOnLimit|00:30:00|cpu=4,gres/gpu=2,mem=3000M|gres/gpu=3||node=2|cpu=6
long|PartitionTimeLimit|7-00:00:00|||||
of_gpu|||gres/gpu=8||||
first|OverPartQOS||gres/gpu=16||||
"""
"""What `sacctmgr show qos` of SLURM 22.05 answers, with other values."""
ASSOCIATION = "lab|||normal,short,long|02:00:00|gres/gpu=3||\n"
SEVERAL = """\
lab||short|normal,short|02:00:00|gres/gpu=3||
gpu_users|||normal||gres/gpu=1||
gpu_users|gpu||normal|00:10:00|gres/gpu=4||
"""
"""Associations of a user with two accounts, of which one has other limits in the partition gpu."""
OPTIONS = {"request": "gpu:a100:{n}", "memory_per_device_mb": 1000, "nodes": "shared", "sbatch_options": ""}
DEVICE = Device(4, 2, "cuda", 4, None, OPTIONS | {"partition": "gpu", "constraint": None, "qos": "short"})


@pytest.fixture(autouse=True)
def slurm(monkeypatch):
    """Answer the questions; return a dictionary in which a test changes the answers."""
    answers = {"config": ENFORCED, "qos": QOS, "assoc": ASSOCIATION, "user": "", "asked": []}
    for variable in ("SBATCH_ACCOUNT", "SBATCH_QOS"):
        monkeypatch.delenv(variable, raising=False)

    def run(command, **_):
        answers["asked"].append(command)
        text = answers[command[4] if command[0] == "sacctmgr" else command[-1]]
        return asking.subprocess.CompletedProcess(command, 0 if text else 1, text)

    monkeypatch.setattr(asking.subprocess, "run", run)
    return answers


def test_the_qos_of_a_job_comes_before_the_account():
    limits = ask_for_limits("short", {})
    assert limits.is_known and not limits.may_be_longer
    assert limits.wall_min == Limit(30, "MaxWall of the QOS short")
    assert limits.per_job["gres/gpu"] == Limit(2, "MaxTRES of the QOS short"), "a user may have 3"
    assert limits.per_job["mem"].most == 3000 and limits.per_job["node"].name == "GrpTRES of the QOS short"
    assert [limits.find("cpu", num_nodes).most for num_nodes in (1, 2)] == [4, 4] and limits.find("fpga", 1) is None
    assert ask_for_limits("normal", {}).per_job == {"gres/gpu": Limit(3, "MaxTRES of your account lab")}


def test_the_qos_of_the_partition_comes_first_unless_that_of_the_job_says_otherwise():
    partition = {"QoS": "of_gpu"}
    assert ask_for_limits("short", partition).per_job["gres/gpu"] == Limit(3, "MaxTRESPerUser of the QOS short")
    assert ask_for_limits("normal", partition).per_job["gres/gpu"] == Limit(8, "MaxTRES of the QOS of_gpu")
    assert ask_for_limits("first", partition).per_job["gres/gpu"] == Limit(16, "MaxTRES of the QOS first")


def test_a_limit_of_a_node_counts_for_each_node(slurm):
    slurm["qos"] = "normal|||cpu=64||||cpu=6\n"
    limits = ask_for_limits("normal", {})
    assert [limits.find("cpu", num_nodes).most for num_nodes in (1, 2, 20)] == [6, 12, 64]


@pytest.mark.parametrize(
    ("associations", "wall_min"),
    [
        ("lab||short|normal,short||||\n", 30),
        ("lab|||short||||\n", 30),
        ("lab|||normal,short||||\n", None),
        ("lab||short|short||||\nother||normal|normal|00:01:00|||\n", None),
    ],
    ids=["default", "the only one", "normal", "several accounts"],
)
def test_a_job_without_a_qos_has_that_of_its_user(slurm, associations, wall_min):
    slurm["assoc"] = associations
    found = ask_for_limits(None, {}).wall_min
    assert (found and found.most) == wall_min


def count_gpus(partition="cpu", account=None):
    limit = ask_for_limits("normal", {"PartitionName": partition}, account).find("gres/gpu", 1)
    return limit and limit.most


def test_of_several_accounts_that_of_the_job_counts(slurm, monkeypatch):
    slurm["assoc"] = SEVERAL
    assert [count_gpus(account=name) for name in ("lab", "Lab", "gpu_users", "gone")] == [3, 3, 1, None]
    assert "user" not in [command[4] for command in slurm["asked"] if command[0] == "sacctmgr"], "nobody needs it"
    assert count_gpus() is None, "SLURM does not tell the default account"
    slurm["user"] = "me|gpu_users\n"
    assert count_gpus() == 1
    monkeypatch.setenv("SBATCH_ACCOUNT", "lab")
    assert count_gpus() == 3, "sbatch reads the variable"
    assert count_gpus(account="gpu_users") == 1, "an option comes before it"


def test_an_association_with_a_partition_counts_for_jobs_there(slurm):
    slurm["assoc"] = SEVERAL
    found = ask_for_limits("normal", {"PartitionName": "gpu"}, "gpu_users")
    assert found.wall_min == Limit(10, "MaxWall of your account gpu_users in the partition gpu")
    assert count_gpus("gpu", "gpu_users") == 4 and count_gpus("gpu", "lab") == 3
    slurm["assoc"] = "lab|gpu||normal||gres/gpu=4||\n"
    assert (count_gpus("gpu"), count_gpus("cpu")) == (4, None), "the only account has no other partition"


def test_the_qos_is_the_default_of_the_account(slurm, monkeypatch):
    slurm["assoc"] = SEVERAL
    found = {name: ask_for_limits(None, {}, name).wall_min for name in ("lab", "gpu_users", "gone")}
    assert found == {"lab": Limit(30, "MaxWall of the QOS short"), "gpu_users": None, "gone": None}
    monkeypatch.setenv("SBATCH_QOS", "long")
    assert ask_for_limits(None, {}, "lab").may_be_longer


def test_only_associations_of_this_cluster_are_asked_for(slurm):
    ask_for_limits("normal", {})
    slurm["config"] += "ClusterName             = this\n"
    ask_for_limits("normal", {})
    asked = [command[7] for command in slurm["asked"] if "assoc" in command]
    assert asked[0].startswith("format=") and asked[1] == "cluster=this"


@pytest.mark.parametrize("association", ["", "lab|||normal||gres/gpu=1||\nlab|||normal||gres/gpu=2||\n"])
def test_nothing_is_said_of_an_association_that_is_not_known_for_sure(slurm, association):
    slurm["assoc"] = association
    slurm["qos"] = "normal||00:01:00|||||\n"
    found = ask_for_limits(None, {}, "lab")
    assert (found.wall_min, found.per_job, found.is_known) == (None, {}, True)


@pytest.mark.parametrize(
    ("options", "account"),
    [
        ([], None),
        (["--default-resources", "mem_mb=1"], None),
        (["--default-resources", "slurm_account=lab"], "lab"),
        (["--default-resources", "slurm_account='lab, other'"], "lab"),
        (["--default-resources", "slurm_account=123"], "123"),
        (["--default-resources", "slurm_account=$LAB"], "of_physics"),
        (["--default-resources", "slurm_account=lab", "--set-resources", "train:slurm_account=gpu-users"], "gpu-users"),
        (["--default-resources", "slurm_account=lab", "--set-resources", "prepare:slurm_account=other"], "lab"),
    ],
)
def test_the_account_is_what_snakemake_is_told(monkeypatch, options, account):
    monkeypatch.setenv("LAB", "of_physics")
    given = get_argument_parser().parse_args(options)
    settings = ResourceSettings(
        overwrite_resources=given.set_resources or {}, default_resources=given.default_resources
    )
    assert find_account(settings) == account


@pytest.mark.parametrize("change", [{"config": "AccountingStorageEnforce = none\n"}, {"config": ""}, {"qos": ""}])
def test_nothing_is_known_if_slurm_does_not_answer_or_enforce(slurm, change):
    slurm |= change
    assert ask_for_limits("short", {}) is UNKNOWN


def test_amounts_are_read_as_slurm_writes_them():
    assert parse_amounts("cpu=4,gres/gpu:a100=2,mem=1.5G,billing=7") == {
        **{"cpu": 4, "gres/gpu:a100": 2, "mem": 1536, "billing": 7}
    }
    assert parse_amounts("") == {}


def test_a_job_is_counted_by_slurms_names():
    found = count_resources(DEVICE, 8, 2)
    assert found == {"gres/gpu": 8, "gres/gpu:a100": 8, "node": 2, "cpu": 16, "mem": 8000}


def test_a_further_attempt_grows_up_to_what_the_qos_allows():
    limits = ask_for_limits("short", {})
    offer = Offer("gpu", 30.0, (Node(64, 256000, 4),) * 2, limits)
    slurm = {"overhead_min": 5}
    machine = Machine("machine.yaml", {"a100": DEVICE}, scheduler="slurm", slurm=slurm)
    size = JobSize(DEVICE, "per_device", 2, 1, 20)
    found = job_resources(machine, size, Growth(4, 4), offer)
    assert (found["runtime"], found["mem_mb"]) == (30, 3000)
    free = job_resources(machine, size, Growth(4, 4), Offer("gpu", inf, offer.nodes))
    assert (free["runtime"], free["mem_mb"]) == (85, 8000)

"""What SLURM's accounting allows one job is read as SLURM prints it, and bounds what further attempts request."""

from math import inf

import pytest

from howmanygpus.plan.cluster import limits as asking
from howmanygpus.plan.cluster.checking import count_resources
from howmanygpus.plan.cluster.limits import UNKNOWN, Limit, ask_for_limits, parse_amounts
from howmanygpus.plan.cluster.offer import Node, Offer
from howmanygpus.plan.cluster.retrying import Growth
from howmanygpus.plan.config.machine import Device, Machine
from howmanygpus.plan.jobs import JobSize, job_resources

ENFORCED = "AccountingStorageEnforce = associations,limits,qos\nEnforcePartLimits       = NO\n"
QOS = """\
normal|||||||
short|DenyOnLimit|00:30:00|cpu=4,gres/gpu=2,mem=3000M|gres/gpu=3||node=2|cpu=6
long|PartitionTimeLimit|7-00:00:00|||||
of_gpu|||gres/gpu=8||||
first|OverPartQOS||gres/gpu=16||||
"""
"""What `sacctmgr show qos` of SLURM 22.05 answers, with other values."""
ASSOCIATION = "|normal,short,long|02:00:00|gres/gpu=3||\n"
OPTIONS = {"request": "gpu:a100:{n}", "memory_per_device_mb": 1000, "nodes": "shared", "sbatch_options": ""}
DEVICE = Device(4, 2, "cuda", 4, None, OPTIONS | {"partition": "gpu", "constraint": None, "qos": "short"})


@pytest.fixture(autouse=True)
def slurm(monkeypatch):
    """Answer the questions; return a dictionary in which a test changes the answers."""
    answers = {"config": ENFORCED, "qos": QOS, "assoc": ASSOCIATION}

    def run(command, **_):
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
    assert ask_for_limits("normal", {}).per_job == {"gres/gpu": Limit(3, "MaxTRES of your account")}


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
        ("short|normal,short||||\n", 30),
        ("|short||||\n", 30),
        ("|normal,short||||\n", None),
        ("short|short||||\nnormal|normal|00:01:00|||\n", None),
    ],
    ids=["default", "the only one", "normal", "several accounts"],
)
def test_a_job_without_a_qos_has_that_of_its_user(slurm, associations, wall_min):
    slurm["assoc"] = associations
    found = ask_for_limits(None, {}).wall_min
    assert (found and found.most) == wall_min


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
    size = JobSize(DEVICE, "torchrun", 2, 1, 20)
    found = job_resources(machine, size, Growth(4, 4), offer)
    assert (found["runtime"], found["mem_mb"]) == (30, 3000)
    free = job_resources(machine, size, Growth(4, 4), Offer("gpu", inf, offer.nodes))
    assert (free["runtime"], free["mem_mb"]) == (85, 8000)

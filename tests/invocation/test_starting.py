"""A call whose executor and machine file disagree is refused before its first job, or warned about."""

import os
from types import SimpleNamespace

import pytest
from snakemake.resources import Resource, Resources
from snakemake_interface_common.exceptions import WorkflowError

from helpers.messages import list_texts, says
from howmanygpus.invocation.internals import set_default
from howmanygpus.invocation.starting import leave_out_requests, refuse_to_start
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from project import study

LOCAL = Machine("profiles/local/machine.yaml", {"cpu": Device(8, 1)})
CLUSTER = Machine("mine/machine.yaml", {"cpu": Device(8, 1)}, scheduler="slurm")
PACKED = Machine("mine/machine.yaml", {"cpu": Device(8, 1)}, scheduler="slurm", packed=True)


def start(
    machine: Machine,
    executor: str,
    shortages=(),
    touch=False,
    resources=("limit_min",),
    limits=(),
    nodes=(),
    **settings,
):
    """Return why a call does not start, and its warnings.

    resources: of its job that runs here. limits: those of --resources. nodes: the numbers of nodes of jobs that are
    submitted. settings: the executor's.
    """
    said: list[str] = []
    jobs = [SimpleNamespace(rule=SimpleNamespace(name="measure", resources=resources), is_local=True)]
    jobs += [make_job(num_nodes) for num_nodes in nodes]
    workflow = SimpleNamespace(
        global_resources=Resources({"_cores": Resource("_cores", 1), **dict(limits)}),
        async_run=None,
        executor_plugin=SimpleNamespace(name=executor),
        local_exec=executor in ("local", "touch"),
        touch=touch,
        executor_settings=SimpleNamespace(**settings),
        resource_settings=SimpleNamespace(overwrite_resources={}, default_resources=None),
        dag=SimpleNamespace(needrun_jobs=lambda: jobs),
    )
    plan = Plan({"studies": {"s": study(frameworks=["pytorch_ddp"], num_gpus=[1], devices=["cpu"])}}, machine)
    return list_texts(refuse_to_start(plan, workflow, list(shortages), said.append)), said


def make_job(num_nodes: int) -> SimpleNamespace:
    """Make a job that is submitted, with the number of its nodes as a wildcard."""
    asked = {"limit_min": 5, "mpi": "run", "nodes": lambda wildcards, attempt: int(wildcards.nodes) * attempt}
    return SimpleNamespace(
        rule=SimpleNamespace(
            name="measure_allreduce", resources=Resources({n: Resource(n, value) for n, value in asked.items()})
        ),
        wildcards=SimpleNamespace(nodes=str(num_nodes)),
        **{"is_local": False, "input": [], "output": [], "attempt": 1, "threads": 1, "is_group": lambda: False},
    )


@pytest.mark.parametrize(("machine", "executor"), [(LOCAL, "local"), (CLUSTER, "slurm"), (PACKED, "local")])
def test_an_executor_that_fits_the_machine_file_starts(machine, executor):
    assert start(machine, executor) == ([], [])
    assert start(machine, executor, shortages=["too few"]) == (["too few"], [])


@pytest.mark.parametrize(
    ("machine", "executor", "message"),
    [
        (
            LOCAL,
            "slurm",
            "--executor: slurm submits jobs, but the machine file in force, profiles/local/machine.yaml, has no "
            "`scheduler`, so they would request no device; name the machine file of the cluster by `--config machine=",
        ),
        (PACKED, "slurm", "--executor: slurm submits jobs, but with `packed: true` runs start in the job of this"),
        (CLUSTER, "lsf", "--executor: lsf submits jobs, but mine/machine.yaml has `scheduler: slurm`; choose that"),
    ],
)
def test_jobs_that_the_machine_file_does_not_describe_are_refused_before_shortages(machine, executor, message):
    (refused,), said = start(machine, executor, shortages=["too few"])
    assert refused.startswith(message) and said == []


@pytest.mark.parametrize("rules", ["all", "train"])
def test_jobs_of_an_array_are_refused_with_the_reason(rules):
    (refused,), _ = start(CLUSTER, "slurm", array_jobs=rules)
    assert says(refused, "--slurm-array-jobs", rules, "first job", "leave the option out", "profile")
    assert start(CLUSTER, "slurm", array_jobs=None) == ([], [])


def test_a_limit_that_would_lower_the_request_of_a_job_is_refused():
    limits = {"nodes": Resource("nodes", 4), "measurement": Resource("measurement", 1)}
    (refused,), _ = start(CLUSTER, "slurm", limits=limits, nodes=[1, 8, 6])
    assert says(refused, "--resources nodes", "4", "8", "measure_allreduce", "raise it to 8", "--jobs")
    assert start(CLUSTER, "slurm", limits=limits, nodes=[1, 4]) == ([], []), "limits all jobs together"


def test_runs_that_start_here_in_place_of_jobs_are_doubted_unless_they_are_only_touched():
    refused, (said,) = start(CLUSTER, "local")
    assert refused == [] and said.startswith("mine/machine.yaml: scheduler: slurm makes each run a job, but")
    assert start(CLUSTER, "touch", touch=True) == ([], [])
    assert start(CLUSTER, "local", resources=()) == ([], []), "tables and figures are made here anyway"


OF_REQUESTS = ("SBATCH_ARRAY_INX", "SBATCH_EXCLUSIVE", "SBATCH_GRES", "SBATCH_PARTITION", "SBATCH_WAIT", "SLURM_HINT")
OF_CHARGES = ("SBATCH_ACCOUNT", "SBATCH_QOS", "SBATCH_RESERVATION", "SBATCH_WCKEY", "SLURM_CONF", "SLURM_CLUSTERS")


@pytest.mark.parametrize(("machine", "left"), [(CLUSTER, OF_CHARGES), (LOCAL, OF_CHARGES + OF_REQUESTS)])
def test_variables_of_the_shell_that_change_requests_are_left_out_and_named(monkeypatch, machine, left):
    variables = dict.fromkeys(OF_CHARGES + OF_REQUESTS, "1")
    monkeypatch.setattr(os, "environ", variables)
    said = leave_out_requests(machine)
    assert set(variables) == set(left)
    assert len(said) == (machine is CLUSTER) and all(says(words, *OF_REQUESTS, machine.path) for words in said)
    assert leave_out_requests(machine) == []


def test_a_snakemake_that_keeps_defaults_elsewhere_is_refused_with_a_remedy():
    workflow = SimpleNamespace(resource_settings=SimpleNamespace())
    with pytest.raises(
        WorkflowError, match=r"lack `_parsed_default_resources`.*; install what requirements\.txt lists"
    ):
        set_default(workflow, "measurement", 1)

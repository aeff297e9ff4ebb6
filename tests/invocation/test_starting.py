"""A call whose executor and machine file disagree is refused before its first job, or warned about."""

import os
from types import SimpleNamespace

import pytest

from helpers.messages import list_texts, says
from howmanygpus.invocation.starting import leave_out_requests, refuse_to_start
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from project import study

LOCAL = Machine("profiles/local/machine.yaml", {"cpu": Device(8, 1)})
CLUSTER = Machine("mine/machine.yaml", {"cpu": Device(8, 1)}, scheduler="slurm")
PACKED = Machine("mine/machine.yaml", {"cpu": Device(8, 1)}, scheduler="slurm", packed=True)


def start(machine: Machine, executor: str, shortages=(), touch=False, resources=("limit_min",), **settings):
    """Return why a call does not start, and its warnings. resources: of its only job. settings: the executor's."""
    said: list[str] = []
    job = SimpleNamespace(rule=SimpleNamespace(name="measure", resources=resources), is_local=True)
    workflow = SimpleNamespace(
        executor_plugin=SimpleNamespace(name=executor),
        local_exec=executor in ("local", "touch"),
        touch=touch,
        executor_settings=SimpleNamespace(**settings),
        resource_settings=SimpleNamespace(overwrite_resources={}, default_resources=None),
        dag=SimpleNamespace(needrun_jobs=lambda: [job]),
    )
    plan = Plan({"studies": {"s": study(frameworks=["pytorch_ddp"], num_gpus=[1], devices=["cpu"])}}, machine)
    return list_texts(refuse_to_start(plan, workflow, list(shortages), said.append)), said


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

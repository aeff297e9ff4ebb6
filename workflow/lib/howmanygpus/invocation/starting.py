"""Refuses a call before its first job, for reasons that are known only when Snakemake has planned its jobs."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from howmanygpus.base.environment import list_caches
from howmanygpus.config.findings import Finding, find_error
from howmanygpus.invocation.cluster import OF_DEVICES, find_misfits_without_devices
from howmanygpus.invocation.deciding import refuse_overspending
from howmanygpus.invocation.dry_run.summary import describe_gate
from howmanygpus.invocation.internals import evaluate_request
from howmanygpus.invocation.submitted_jobs import find_older_jobs
from howmanygpus.site import slurm
from howmanygpus.site.machine import Machine
from howmanygpus.study.plan import Plan

NAME = re.compile(r"[\w.,-]+")
"""A plain name of an account or of partitions."""


def refuse_to_start(plan: Plan, workflow: Any, shortages: list[Finding], warn: Callable[[str], None]) -> list[Finding]:
    """Return everything that keeps a call from starting.

    workflow: Snakemake's. shortages: what the plan lacks on this machine. warn: prints a message that stops nothing.
    """
    executor = (workflow.executor_plugin.name, workflow.local_exec)
    jobs = list(workflow.dag.needrun_jobs())
    own, *shared = list_caches()
    if shared and any(job.rule.name.endswith("build_environment") for job in jobs):
        warn(f"HOWMANYGPUS_CACHE: {shared[0]} may only be read; what is not installed there is installed in {own}")
    # `--touch` starts nothing, whatever the executor.
    if not workflow.touch and any(OF_DEVICES in job.rule.resources for job in jobs):
        for doubt in warn_about_executor(plan.machine, *executor):
            warn(str(doubt))
    refused = refuse_executor(plan.machine, *executor) or refuse_arrays(workflow.executor_settings)
    refused = refused or shortages or refuse_overspending(plan, jobs)
    if not refused and plan.machine.submits and not workflow.local_exec:
        refused = refuse_limits(workflow, jobs) or find_misfits_without_devices(jobs) or find_older_jobs(warn)
    return refused


def read_default(workflow: Any, resource: str) -> str | None:
    """Return a name that the profile requests for all jobs; None if there is none, or an expression.

    workflow: Snakemake's. resource: such as slurm_account.
    """
    given = (workflow.resource_settings.default_resources or {}).get(resource)
    # Snakemake evaluates texts for each job, and keeps what was given.
    name = str(getattr(given, "raw", given)).strip("'\"")
    return name if given is not None and NAME.fullmatch(name) else None


def announce_gate(workflow: Any, say: Callable[[str], None]) -> None:
    """Say how long the parity gate takes, because it shows nothing else for minutes. workflow: Snakemake's."""
    if expected := describe_gate(workflow.dag, workflow.persistence):
        say(expected)


def refuse_executor(machine: Machine, executor: str, is_local: bool) -> list[Finding]:
    """Return an error if an executor submits jobs that the machine file does not describe.

    executor: its name in Snakemake. is_local: whether it starts jobs where Snakemake runs.
    """
    if is_local or (machine.submits and executor == machine.scheduler):
        return []
    problem, remedy = f"but {machine.path} has `scheduler: {machine.scheduler}`", "choose that executor"
    if machine.packed:
        problem, remedy = "but with `packed: true` runs start in the job of this process", "leave one of the two out"
    elif not machine.submits:
        problem = f"but the machine file in force, {machine.path}, has no `scheduler`, so they would request no device"
        remedy = "name the machine file of the cluster by `--config machine=FILE`, or put it as machine.yaml into "
        remedy += "the folder whose path --profile gives"
    return [find_error("--executor", executor, f"submits jobs, {problem}", remedy)]


def refuse_arrays(settings: Any) -> list[Finding]:
    """Return an error if jobs of a rule are to become one array of SLURM. settings: the executor's, None without any.

    All jobs of an array have the request of the first one. The database gives its last job the number of the array, and
    a job of it that fails loses the results of the first one to snakemake-executor-plugin-slurm 2.8.0.
    """
    if not getattr(settings, "array_jobs", None):
        return []
    problem = "all jobs of an array get the devices, memory and time of its first job, which runs do not share, and "
    problem += "one that fails removes a result of another"
    remedy = "leave the option out, also in config.yaml of the profile"
    return [find_error("--slurm-array-jobs", f"{settings.array_jobs}:", problem, remedy)]


def refuse_limits(workflow: Any, jobs: list[Any]) -> list[Finding]:
    """Return an error for each limit of --resources that is less than what one of the jobs requests.

    Snakemake 9.27 lowers the request of such a job to the limit and submits it, so that a run on eight nodes gets four.
    workflow: Snakemake's. jobs: those that are to run.
    """
    limits = {name: limit.value for name, limit in workflow.global_resources.items() if not name.startswith("_")}
    requests: dict[str, tuple[int, str]] = {}
    for job in jobs:
        for name, limit in limits.items():
            if job.is_local or not isinstance(limit, int) or name not in job.rule.resources:
                continue
            request = evaluate_request(workflow, job, name)
            if isinstance(request, int) and request > limit:
                requests[name] = max(requests.get(name, (0, "")), (request, job.rule.name))
    return [
        find_error(
            f"--resources {name}",
            limits[name],
            f"is less than the {request} that a job of {rule} requests, and Snakemake would lower that",
            f"raise it to {request} or more, or limit the jobs at a time by `--jobs`",
        )
        for name, (request, rule) in requests.items()
    ]


def warn_about_executor(machine: Machine, executor: str, is_local: bool) -> list[Finding]:
    """Return a warning if runs start here although the machine file says that they are jobs of a scheduler."""
    if not (is_local and machine.submits):
        return []
    problem = f"makes each run a job, but the executor {executor} starts all jobs where Snakemake runs"
    remedy = f"choose the profile of the cluster or `--executor {machine.scheduler}`, or add `--config packed=true` "
    remedy += "inside an allocation"
    return [Finding(f"{machine.path}: scheduler", machine.scheduler, problem, remedy)]


def leave_out_requests(machine: Machine) -> list[Finding]:
    """Remove the shell's variables that change what jobs request, and return a warning that names them."""
    if not (names := slurm.forget_requests() if machine.submits else []):
        return []
    problem = (
        f"left out, because {machine.path} and config.yaml of the profile say what jobs request, such as `partition`, "
        "`constraint`, `nodes: exclusive` or `sbatch_options` of a device"
    )
    return [Finding(f"{', '.join(names)} of your shell", "", problem)]


def warn_about_deployment(methods: Iterable[Any]) -> list[Finding]:
    """Return a warning if Snakemake is to deploy software, which no rule names. methods: Snakemake's of --sdm."""
    if not (names := " ".join(sorted(map(str, methods)))):
        return []
    problem = "has no effect, because no rule names a conda environment, a container or modules"
    remedy = "leave it out, and name interpreters of your own under `environments` of the machine file "
    remedy += "(docs/environments.md)"
    return [Finding("--software-deployment-method", names, problem, remedy)]

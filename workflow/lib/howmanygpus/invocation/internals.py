"""
Everything that the workflow uses of Snakemake and that Snakemake does not promise to keep.

Whoever tries a new version of Snakemake looks here, at the functions that patches.py replaces, and at the methods of
the SLURM plugin in executor.py. Read with snakemake 9.23 to 9.27.
"""

import inspect
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from snakemake.common.workdir_handler import WorkdirHandler
from snakemake_interface_common.exceptions import WorkflowError

from howmanygpus.invocation.versions import REMEDY


def find_start() -> Path:
    """Return the folder in which this command was given, while Snakemake reads the Snakefile.

    Snakemake has changed to the folder of --directory by then, and only the object that did it knows the other.
    """
    frame: FrameType | None = sys._getframe()
    while frame:
        handler = getattr(frame.f_locals.get("self"), "_workdir_handler", None)
        if isinstance(handler, WorkdirHandler) and handler.olddir:
            return handler.olddir
        frame = frame.f_back
    return Path()


def set_default(workflow: Any, resource: str, amount: int) -> None:
    """Let each rule that is read from now on request so much of a resource, unless it says how much.

    Raises WorkflowError if Snakemake keeps the defaults elsewhere.
    """
    defaults = getattr(workflow.resource_settings, "_parsed_default_resources", None)
    if defaults is None:
        raise WorkflowError(f"Snakemake's settings lack `_parsed_default_resources`, the defaults of rules; {REMEDY}")
    defaults[resource] = amount


def name_call(workflow: Any) -> str:
    """Return the name of this call, with which the names of all its jobs on a cluster end. Call it in `onstart`."""
    return getattr(workflow.scheduler._executor, "run_uuid", f"local-{uuid.uuid4()}")


def find_job_logs(workflow: Any, usual: Path) -> Path:
    """Return the folder in which an executor of a cluster keeps the logs of its jobs; `usual` for others."""
    return getattr(workflow.scheduler._executor, "slurm_logdir", usual)


def replace_news(scheduler: Any, make: Callable[[threading.Semaphore], Any]) -> Any:
    """Replace the semaphore for which a scheduler waits by `make(semaphore)`, and return that.

    Raises WorkflowError if the scheduler waits for something else.
    """
    news = getattr(scheduler, "_open_jobs", None)
    if not isinstance(news, threading.Semaphore):
        raise WorkflowError(f"Snakemake's scheduler waits without `_open_jobs`, so that Ctrl-C may be lost; {REMEDY}")
    scheduler._open_jobs = made = make(news)
    return made


def cancel_waiting_jobs(scheduler: Any) -> None:
    """Cancel jobs that wait for others to end. Only the executor of a cluster has such jobs."""
    if cancel := getattr(scheduler._executor, "cancel_waiting_jobs", None):
        cancel()


def keep_from_starting(workflow: Any, job: Any) -> None:
    """Let the scheduler never find a job ready that has not started."""
    with workflow.scheduler._lock:
        workflow.dag._ready_jobs.discard(job)
        workflow.dag._n_until_ready[job] += 1


def forget_parameters(job: Any) -> None:
    """Let a job's parameters be computed anew when they are asked for."""
    job._params = job._non_derived_params = None


def set_signature(function: Callable, signature: inspect.Signature) -> None:
    """Give a function for rules a signature. Snakemake looks for its own attribute before it calls inspect."""
    function.__signature__ = signature  # type: ignore[attr-defined]
    function._overwrite_params = signature.parameters  # type: ignore[attr-defined]


def evaluate_request(workflow: Any, job: Any, name: str) -> Any:
    """Return what a job requests of a resource, before a limit of --resources lowers it."""
    given = {"input": job.input, "attempt": job.attempt, "threads": job.threads}
    resource = job.rule.resources[name]
    return resource.evaluate(job.wildcards, rulename=job.rule.name, async_run=workflow.async_run, **given).value

"""
Patch: a run whose job never began has a reason: sbatch's message when it refused the job, or how SLURM ended it.

The plugin attaches sbatch's message to the event of the failed job. The logger `rich` does not print it, and with every
logger it is lost when the call ends. With the patch, it is a separate message and the content of the job's log, and a
run gets an attempt with the status `refused`.

A job that SLURM accepted may end before its run has begun an attempt: while it waits, or while it starts. With the
patch, the run gets an attempt with the status and the reason that SLURM gives, or with the last words of the job.

Upstream: no issue is known; docs/upstream.md has the text of a report.
Tested with snakemake-executor-plugin-slurm 2.8.0, snakemake-logger-plugin-rich 0.5.1 and SLURM 22.05.
"""

import re
from pathlib import Path
from typing import Any

from howmanygpus.call.attempts import record_refusal, record_unstarted
from howmanygpus.snakemake_patches.failing import describe_run, find_last_words, list_logs, name_run
from howmanygpus.snakemake_patches.patching import check_version, replace

SAID = re.compile(r"The error message was '(.*?)'\.\n", re.DOTALL)
"""The part of the plugin's message that quotes sbatch. The whole command line follows it."""

TOO_MANY = re.compile(r"MaxSubmitJob|GrpSubmitJob")
"""SLURM's words for more jobs in the queue than a QOS or an association allows."""
FEWER = "lower `jobs` in config.yaml of the profile: so many jobs are submitted at once"

BASE = "snakemake_interface_executor_plugins.executors.base.AbstractExecutor"


def find_refusal(message: str) -> str:
    """Return in one line sbatch's message or, if sbatch was not called, why the plugin did not submit the job.

    A limit of submitted jobs gets a remedy: the other jobs only need to be submitted later.
    """
    quoted = SAID.search(message)
    said = " ".join((quoted[1] if quoted else message).split())
    return f"SLURM refused the job: {said}" + (f"; {FEWER}" if TOO_MANY.search(said) else "")


def keep_refusal(job: Any, reason: str) -> None:
    """Write why a job was refused to its log and, for a run, to the record of an attempt."""
    for log in list_logs(job):
        log.write_text(f"{reason}\n")
    if run := name_run(job):
        record_refusal(run, *describe_run(job), reason)


def _keep_refusals(upstream: Any) -> Any:
    said: set[tuple[str, str]] = set()

    def report_job_error(executor: Any, job_info: Any, msg: str) -> None:
        reason = find_refusal(msg)
        # With retries, SLURM gives the same answer again.
        if (told := (str(job_info.job.log), f"{name_run(job_info.job) or job_info.job}: {reason}")) not in said:
            said.add(told)
            executor.logger.error(told[1])
        try:
            keep_refusal(job_info.job, reason)
        except Exception as error:
            # Snakemake must learn of the failure, or it would wait for the job for ever.
            executor.logger.error(f"The refusal could not be recorded: {type(error).__name__}: {error}")
        upstream(executor, job_info, msg)

    return report_job_error


def _keep_ends(upstream: Any) -> Any:
    def report_job_error(executor: Any, job_info: Any, msg: Any = None, **more: Any) -> None:
        job, job_id = job_info.job, str(job_info.external_jobid)
        try:
            if (run := name_run(job)) and job_id.isdecimal():
                logs = [*list_logs(job), *map(Path, more.get("aux_logs") or [])]
                record_unstarted(run, *describe_run(job), job_id, find_last_words(logs))
        except Exception as error:
            executor.logger.error(f"The end of job {job_id} could not be recorded: {type(error).__name__}: {error}")
        upstream(executor, job_info, msg, **more)

    return report_job_error


def apply() -> None:
    """Patch Executor._report_job_error_threadsafe, which the plugin calls if it could not submit a job, and the
    function that it calls if a job failed.
    """
    check_version("snakemake-executor-plugin-slurm")
    import snakemake_executor_plugin_slurm as plugin  # installed with the workflow, imported on clusters only

    written_for = "snakemake_executor_plugin_slurm.Executor._report_job_error_threadsafe(self, job_info, msg)"
    replace(plugin.Executor, "_report_job_error_threadsafe", written_for, _keep_refusals)
    written_for = f"{BASE}.report_job_error(self, job_info, msg, **kwargs)"
    replace(plugin.Executor, "report_job_error", written_for, _keep_ends)

"""
Patch: what sbatch says when it refuses a job is shown by every logger, and becomes the reason of the run.

The plugin attaches sbatch's message to the event of the failed job. The logger `rich` prints nothing of it, and with
every logger it is lost when the call ends. With the patch, it is a message of its own and the content of the job's log,
and a run gets an attempt with the status `refused`.

Upstream: no issue is known; docs/upstream.md has the text of a report.
Tested with snakemake-executor-plugin-slurm 2.8.0, snakemake-logger-plugin-rich 0.5.1 and SLURM 22.05.
"""

import json
import re
from pathlib import Path
from typing import Any

from howmanygpus.call.attempts import record_refusal
from howmanygpus.snakemake_patches.failing import list_logs, name_run
from howmanygpus.snakemake_patches.patching import check_version, replace

SAID = re.compile(r"The error message was '(.*?)'\.\n", re.DOTALL)
"""Where the plugin's message quotes sbatch. The whole command line follows."""


def find_refusal(message: str) -> str:
    """Return in one line what sbatch said or, if the job did not get there, why the plugin did not submit it."""
    quoted = SAID.search(message)
    said = quoted[1] if quoted else message
    return "SLURM refused the job: " + " ".join(said.split())


def keep_refusal(job: Any, reason: str) -> None:
    """Write why a job was refused to its log and, for a run, to the record of an attempt."""
    for log in list_logs(job):
        log.write_text(f"{reason}\n")
    if run := name_run(job):
        inputs = {name: Path(job.input[name]) for name in ("data", "weights", "verdict")}
        record_refusal(run, json.loads(job.params.settings), inputs, reason)


def _keep_refusals(upstream: Any) -> Any:
    def report_job_error(executor: Any, job_info: Any, msg: str) -> None:
        reason = find_refusal(msg)
        executor.logger.error(f"{name_run(job_info.job) or job_info.job}: {reason}")
        try:
            keep_refusal(job_info.job, reason)
        except Exception as error:
            # Snakemake must hear of the failure, or it would wait for the job without end.
            executor.logger.error(f"The refusal could not be recorded: {type(error).__name__}: {error}")
        upstream(executor, job_info, msg)

    return report_job_error


def apply() -> None:
    """Patch Executor._report_job_error_threadsafe, which the plugin calls if it could not submit a job."""
    check_version("snakemake-executor-plugin-slurm")
    import snakemake_executor_plugin_slurm as plugin  # installed with the workflow, imported on clusters only

    written_for = "snakemake_executor_plugin_slurm.Executor._report_job_error_threadsafe(self, job_info, msg)"
    replace(plugin.Executor, "_report_job_error_threadsafe", written_for, _keep_refusals)

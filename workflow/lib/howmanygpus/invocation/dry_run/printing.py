"""
Prints the summary of a dry run, in place of Snakemake's list of jobs unless the user asks for this list.

Snakemake reports to its loggers by events. A filter sees them before any logger does.
"""

import atexit
import logging
import sys
from typing import Any

from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.common import LogEvent

from howmanygpus.config.findings import Finding
from howmanygpus.invocation.cluster import find_misfits_without_devices
from howmanygpus.invocation.dry_run.summary import Summary
from howmanygpus.study.plan import Plan

PLAN_ALONE = {Quietness.RULES, Quietness.PROGRESS}
"""With this, Snakemake plans a dry run and does not go through its jobs."""
LOCKED, LAST = "Error: Directory cannot be locked", "This was a dry-run"
DONE_BY_ANOTHER_CALL = (
    "Another call is at work in this folder. A dry run needs no lock, and counts what that call has not finished."
)
HINT = "This dry run started nothing. Add --printshellcmds for all jobs with their files, reasons and commands."


class SummaryFilter:
    """Replaces messages of a dry run. workflow: Snakemake's. lists_jobs: whether Snakemake lists the jobs too."""

    def __init__(self, workflow: Any, plan: Plan, lists_jobs: bool):
        self._workflow, self._plan, self._lists_jobs = workflow, plan, lists_jobs

    def __call__(self, record: logging.LogRecord) -> bool:
        event, message = getattr(record, "event", None), str(record.msg)
        if message.startswith(LOCKED):
            record.msg = DONE_BY_ANOTHER_CALL
        elif message.startswith(LAST):
            record.msg = self._write()
        elif event == LogEvent.RUN_INFO and not self._lists_jobs:
            # A message without an event is printed whatever the setting of --quiet.
            record.msg, record.event = f"{self._write()}\n\n{HINT}", None
        return self._lists_jobs or event != LogEvent.WORKFLOW_STARTED

    def _write(self) -> str:
        workflow = self._workflow
        asked, cores = workflow.dag_settings, workflow.resource_settings.cores or 1
        is_forced = bool(asked.forceall or asked.forcetargets or asked.forcerun)
        summary = Summary(self._plan, workflow.dag, workflow.persistence, cores, is_forced).write()
        return "\n".join([*map(str, self._find_misfits()), summary])

    def _find_misfits(self) -> list[Finding]:
        if not self._plan.machine.submits:
            return []
        return find_misfits_without_devices(self._workflow.dag.needrun_jobs())


def summarize_dry_run(workflow: Any, plan: Plan, logger: logging.Logger) -> None:
    """Print a summary of this dry run, and the data sets below it. Call it when the workflow is read."""
    settings = workflow.output_settings
    lists_jobs = settings.printshellcmds or settings.verbose or settings.quiet not in (None, PLAN_ALONE)
    if not lists_jobs:
        settings.quiet = PLAN_ALONE
    logger.addFilter(SummaryFilter(workflow, plan, lists_jobs))
    # If there is nothing to do, Snakemake ends without a summary.
    atexit.register(print, *plan.describe_data(), sep="\n", file=sys.stderr)

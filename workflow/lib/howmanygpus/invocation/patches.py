"""
Patch: plan jobs downstream of an ancient() file, even if the job that makes this file runs again. For the target
`available`, plan nothing but tables and figures. Refuse to write a report of results that are not up to date.

Snakemake skips its checks for all jobs downstream of a scheduled job, because they will run anyway. Later it leaves out
those that depend on the scheduled job by ancient() files alone. These are then never checked for other reasons to run,
so neither missing outputs nor changed parameters are noticed. With the patch, Snakemake does not skip the checks of
jobs that are reached through existing ancient() files alone.

For `available`, Snakemake would plan every job that its products need and whose code or settings have changed, so that
it would train. Its option --allowed-rules restricts the rules before it plans, so that nobody would know which runs are
stale. With the patch, Snakemake plans everything but products, from which the stale runs are noted, and then plans the
products alone.

Snakemake writes a report from the files that exist, also if a call would make them anew: an edited config stands above
the results of another one. With the patch, it plans the call and refuses the report if there is anything to do.

Upstream: https://github.com/snakemake/snakemake/issues/4166; no issue is known about the other two.
Tested with snakemake 9.23.0, 9.25.2 and 9.27.1. tests/workflow/test_planning.py fails if Snakemake alone plans such
jobs.
The project needs it because a changed parity gate must not rerun training: `verdict` is an ancient() input of `train`.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from snakemake.logging import logger
from snakemake_interface_common.exceptions import WorkflowError

from howmanygpus.invocation import available
from howmanygpus.invocation.versions import replace


class TriggeringEdges:
    """A view of a DAG's edges to dependent jobs, without the edges that consist of existing ancient() files only."""

    def __init__(self, depending: Mapping[Any, Mapping[Any, set]]):
        self._depending = depending

    def __getitem__(self, job: Any) -> dict:
        edges = self._depending[job].items()
        return {
            dependent: files
            for dependent, files in edges
            if not all(file.is_ancient and Path(file).exists() for file in files)
        }


def _mark_planning(upstream: Any) -> Any:
    async def update_needrun(dag: Any, *arguments: Any, **options: Any) -> None:
        dag.is_planning = True
        try:
            if available.builds_from_existing(dag.workflow):
                available.allow(dag, makes_products=False)
                await upstream(dag, *arguments, **options)
                for named in available.record_stale(dag):
                    logger.warning(named)
                available.allow(dag, makes_products=True)
            await upstream(dag, *arguments, **options)
        finally:
            dag.is_planning = False

    return update_needrun


def _follow_triggering_edges(upstream: Any) -> Any:
    def bfs(dag: Any, direction: Any, *jobs: Any, **options: Any) -> Iterator[Any]:
        if direction is dag.depending and getattr(dag, "is_planning", False):
            direction = TriggeringEdges(direction)
        return upstream(dag, direction, *jobs, **options)

    return bfs


def _refuse_old_results(upstream: Any) -> Any:
    async def auto_report(dag: Any, *arguments: Any) -> None:
        if refused := available.refuse_report(dag, sys.argv):
            raise WorkflowError(refused)
        await upstream(dag, *arguments)

    return auto_report


def apply() -> None:
    """Patch DAG.update_needrun, which marks the jobs to skip, DAG.bfs, by which it finds them, and auto_report."""
    import snakemake.api  # noqa: F401  (snakemake.dag cannot be imported before it)
    from snakemake import report
    from snakemake.dag import DAG

    replace(DAG, "update_needrun", "snakemake.dag.DAG.update_needrun(self, create_inventory)", _mark_planning)
    replace(DAG, "bfs", "snakemake.dag.DAG.bfs(self, direction, *jobs, stop)", _follow_triggering_edges)
    written_for = "snakemake.report.auto_report(dag, report_plugin, report_settings, global_report_settings)"
    replace(report, "auto_report", written_for, _refuse_old_results)

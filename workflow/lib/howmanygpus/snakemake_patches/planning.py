"""
Patch: plan jobs downstream of an ancient() file, even if the job that makes this file runs again.

Snakemake skips its checks for all jobs downstream of a scheduled job, because they will run anyway. Later it leaves out
those that depend on the scheduled job by ancient() files alone. These are then never checked for other reasons to run,
so neither missing outputs nor changed parameters are noticed. With the patch, Snakemake does not skip the checks of
jobs that are reached through existing ancient() files alone.

Upstream: https://github.com/snakemake/snakemake/issues/4166
Tested with snakemake 9.27.1. tests/workflow/test_planning.py fails if Snakemake alone plans such jobs.
The project needs it because a changed parity gate must not rerun training: `verdict` is an ancient() input of `train`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from howmanygpus.snakemake_patches.patching import check_version, replace


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


def apply() -> None:
    """Patch DAG.update_needrun, which marks the jobs to skip, and DAG.bfs, by which it finds them."""
    check_version("snakemake")
    import snakemake.api  # noqa: F401  (snakemake.dag cannot be imported before it)
    from snakemake.dag import DAG

    replace(DAG, "update_needrun", "snakemake.dag.DAG.update_needrun(self, create_inventory)", _mark_planning)
    replace(DAG, "bfs", "snakemake.dag.DAG.bfs(self, direction, *jobs, stop)", _follow_triggering_edges)

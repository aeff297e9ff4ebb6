"""
Patch: Snakemake ends when its work is done, and not when it would next have asked SLURM for the states of its jobs.

At the end, and after Ctrl-C, Snakemake waits for the thread that asks for the jobs' states. This thread sleeps for a
fixed time between two questions. The time grows by 10 s with each question that finds no ended job, up to 180 s; no
option limits it. With the patch, the thread looks every half second whether it is still needed.

No result depends on this patch. It stays because a user who pressed Ctrl-C would take the silence for a failure: after
75 s of a running job, Snakemake ended 0.9 s after Ctrl-C with the patch and 32 s after it without (180 s at most).

    .venv/bin/python benchmarks/slurm_cost.py --patch ending

Upstream: https://github.com/snakemake/snakemake-executor-plugin-slurm/issues/252 and issue 33.
Tested with snakemake-executor-plugin-slurm 2.8.0 and snakemake-interface-executor-plugins 9.4.0.
"""

import asyncio
import time
from typing import Any

from howmanygpus.snakemake_patches.patching import check_version, replace

POLL_S = 0.5


def _sleep_until_the_end(upstream: Any) -> Any:
    async def sleep(executor: Any) -> None:
        started = time.monotonic()
        # The pause may become shorter while it lasts, see cancelling.
        while executor.wait and time.monotonic() < started + executor.next_seconds_between_status_checks:
            await asyncio.sleep(POLL_S)

    return sleep


def apply() -> None:
    """Patch Executor.sleep, the pause between two questions, which the plugin inherits from its interface."""
    check_version("snakemake-executor-plugin-slurm")
    check_version("snakemake-interface-executor-plugins")
    import snakemake_executor_plugin_slurm as plugin  # installed with the workflow, imported on clusters only

    written_for = "snakemake_interface_executor_plugins.executors.remote.RemoteExecutor.sleep(self)"
    replace(plugin.Executor, "sleep", written_for, _sleep_until_the_end)

"""
Puts the project's logger plugin in the place of Snakemake's own output, unless the user asks for another one.

Snakemake looks for logger plugins before it reads the Snakefile, when `workflow/lib` is not on its path, and a site's
own Snakemake has no package of the project. So the plugin is registered, by Snakemake's registry of plugins, when the
Snakefile is read.
"""

import logging
from typing import TYPE_CHECKING, Any

from snakemake_interface_common.exceptions import InvalidPluginException

if TYPE_CHECKING:
    from howmanygpus.invocation.progress.handler import LogHandler

NAME = "howmanygpus"


def adopt(workflow: Any, logger: logging.Logger) -> "LogHandler | None":
    """Let the plugin take the place of Snakemake's own handler, and return it; None if nothing is replaced.

    The user's choice holds: `--logger NAME`, and options that ask for more messages or fewer. A Snakemake without what
    the plugin needs keeps its own handler, with a warning.
    """
    settings = workflow.output_settings
    asks = settings.dryrun or settings.quiet or settings.verbose or settings.printshellcmds or settings.debug_dag
    if asks or not workflow.is_main_process:
        return None
    try:
        from snakemake.logging import ColorizingTextHandler
        from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

        from howmanygpus.invocation.progress import handler as plugin

        plain = next((each for each in logger.handlers if isinstance(each, ColorizingTextHandler)), None)
        if plain is None:
            return None
        registry = LoggerPluginRegistry()
        registry.register_plugin(f"{registry.module_prefix}{NAME}", plugin)
        handler: LogHandler = registry.plugins[NAME].log_handler(settings, None)  # type: ignore[operator]
        handler.take_over(plain, lambda: workflow.touch)
    except (ImportError, AttributeError, TypeError, InvalidPluginException) as error:
        logger.warning(f"Progress is shown by Snakemake's own messages only: {type(error).__name__}: {error}")
        return None
    logger.addHandler(handler)
    logger.removeHandler(plain)
    return handler

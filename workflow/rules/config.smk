"""
Find the library and read the config: the files of --configfile, or config/config.yaml without any, and --config over
them. Without a file of this name in the folder of the call, the one of the workflow is read.

If a key is given twice in one file, Snakemake takes the last value, so the files themselves are checked first.
"""

import gc
import sys
from pathlib import Path

from snakemake.utils import update_config

# For a large grid Snakemake keeps millions of small objects, so the garbage collector runs less often, and never looks
# at the modules again that Snakemake has loaded.
gc.freeze()
gc.set_threshold(100_000, 50, 100)

LIBRARY = Path(str(workflow.current_basedir)).resolve().parent / "lib"

if not LIBRARY.is_dir():
    sys.exit(
        f"snakemake: {LIBRARY} does not exist: the rules need the library beside them, and Snakemake fetches no "
        "folders; clone the repository, and give the path of its workflow/Snakefile"
    )

sys.path.insert(0, str(LIBRARY))

from howmanygpus.invocation import versions

if unfit := versions.find_unfit():
    sys.exit(f"snakemake: {unfit}")

from howmanygpus.config.errors import ConfigError
from howmanygpus.config.files import check_config_files
from howmanygpus.config.schema import retype
from howmanygpus.invocation import modules
from howmanygpus.invocation.passes import leave_shell_behind
from howmanygpus.clone import choose_file

leave_shell_behind()

DEFAULT_CONFIG = choose_file("config/config.yaml")

# A module gets its config, and the files and options of the call are those of the workflow that imports it.
IS_MODULE = modules.is_module(workflow)
modules.note_names(workflow)

try:
    check_config_files([] if IS_MODULE else workflow.configfiles or [DEFAULT_CONFIG])
except ConfigError as error:
    # A WorkflowError would name this file and line as if the workflow were wrong.
    sys.exit(f"snakemake: {error}")


if not (IS_MODULE or workflow.configfiles):

    configfile: DEFAULT_CONFIG


# The report of a workflow that imports this one is its own.
if not IS_MODULE:

    report: "../report/workflow.rst"

    update_config(config, retype(workflow.config_settings.config))

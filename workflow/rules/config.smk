"""
Read the config: the files of --configfile, or config/config.yaml without any, and --config over them.

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

CLONE = Path(str(workflow.current_basedir)).resolve().parents[1]

if Path(workflow.basedir).resolve() != CLONE:
    sys.exit(f"snakemake: the workflow in {CLONE} cannot be a module of another one; call it there: `cd {CLONE}` first")
if Path.cwd().resolve() != CLONE:
    sys.exit(
        f"snakemake: the workflow keeps its results and its .venv in {CLONE}, and was called in {Path.cwd()}; "
        f"`cd {CLONE}` first or give `--directory {CLONE}`, and the full paths of your files"
    )

sys.path.insert(0, str(CLONE / "workflow" / "lib"))
# A Snakemake of the site may lack packages that the planner needs.
sys.path.append(str(CLONE / f".venv/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"))

from howmanygpus.invocation.passes import leave_shell_behind
from howmanygpus.config.errors import ConfigError
from howmanygpus.config.files import check_config_files
from howmanygpus.config.schema import retype

leave_shell_behind(CLONE / ".venv")

try:
    check_config_files(workflow.configfiles or ["config/config.yaml"])
except ConfigError as error:
    # A WorkflowError would name this file and line as if the workflow were wrong.
    sys.exit(f"snakemake: {error}")


if not workflow.configfiles:

    configfile: "config/config.yaml"


update_config(config, retype(workflow.config_settings.config))

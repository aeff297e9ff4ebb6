"""
Start Snakemake, with targets at any place of the command line, and in as many passes as its studies need.

`.venv/bin/snakemake` is this script in the folder of a clone; see howmanygpus.environments.command.
"""

import locale
import os
import sys
from pathlib import Path

if __name__ == "__main__":
    # A site's modules may set PYTHONPATH. Packages in it would shadow those of .venv, here and in jobs.
    has_path = os.environ.pop("PYTHONPATH", None)
    # Names of files and texts are UTF-8, whatever the locale or this variable is. Every process that this one starts
    # inherits that.
    has_encoding = os.environ.pop("PYTHONIOENCODING", None)
    is_utf8 = sys.flags.utf8_mode or locale.getencoding().lower() in ("utf-8", "utf8")
    if has_path or has_encoding or not is_utf8:
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from snakemake.cli import main

from howmanygpus.call.passes import run_in_passes
from howmanygpus.plan.config.command_line import separate_targets
from howmanygpus.plan.config.errors import ConfigError

if __name__ == "__main__":
    try:
        sys.argv[1:] = separate_targets(sys.argv[1:])
    except ConfigError as error:
        sys.exit(f"snakemake: {error}")
    run_in_passes(main, [sys.executable, *sys.orig_argv[1:]])

"""Replaces the command `snakemake` of `.venv`, so that a clone reads the command line before Snakemake does."""

import re
from pathlib import Path

from howmanygpus.files import atomic_path

FIRST_LINES = re.compile(r"#!.*\n(?:'''.*\n' '''\n)?")
"""First lines of a script, which name the interpreter; pip writes three of them if its path is long."""
COMMAND = '''"""Start Snakemake, in a clone of howmanygpus by its own script. Clones of any version share this file."""

import runpy
import sys
from pathlib import Path

OWN = Path("workflow/scripts/start_snakemake.py")

if __name__ == "__main__":
    if OWN.exists() and not {"-s", "--snakefile", "-d", "--directory"} & set(sys.argv):
        runpy.run_path(str(OWN), run_name="__main__")
    from snakemake.cli import main

    sys.exit(main())
'''


def replace_command(environment: Path) -> None:
    """Replace the command that pip has written for Snakemake. An environment without Snakemake is left as it is."""
    command = environment / "bin" / "snakemake"
    if not command.exists():
        return
    text = command.read_text()
    first_lines = FIRST_LINES.match(text)
    new = f"{first_lines[0] if first_lines else ''}{COMMAND}"
    if text != new:
        with atomic_path(command) as partial:
            partial.write_text(new)
            partial.chmod(command.stat().st_mode)

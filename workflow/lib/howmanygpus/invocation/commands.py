"""
The beginning of the rules' shell commands, which name the code by its place and so run in any folder.

Snakemake records the text of a command before its names are filled in, and does a job again if the text differs. The
place of the code is therefore the value of a name, and moving code or results reruns nothing.
"""

import shlex
import sys
from pathlib import Path

from howmanygpus.base.environment import OF_SNAKEMAKE
from howmanygpus.clone import LIBRARY, SCRIPTS
from howmanygpus.invocation.passes import has_own_snakemake

NAME = "HOWMANYGPUS"
"""Name of the beginning in the commands, and of the global variable of a Snakefile that has its value."""


def begin_command(place: Path = Path()) -> str:
    """Return what stands before the name of a script: the Python that runs Snakemake, with the workflow's library.

    place: folder in which the steps run, see invocation.modules.
    """
    library, python, scripts = map(shlex.quote, (str(LIBRARY), sys.executable, str(SCRIPTS)))
    if place != Path():
        scripts = f"{scripts}/in_folder.py {shlex.quote(str(place))} {scripts}"
    if has_own_snakemake():
        return f"PYTHONPATH={library} {python} {scripts}"
    return f'{OF_SNAKEMAKE}="$PYTHONPATH" PYTHONPATH={library}"${{PYTHONPATH:+:$PYTHONPATH}}" {python} {scripts}'

"""
The beginning of the rules' shell commands, which name the code by its place and so run in any folder.

Snakemake records the text of a command before its names are filled in, and does a job again if the text differs. The
place of the code is therefore the value of a name, and moving code or results reruns nothing.
"""

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from howmanygpus.clone import LIBRARY, SCRIPTS
from howmanygpus.invocation.passes import has_own_snakemake
from howmanygpus.surroundings.environment import OF_SNAKEMAKE

NAME = "HOWMANYGPUS"
"""Name of the beginning in the commands, and of the global variable of a Snakefile that has its value."""
EARLIER = "PYTHONPATH=workflow/lib .venv/bin/python workflow/scripts"
"""The same in the records of results that were made while the workflow ran in its own folder only."""


class Command(str):
    """A rule's shell command, which equals the one that an earlier version of the workflow recorded for the rule."""

    def __eq__(self, recorded: object) -> bool:
        return recorded in (str(self), str(self).replace(f"{{{NAME}}}", EARLIER))

    def __ne__(self, recorded: object) -> bool:
        return not self == recorded

    __hash__ = str.__hash__


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


def accept_earlier_records(rules: Iterable[Any]) -> None:
    """Let Snakemake compare the commands of the workflow's rules with those of earlier versions. rules: Snakemake's."""
    for rule in rules:
        if rule.shellcmd and f"{{{NAME}}}" in rule.shellcmd:
            rule.shellcmd = Command(rule.shellcmd)

"""The command of a user's program: its placeholders, and the shell script that starts it."""

import shlex
import string
from collections.abc import Mapping
from pathlib import Path

from howmanygpus.measure.program.spec import ProgramSpec

PLACEHOLDERS = (
    *("num_gpus", "num_nodes", "devices_per_node", "per_device_batch_size", "global_batch_size"),
    *("precision", "seed", "repeat", "rendezvous"),
)
"""Placeholders of every command. `rendezvous` is the host and a free port of the first process."""


class CommandError(ValueError):
    """A command has braces that name no placeholder. The message says what is wrong, and then how to put it right."""


def parse_placeholders(command: str) -> list[str]:
    """Return the names in braces, in their order. Raises CommandError for braces that a run could not fill."""
    try:
        parts = list(string.Formatter().parse(command))
    except ValueError as error:
        raise CommandError(f"has unpaired braces ({error}); write {{{{ and }}}} for braces of the shell") from None
    for _, name, form, conversion in parts:
        if name is not None and (form or conversion or not name.isidentifier()):
            raise CommandError("has braces that hold no plain name; write {{ and }} for braces of the shell")
    return [name for _, name, _, _ in parts if name is not None]


def fill_command(spec: ProgramSpec, environment: Mapping[str, str]) -> str:
    """Return the command of a run with its placeholders filled in.

    environment: the variables of the process that starts it; MASTER_ADDR and MASTER_PORT are the rendezvous.
    """
    values = {name: getattr(spec, name) for name in PLACEHOLDERS if name != "rendezvous"}
    values |= {"rendezvous": f"{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}"}
    values |= {name: shlex.quote(str(value)) for name, value in spec.program["axes"].items()}
    return spec.program["command"].format_map(values)


STRICT = "set -eo pipefail; "
"""A program that fails ends the command, and gives it its exit status, also before `| tee log` and `; echo done`."""


def build_shell(spec: ProgramSpec, command: str) -> list[str]:
    """Return the command line that runs a filled command with its modules, and in its container if there is one."""
    program, script = spec.program, STRICT + command
    if program["container"]:
        tool = "apptainer exec" + (" --nv" if spec.device_kind == "cuda" else "")
        script = f"{tool} --bind {shlex.quote(str(Path.cwd()))} {shlex.quote(program['container'])} bash -c"
        script += f" {shlex.quote(STRICT + command)}"
    load = "".join(f"module load {shlex.quote(module)} || exit 1\n" for module in program["modules"])
    # Only a login shell defines `module`.
    return ["bash", "-lc" if load else "-c", load + script]

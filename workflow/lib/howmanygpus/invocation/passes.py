"""
A call of Snakemake in several passes: each plans anew from the measurements of the passes before it.

Every pass is an ordinary Snakemake, and its work depends on the config and the records alone. A later call therefore
continues where an earlier one has ended, for whatever reason, and repeats nothing. A pass ends by becoming the next
one: an exit handler replaces the process by the same command, after Snakemake has released its lock. The process stays
the same, so that Ctrl-C and SIGTERM reach the current pass.
"""

import atexit
import locale
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, NoReturn

import snakemake

from howmanygpus.invocation import internals

NUMBER, STATUS = "HOWMANYGPUS_PASS", "HOWMANYGPUS_STATUS"
"""Environment variables with the number of a pass, and with the worst exit status of the passes before it."""
COMMANDS = (("snakemake",), ("snakemake", "__main__.py"))
"""How the program in a command line of Snakemake ends; the second is that of `python -m snakemake`."""


class PassState(NamedTuple):
    """The demands of a plan according to the records that exist.

    asked: the runs and numbers that this pass makes, or that exist and are part of the plan. undecided: the studies
    about which later passes decide.
    """

    asked: frozenset[str]
    undecided: frozenset[str]

    def is_followed_by(self, after: "PassState") -> bool:
        """Return whether a pass leads to another one. after: the standing at its end.

        A pass whose steps failed without changing a decision leads to none.
        """
        return bool(after.asked - self.asked or self.undecided - after.undecided)


class _State:
    number = 1
    worst = 0
    is_followed = False


def begin_pass() -> int:
    """Return the number of this pass, from 1. Call it once, in the main process."""
    _State.number = int(os.environ.pop(NUMBER, 1))
    _State.worst = int(os.environ.pop(STATUS, 0))
    if _State.worst:
        # Snakemake calls no hook if this pass has nothing to do.
        atexit.register(_end_pass)
    return _State.number


def ask_for_another(has_failed: bool) -> bool:
    """Let another pass follow this one. Return False if this process is not a command of Snakemake.

    has_failed: whether a step of this pass failed, so that the call fails whatever later passes do.
    """
    if not _is_command():
        return False
    _State.is_followed = True
    _State.worst = max(_State.worst, int(has_failed))
    # The handler that is registered last is called first; it calls the others itself.
    atexit.unregister(_end_pass)
    atexit.register(_end_pass)
    return True


def fail_at_end(find_failure: Callable[[], str]) -> None:
    """Let this command fail if, at its end, there is a failure that no step of Snakemake is.

    find_failure: returns the last message of the call; empty if there is no such failure.
    """

    def end() -> None:
        if not _State.is_followed and (failure := find_failure()):
            print(failure, file=sys.stderr)
            _run_exit_functions(end)
            os._exit(1)

    if _is_command():
        atexit.register(end)


def _is_command() -> bool:
    """Whether this process is a command of Snakemake, and not a program that calls its API."""
    parts = Path(sys.argv[0]).parts
    return any(parts[-len(command) :] == command for command in COMMANDS)


def _end_pass() -> None:
    """Become the next pass, or end with the worst status of all passes."""
    if _State.is_followed:
        os.environ[NUMBER], os.environ[STATUS] = str(_State.number + 1), str(_State.worst)
        _start_again(_end_pass)
    _run_exit_functions(_end_pass)
    os._exit(_State.worst)


def has_own_snakemake() -> bool:
    """Whether Snakemake is installed in this Python, and not in a folder of PYTHONPATH."""
    return Path(snakemake.__file__).is_relative_to(sys.prefix)


def leave_shell_behind() -> None:
    """Start this command again if variables of the shell would disturb it. Call it before Snakemake plans."""
    if not _is_command():
        return
    # Names of files and texts are UTF-8, whatever the locale or this variable is. Every process that this one starts
    # inherits that.
    is_utf8 = sys.flags.utf8_mode or locale.getencoding().lower() in ("utf-8", "utf8")
    has_encoding = os.environ.pop("PYTHONIOENCODING", None)
    # A site's modules may set PYTHONPATH: packages in it would shadow those of this Python, here and in jobs. A site's
    # own Snakemake may be in such a folder itself.
    has_path = os.environ.pop("PYTHONPATH", None) if has_own_snakemake() else None
    if has_path or has_encoding or not (is_utf8 or os.environ.get("PYTHONUTF8") == "1"):
        os.environ["PYTHONUTF8"] = "1"
        os.chdir(internals.find_start())
        _start_again()


def _start_again(handler: Callable[[], None] | None = None) -> NoReturn:
    """Replace this process by the same command. handler: the exit function that calls this."""
    _run_exit_functions(handler)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _run_exit_functions(handler: Callable[[], None] | None) -> None:
    """Run the exit functions of Snakemake and its plugins, but not the one that calls this, and flush the output."""
    if handler:
        atexit.unregister(handler)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()

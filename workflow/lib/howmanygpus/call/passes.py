"""
A call of Snakemake in several passes: each plans anew from the measurements of the passes before it.

Every pass is an ordinary Snakemake, and its work depends on the config and the records alone. A later call therefore
continues where an earlier one has ended, for whatever reason, and repeats nothing. A pass ends by becoming the next
one: the process stays the same, so that Ctrl-C and SIGTERM reach the current pass.
"""

import atexit
import os
import sys
from collections.abc import Callable
from typing import NamedTuple, NoReturn

NUMBER, STATUS = "HOWMANYGPUS_PASS", "HOWMANYGPUS_STATUS"
"""Environment variables with the number of a pass, and with the worst exit status of the passes before it."""


class Standing(NamedTuple):
    """The demands of a plan according to the records that exist.

    asked: the runs and numbers that this pass makes, or that exist and are part of the plan. undecided: the studies
    about which later passes decide.
    """

    asked: frozenset[str]
    undecided: frozenset[str]

    def is_followed_by(self, after: "Standing") -> bool:
        """Return whether a pass leads to another one. after: the standing at its end.

        A pass whose steps failed without changing a decision leads to none.
        """
        return bool(after.asked - self.asked or self.undecided - after.undecided)


class _State:
    number = 1
    worst = 0
    is_followed = False
    is_wrapped = False


def find_number() -> int:
    """Return the number of this pass, from 1."""
    return _State.number


def ask_for_another() -> bool:
    """Let another pass follow this one. Return False if Snakemake was started in a way that has no further pass."""
    _State.is_followed = True
    return _State.is_wrapped


def run_in_passes(main: Callable[[], None], command: list[str]) -> NoReturn:
    """Call Snakemake's main function, and become the next pass if one was asked for.

    command: starts the next pass. The exit functions of Snakemake and its plugins run at the end of each pass, because
    the function that is registered first is called last. Call this before Snakemake registers any.
    """
    _State.number = int(os.environ.pop(NUMBER, 1))
    _State.worst = int(os.environ.pop(STATUS, 0))
    _State.is_wrapped = True
    atexit.register(_become_next, command)
    try:
        main()
    except SystemExit as end:
        _State.worst = max(_State.worst, _count_status(end.code))
    sys.exit(_State.worst)


def _count_status(code: object) -> int:
    """Return the status with which Python would end, and print what it would print."""
    if isinstance(code, str):
        print(code, file=sys.stderr, flush=True)
    return code if isinstance(code, int) else int(code is not None)


def _become_next(command: list[str]) -> None:
    if not _State.is_followed:
        return
    os.environ[NUMBER], os.environ[STATUS] = str(_State.number + 1), str(_State.worst)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execv(command[0], command)

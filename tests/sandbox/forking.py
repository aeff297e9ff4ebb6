"""
Run Snakemake in forks of a process that has imported it already.

In most of the tests' calls the import takes longer than everything else. Started as a program, this module is that
process: it reads a line of JSON for each call, and writes a line with the exit status of each call that has ended.
"""

import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

IMPORTED_LATE = ("jsonschema", "packaging.specifiers", "pynvml", "smart_open")
"""Packages that every call imports while it reads the Snakefile. Each call imports its own copy of the project."""
STARTED_BY_USERS = [sys.executable, "-m", "snakemake"]


def listen_to_ctrl_c() -> None:
    """Let a child react to SIGINT as in a terminal, for preexec_fn: a background job of a shell script ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@functools.cache
def _parent() -> subprocess.Popen:
    """Start the parent of the forks. It ends when this process ends, because its input then ends."""
    command, pipe = [sys.executable, __file__], subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, preexec_fn=listen_to_ctrl_c)


def start_anew() -> None:
    """Let the next call start another parent, which sees the mounts that this process has by then."""
    _parent.cache_clear()


def run_snakemake(arguments: list[str], cwd: Path, env: dict[str, str], output: Path, timeout_s: float) -> int:
    """Run STARTED_BY_USERS with `arguments`, print to the file `output`, and return the exit status.

    As in subprocess, the status is negative if a signal ended the call. After `timeout_s` that is SIGALRM. A parent
    that something has ended since the last call is replaced, with a warning that names its status.
    """
    parent = _parent()
    if (status := parent.poll()) is not None:
        warnings.warn(f"the parent of the forks, process {parent.pid}, had ended with status {status}", stacklevel=1)
        start_anew()
        parent = _parent()
    call = {"arguments": arguments, "cwd": str(cwd), "env": env, "output": str(output), "timeout_s": timeout_s}
    print(json.dumps(call), file=parent.stdin, flush=True)
    return json.loads(parent.stdout.readline())


def become_snakemake(arguments: list[str], cwd: str, env: dict[str, str], output: str, timeout_s: float) -> None:
    os.setsid()
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number, opened in enumerate((os.open(os.devnull, os.O_RDONLY), file, file)):
        os.dup2(opened, number)
    sys.path[0] = cwd
    sys.argv = ["snakemake", *arguments]
    sys.orig_argv = [*STARTED_BY_USERS, *arguments]
    cli.main()


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            return become_snakemake(**json.loads(line))
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    from snakemake import cli

    cli.get_argument_parser()  # This call imports all plugins.
    for name in IMPORTED_LATE:
        importlib.import_module(name)
    main()

"""
Run the workflow's short scripts in forks of a process that has already done their imports.

A script that makes a table takes 0.1 s, and its imports 0.3 s; a call of the workflow starts dozens. Here `.venv` of a
copy of the project is a folder in which `bin/python` hands such scripts to a server, and starts everything else as
usual. The server never imports the project's own code, so each fork reads that of its copy.
"""

import functools
import gc
import importlib
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import uuid
from pathlib import Path

IMPORTED = ("jsonschema", "matplotlib.pyplot", "pandas", "sklearn.datasets", "yaml")
SCRIPTS = (
    *("answer_question", "check_parity", "draw_figures", "make_tables", "merge_answers", "plan_runs"),
    *("prepare_arrays", "write_parity_page"),
)
"""Scripts of workflow/scripts/ that start no processes of their own."""
CLIENT = Path(__file__).with_name("script_client.py")
PYTHON = """#!/bin/sh
case "$1" in
{patterns}) exec {python} -I -S {client} {address} {python} "$@" ;;
esac
exec {python} "$@"
"""
LOST = 70
"""Exit status of a script whose client was killed."""


@functools.cache
def _start() -> tuple[subprocess.Popen, str]:
    """Start the server. It ends when this process ends, because its input then ends."""
    address, pipe = f"howmanygpus-scripts-{uuid.uuid4()}", subprocess.PIPE
    server = subprocess.Popen([sys.executable, "-I", __file__, address], stdin=pipe, stdout=pipe)
    server.stdout.readline()
    return server, address


@functools.cache
def make_venv() -> Path:
    """Return a folder to which `.venv` of copies of the project may be linked."""
    _, address = _start()
    folder = Path(tempfile.mkdtemp(prefix="venv"))
    (folder / "bin").mkdir()
    for place in (".", "bin"):
        for path in Path(sys.prefix, place).iterdir():
            if path.name not in ("bin", "python"):
                (folder / place / path.name).symlink_to(path)
    real = shlex.quote(f"{sys.prefix}/bin/python")
    patterns = "|".join(f"workflow/scripts/{name}.py" for name in SCRIPTS)
    text = PYTHON.format(patterns=patterns, python=real, client=shlex.quote(str(CLIENT)), address=address)
    (folder / "bin" / "python").write_text(text)
    (folder / "bin" / "python").chmod(0o755)
    return folder


def start_anew() -> None:
    """Let copies that are made from now on use another server, which sees the mounts of this process by then."""
    _start.cache_clear()
    make_venv.cache_clear()


def leave_with_client(client: socket.socket) -> None:
    """End this process when the client has ended, because signals only reach the client."""
    client.recv(1)
    os._exit(LOST)


def become_script(client: socket.socket) -> None:
    """Run the script that a client asks for, with its files, folder and environment, and tell it the exit status."""
    length, (*files, folder), _, _ = socket.recv_fds(client, 4, 4)
    with client.makefile("rb") as stream:
        call = json.loads(stream.read(int.from_bytes(length)))
    for number, file in enumerate(files):
        os.dup2(file, number)
    threading.Thread(target=leave_with_client, args=(client,), daemon=True).start()
    os.fchdir(folder)
    os.environ.clear()
    os.environ.update(call["environment"])
    script, *_ = sys.argv = call["arguments"]
    paths = os.environ.get("PYTHONPATH", "").split(":")
    sys.path[:0] = [str(Path(path).absolute()) for path in (Path(script).parent, *filter(None, paths))]
    status = 1
    try:
        runpy.run_path(script, run_name="__main__")
        status = 0
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        status = 1 if isinstance(error.code, str) else error.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        client.send(bytes([status]))
        os._exit(status)


def main() -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{sys.argv[1]}")
        listener.listen(128)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        print("ready", flush=True)
        while sys.stdin not in (ready := select.select([listener, sys.stdin], [], [])[0]):
            assert ready == [listener]
            client, _ = listener.accept()
            if not os.fork():
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                become_script(client)
            client.close()


if __name__ == "__main__":
    main()

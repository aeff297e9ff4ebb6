"""A call shows its progress on a terminal, prints lines elsewhere, and keeps all messages in Snakemake's log."""

import fcntl
import os
import pty
import struct
import subprocess
import termios

import pytest

from forking import STARTED_BY_USERS
from project import RUNS, Project, study

CONFIG = {"frameworks": ["sleeping"], "num_gpus": [1]}
RUN = "small/sleeping/base/arrays_fp32_cpu_gpus1_batch64_repeat1"
COLUMNS, LINES = 100, 30


@pytest.fixture
def project(prepared, tmp_path):
    """Return a project whose only run takes some seconds."""
    project = Project(tmp_path / "project")
    project.take_prepared(prepared)
    project.write_config(small=study(**CONFIG))
    project.behave(sleeping={"step_s": 0.2})
    yield project
    project.kill_processes()


def run_on_terminal(project, *arguments) -> str:
    """Run Snakemake on a terminal, and return all that it wrote there."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    command = [*STARTED_BY_USERS, "--profile", project.profile, *arguments]
    streams = {"stdin": other, "stdout": other, "stderr": other}
    environment = project.environment() | {"TERM": "xterm"}
    process = subprocess.Popen(command, cwd=project.folder, env=environment, start_new_session=True, **streams)
    os.close(other)
    printed = b""
    try:
        while part := os.read(main, 2**16):
            printed += part
    except OSError:
        pass  # a terminal that nobody has open any more
    assert process.wait(60) == 0, printed.decode()
    return printed.decode()


def list_unlogged(project) -> list[str]:
    """Return which parts of Snakemake's own messages its log lacks, and control characters."""
    log = project.read_last_log()
    parts = ("SNAKEMAKE", "Job stats:", "rule train:", "Finished jobid: 1 ", " steps (")
    return [part for part in parts if part not in log] + [character for character in "\x1b\r" if character in log]


def test_a_terminal_shows_what_goes_on_and_what_is_done(project):
    printed = run_on_terminal(project, *RUNS)
    assert "rule train:" not in printed and "Job stats:" not in printed
    assert "0 of 1 done" in printed and "step " in printed and " of 24, " in printed, printed
    # The view has gone, and the lines stay.
    rest = printed[printed.index("\x1b[?25h") :]
    assert "runs: 1 of 1 done, in " in rest and "Complete log(s): " in rest and "0 of 1" not in rest
    assert list_unlogged(project) == []


def test_a_pipe_gets_a_line_for_each_run_and_no_control_characters(project):
    printed = project.snakemake(*RUNS)
    assert "\x1b" not in printed and "\r" not in printed and "rule train:" not in printed
    (line,) = [line for line in printed.splitlines() if line.startswith(f"{RUN}: ")]
    assert ": completed, " in line and " images/s, accuracy " in line and line.endswith("[1 of 1 done]")
    assert list_unlogged(project) == []
    again = project.snakemake("--forcerun", "train", "--printshellcmds", *RUNS)
    assert "rule train:" in again and "workflow/scripts/train.py" in again, "Snakemake's own messages, as asked for"

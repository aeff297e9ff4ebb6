"""A full disk is refused at the start of a call; one that fills up during the call is named, and ends the call."""

import subprocess
import time

import pytest

from hanging import HANG_S
from howmanygpus.files import find_files
from project import ROWS, RUNS, study

SIZE_MIB = 64


@pytest.fixture
def small_project(project, prepared):
    """Return a project whose results are on a small disk, and a function that fills the disk."""
    results = project.folder / "results"
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "tmpfs", str(results)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"mount is not allowed here: {mounted.stderr}")
    project.record_fake_environment()
    project.take_prepared(prepared)
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1]))
    yield project
    for process in project.processes():
        process.kill()
    subprocess.run(["umount", "--lazy", str(results)], check=True)


def fill(project) -> None:
    with open(project.folder / "results" / "filling", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(2**12))
        except OSError:
            pass


def test_a_full_disk_is_refused_at_the_start(small_project):
    fill(small_project)
    output = small_project.snakemake(*RUNS, expect=1)
    words = f"{small_project.folder / 'results'}: 16 MiB cannot be written: No space left on device (0.00 of 0.06 GiB"
    assert words in output and "Traceback" not in output, output
    assert "To do:" not in output, "nothing has started"
    small_project.snakemake("--unlock")
    assert small_project.planned_runs() != []
    (small_project.folder / "results" / "filling").unlink()
    small_project.snakemake(*ROWS)


def test_a_disk_that_fills_up_is_named_and_ends_the_call(small_project):
    small_project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1], repeats=3))
    small_project.behave(sleeping="wait_for_file")
    process = small_project.start(*RUNS, "--retries", "2")
    deadline = time.monotonic() + HANG_S
    while not any(path.read_text() for path in find_files(small_project.folder / "results", "**/events.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    fill(small_project)
    (small_project.folder / "go_on").touch()
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 1 and "Some steps failed" in output, output
    assert f"{small_project.folder / 'results'}: 16 MiB cannot be written: No space left on device" in output, output
    assert "Logging error" not in output, "the run's own log, which is shown, has a traceback if it had room for it"
    started = list(find_files(small_project.folder / "results" / "logs" / "train", "**/*.log"))
    assert output.count("16 MiB cannot be written") == 1 and len(started) == 1, "no other run is started"

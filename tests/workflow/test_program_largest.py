"""The largest batch of a program is found with its own command, however it says that a batch does not fit."""

import json

import pytest

from project import Project

PROGRAM = """
import os, sys, time
how, batch, limit = sys.argv[1], int(sys.argv[2]), 20
path = os.environ["HOWMANYGPUS_REPORT"]

def report(line):
    with open(path, "a") as file:
        file.write(line + "\\n")

if batch > limit and how == "status":
    report('{"status": "out_of_memory", "reason": "the card is full"}')
    time.sleep(100)
if batch > limit and how == "words":
    sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9 GiB")
if batch > limit and how == "allocation":
    bytearray(2**50)
if batch > limit and how == "samples":
    sys.exit()
for step in range(10**6):
    report('{"step": %d}' % step)
    time.sleep(0.01)
"""
HOWS = {"status": "memory", "words": "memory", "allocation": "memory", "samples": "data_set"}
"""What a program does with a batch that is too large, and what then limits the batch."""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a project whose searches are done. Trainings without an end are stopped by the search."""
    project = Project(tmp_path_factory.mktemp("largest") / "project", fakes=())
    (project.folder / "train.py").write_text(PROGRAM)
    program = {"command": "python3 train.py {how} {per_device_batch_size}", "axes": {"how": list(HOWS)}}
    program |= {"files": ["train.py"]}
    project.write_config(sizes={"program": program, "per_device_batch_size": [8, "max"], "num_gpus": [1]})
    project.snakemake("--until", "search_batch_size")
    return project


@pytest.mark.parametrize("how", HOWS)
def test_the_largest_batch_is_found(project, how):
    (path,) = (project.folder / "results" / "batch_sizes").glob(f"sizes_how_{how}_*.json")
    record = json.loads(path.read_text())
    assert (record["largest"], record["limit"]) == (16, HOWS[how]), record["reason"]
    assert [each["batch"] for each in record["tries"]] == [8, 16, 32, 24, 16]
    assert all(each["seconds"] < 60 for each in record["tries"]), "each is stopped after some steps"
    assert record["reason"].startswith("24 samples at a time")

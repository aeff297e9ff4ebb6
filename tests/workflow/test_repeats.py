"""A study with `repeats: auto` repeats each configuration until its rate is known, in blocks of random order."""

import csv
import itertools

import pytest

from project import RUNS, study

ANSWERS = ("--until", "merge_answers")
STEP_S = 0.1
SLOW_S = 4 * STEP_S
"""Seconds of a step. One slow repeat of three has 0.25 of the median rate, and of nine the interval leaves it out."""
AUTO = {"repeats": "auto", "repeats_precision": 0.3}


def list_starts(project) -> list[str]:
    """Return the paths of the runs in the order in which they were measured."""
    return sorted(project.read_records(), key=lambda path: read_start(project, path))


def read_start(project, path: str) -> float:
    """Return when the events of a run began to be written, in seconds since 1970."""
    return (project.folder / "results" / "runs" / path / "events.jsonl").stat().st_mtime


@pytest.fixture
def project(project, prepared):
    project.take_prepared(prepared)
    project.leave_figures_blank()
    return project


def test_repeats_end_when_the_rate_is_known_and_say_why(project):
    project.write_config(small=study(num_gpus=[1], steps=12, per_device_batch_size=[32, 64], **AUTO))
    project.behave(
        sleeping__base__gpus1_batch32_repeat3={"step_s": SLOW_S},
        dozing__base__gpus1_batch64="out_of_memory",
        base__gpus1={"step_s": STEP_S},
    )
    summary = project.snakemake("--dry-run")
    assert "Decided later, by what this call measures: 24 runs" in summary, summary
    project.snakemake(*ANSWERS)
    numbers = {}
    for path in project.read_records():
        configuration, _, repeat = path.removeprefix("small/").rpartition("_repeat")
        numbers.setdefault(configuration, set()).add(int(repeat))
    input_of = "{}/base/arrays_fp32_cpu_gpus1_batch{}".format
    assert numbers == {
        input_of("sleeping", 32): set(range(1, 10)),
        input_of("sleeping", 64): {1, 2, 3},
        input_of("dozing", 32): {1, 2, 3},
        input_of("dozing", 64): {1, 2, 3},
    }
    rows = list(csv.DictReader(project.read("results/tables/small/scaling.tsv").splitlines(), delimiter="\t"))
    ended = {(row["framework"], row["per_device_batch_size"]): row["repeats_ended"] for row in rows}
    assert ended["sleeping", "32"] == "the interval of the median is within 0.3 of it after 9 repeats"
    assert ended["sleeping", "64"] == "the interval of the median is within 0.3 of it after 3 repeats"
    assert ended["dozing", "64"] == "3 of 3 repeats gave no rate (out of memory)"
    assert [row["num_planned"] for row in rows] == ["9", "3", "3", "3"], "repeats that nothing needs are not planned"
    answer = project.read("results/tables/small/answer.md")
    assert "3 configurations until the interval of the median was as narrow as asked for" in answer
    summary = project.snakemake("--dry-run", "--until", "train")
    assert "Not repeated further: 4 configurations" in summary and "1 x 3 of 3 repeats gave no rate" in summary


def test_blocks_of_repeats_follow_one_another_in_the_planned_order(project):
    project.write_config(small=study(num_gpus=[1, 2], steps=4, repeats=3))
    project.snakemake(*RUNS)
    ordered = list_starts(project)
    repeats = [int(path[-1]) for path in ordered]
    assert repeats == [1] * 4 + [2] * 4 + [3] * 4
    blocks = [
        [path[:-1] for path, _ in block]
        for _, block in itertools.groupby(zip(ordered, repeats, strict=True), key=lambda each: each[1])
    ]
    assert all(set(block) == set(blocks[0]) for block in blocks) and len({tuple(block) for block in blocks}) > 1

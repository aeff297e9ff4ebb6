"""The bill of each study in a folder is its own: its runs, and its share of the jobs of the gate that it needs."""

import csv
import json

import pytest

from project import TABLES, study


def read_jobs(project, table):
    path = project.folder / "results" / "tables" / table
    return list(csv.DictReader(path.read_text().splitlines(), delimiter="\t"))


def sum_hours(rows, kind):
    return sum(float(row["hours"]) for row in rows if row["kind"] == kind)


def read_held(project, kind):
    """Return the hours for which all jobs of a kind had the machine, from their own records."""
    records = [json.loads(path.read_text()) for path in (project.folder / "results" / "jobs" / kind).rglob("*.json")]
    return sum(record["held_s"] for record in records) / 3600


def test_the_bills_of_two_studies_add_up_to_the_hours_of_their_jobs(project, environment_python):
    environment_python("pytorch-cpu")  # for the reference of the gate
    given = study(frameworks=["sleeping"], num_gpus=[1], parity="report")
    project.write_config(one=given)
    project.snakemake(*TABLES)
    (first,) = {row["record"] for row in read_jobs(project, "one/jobs.tsv") if row["kind"] == "gate"}
    project.write_config(one=given, two=given | {"label_smoothing": 0.1}, three=given | {"label_smoothing": 0.1})
    project.snakemake(*TABLES)
    rows = {name: read_jobs(project, f"{name}/jobs.tsv") for name in ("one", "two", "three")}
    for kind in ("run", "gate"):
        total = sum(sum_hours(rows[name], kind) for name in rows)
        assert total == pytest.approx(read_held(project, kind), rel=1e-4)
        assert sum_hours(read_jobs(project, "jobs.tsv"), kind) == pytest.approx(total, rel=1e-4)
    gates = {name: {row["record"] for row in rows[name] if row["kind"] == "gate"} for name in rows}
    assert first in gates["one"] and first not in gates["two"] | gates["three"]
    assert sum_hours(rows["two"], "gate") == pytest.approx(sum_hours(rows["three"], "gate"))
    assert {row["study"] for name in rows for row in rows[name]} == {"one", "two", "three"}

"""What slows down a program on purpose is named as the cause, with its share, by control runs that it honours."""

import csv
import json
import shutil

import pytest

from helpers.slowed_program import PROGRAM, SHARE
from project import ROOT, Project

CASES = {"input": "input", "exchange": "exchange", "rank": "imbalance"}
"""What each program is slowed by, and the cause that is to be named."""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("causes") / "project", fakes=())
    shutil.copy2(ROOT / "examples" / "program" / "report_progress.py", project.folder)
    (project.folder / "train.py").write_text(PROGRAM)
    files = {"files": ["train.py", "report_progress.py"], "start": "per_device"}
    project.write_config(
        **{
            name: {
                "program": {"command": f"python3 train.py {name} {{rendezvous}}", **files},
                **{"num_gpus": [1, 2], "warmup_steps": 6, "diagnose": True},
            }
            for name in CASES
        }
    )
    project.snakemake(*(f"results/tables/{name}/explanations.tsv" for name in CASES))
    return project


def read_row(project, name: str) -> dict:
    (row,) = csv.DictReader(project.read(f"results/tables/{name}/explanations.tsv").splitlines(), delimiter="\t")
    return row


@pytest.mark.parametrize("name", CASES)
def test_the_cause_is_named_with_its_share(project, name):
    row = read_row(project, name)
    assert row["causes"].split(", ")[0] == CASES[name], row["sentence"]
    assert float(row["loss_frac"]) == pytest.approx(SHARE, abs=0.03), row["sentence"]
    assert float(row[f"{CASES[name]}_frac"]) == pytest.approx(SHARE, abs=0.03), row["sentence"]
    assert abs(float(row["unexplained_frac"])) < 0.03 and not row["run_next"]
    if name == "rank":
        assert row["slow_process"].startswith("1@")


def test_the_exchange_is_measured_with_the_bytes_that_the_program_reports(project):
    (record,) = (project.folder / "results" / "probe").glob("*_of_program_exchange.json")
    (size,) = json.loads(record.read_text())["sizes"]
    assert size["size_mib"] * 2**20 == pytest.approx(4 * 1000) and size["median_s"] > 0

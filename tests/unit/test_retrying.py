"""Test that runs which other work disturbed are set aside, and no others."""

import json
import subprocess
import sys

import pandas as pd

from howmanygpus.report.files import write_table
from howmanygpus.report.tables.runs import COLUMNS
from project import ROOT
from records import make_run
from specs import make_spec

SCRIPT = [sys.executable, str(ROOT / "workflow" / "scripts" / "retry_runs.py"), "--disturbed"]


def store(folder, name, **row):
    run = folder / "results" / "runs" / name
    run.mkdir(parents=True)
    (run / "run.json").write_text(json.dumps(make_run(make_spec())))
    return row | {"study": name.split("/")[0], "run_dir": f"results/runs/{name}", "status": "completed"}


def retry(folder, *options):
    return subprocess.run([*SCRIPT, *options], cwd=folder, capture_output=True, text=True)


def test_only_disturbed_runs_are_set_aside(tmp_path):
    rows = [
        store(tmp_path, "one/a", disturbed=True),
        store(tmp_path, "one/b", disturbed=False),
        store(tmp_path, "one/c", disturbed=None),
        store(tmp_path, "two/a", disturbed=True),
    ]
    table = tmp_path / "results" / "tables" / "runs.tsv"
    table.parent.mkdir(parents=True)
    write_table(table, pd.DataFrame(rows, columns=list(COLUMNS)))
    assert retry(tmp_path, "--study", "one").returncode == 0
    left = sorted(path.parent.name for path in (tmp_path / "results" / "runs" / "one").rglob("run.json"))
    assert left == ["b", "c"]
    assert (tmp_path / "results" / "runs" / "two" / "a" / "run.json").exists()
    assert len(list((tmp_path / "results" / "attempts" / "one" / "a").rglob("run.json"))) == 1


def test_without_a_table_the_remedy_is_said(tmp_path):
    result = retry(tmp_path)
    assert result.returncode == 2
    assert "results/tables/runs.tsv does not exist; the target `available` makes it" in result.stderr

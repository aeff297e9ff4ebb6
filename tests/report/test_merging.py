"""Tables of several studies become one, with every value as it stands in its part."""

import csv
import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from helpers.answers import make_facts
from helpers.messages import says
from howmanygpus.report.files import read_table, write_table
from howmanygpus.report.rows import merge_tables
from howmanygpus.report.tables.jobs import COLUMNS as JOBS
from project import ROOT

ROWS = {
    "study": ["one", "one"],
    "reason": ['a "quoted"\tword\nand a line', None],
    "steps": pd.array([12_345_678, None], dtype="Int64"),
    "seconds": [0.000012345678, 1e20],
    "reached": pd.array([True, None], dtype="boolean"),
    "commit": ["0012e5", "0012e6"],
}


def test_one_part_is_the_table_itself(tmp_path):
    write_table(tmp_path / "part.tsv", pd.DataFrame(ROWS))
    merge_tables([tmp_path / "part.tsv"], tmp_path / "table.tsv")
    assert (tmp_path / "table.tsv").read_bytes() == (tmp_path / "part.tsv").read_bytes()


def test_values_stay_although_another_part_lacks_them_or_has_no_row(tmp_path):
    first, second = pd.DataFrame(ROWS), pd.DataFrame({"study": ["two"], "more": [1]})
    for name, table in {"first": first, "second": second, "empty": first[:0]}.items():
        write_table(tmp_path / f"{name}.tsv", table)
    parts = [tmp_path / f"{name}.tsv" for name in ("empty", "first", "second")]
    merge_tables(parts, tmp_path / "table.tsv")
    lines = (tmp_path / "table.tsv").read_text().split("\n")
    assert lines[0] == "study\treason\tsteps\tseconds\treached\tcommit\tmore"
    assert lines[2:] == [
        'and a line"\t12345678\t1.23457e-05\tTrue\t0012e5\t',
        "one\t\t\t1e+20\t\t0012e6\t",
        "two\t\t\t\t\t\t1",
        "",
    ]
    assert read_table(tmp_path / "table.tsv")["reason"].tolist()[0] == ROWS["reason"][0]


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_record_that_serves_all_studies_has_the_row_of_the_last_part_and_a_divided_one_all(tmp_path, is_shared):
    for name, records in {"first": ["a", "b"], "second": ["c", "a"]}.items():
        table = pd.DataFrame({"study": None if is_shared else name, "part": name, "record": records})
        write_table(tmp_path / f"{name}.tsv", table)
    merge_tables([tmp_path / "first.tsv", tmp_path / "second.tsv"], tmp_path / "table.tsv")
    table = read_table(tmp_path / "table.tsv")
    rows = list(zip(table["part"], table["record"], strict=True))
    assert rows == [*([] if is_shared else [("first", "a")]), ("first", "b"), ("second", "c"), ("second", "a")]


@pytest.mark.parametrize("length", [10, 200_000])
def test_texts_may_be_long(tmp_path, length):
    write_table(tmp_path / "part.tsv", pd.DataFrame({"reason": ["x" * length]}))
    before = csv.field_size_limit()
    merge_tables([tmp_path / "part.tsv"], tmp_path / "table.tsv")
    assert read_table(tmp_path / "table.tsv")["reason"].tolist() == ["x" * length]
    assert csv.field_size_limit() == before, "other readers of the process keep their limit"


def test_answers_are_joined_as_text_and_as_markdown_with_one_bill(tmp_path):
    job = {"kind": "run", "status": "completed", "record": "r", "hours": 1.0, "device_hours": 2.0, "counted_by": "job"}
    write_table(tmp_path / "jobs.tsv", pd.DataFrame([job], columns=list(JOBS)))
    for study in ("one", "two"):
        (tmp_path / study).mkdir()
        (tmp_path / study / "answer.txt").write_text(f"{study} as text\n")
        (tmp_path / study / "answer.md").write_text(f"# {study}\n")
        facts = make_facts({"framework": "a", "study": study})
        (tmp_path / study / "answer.json").write_text(json.dumps(facts | {"study": study}))
    made = [tmp_path / f"answer.{suffix}" for suffix in ("txt", "md")]

    def merge(*studies):
        forms = {"texts": "txt", "markdowns": "md", "facts": "json"}
        answers = {
            form: [str(tmp_path / study / f"answer.{suffix}") for study in studies] for form, suffix in forms.items()
        }
        request = {
            "input": answers | {"jobs": str(tmp_path / "jobs.tsv")},
            "output": dict(zip(("texts", "markdowns"), map(str, made), strict=True)),
        }
        command = [sys.executable, ROOT / "workflow" / "scripts" / "merge_answers.py", json.dumps(request)]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")})
        return [path.read_text() for path in made]

    text, markdown = merge("one", "two")
    assert says(
        text, "one: Use 1 x cpu", "two: Use 1 x cpu", "All studies", "2 device-hours", "one as text", "two as text"
    )
    screen = text[: text.index("\n\n", text.index("The rest is in"))]
    assert len(screen.splitlines()) <= 25 and "as text" not in screen
    assert says(markdown, "# one", "# two", "All studies", "2 device-hours")
    assert merge("two") == ["two as text\n", "# two\n"], "one study has its bill already"

"""A new axis of the grid is one line, and what the report makes of runs keeps its values apart."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from howmanygpus.report.columns import CONFIGURATION, CURVE, IDENTITY, POINT, SERIES, list_columns

ROOT = Path(__file__).resolve().parents[2]
LIB = ROOT / "workflow" / "lib"
SERIES_KEY = list_columns(SERIES)
AXIS = "gradient_compression"
ANCHOR = '    Column("device", SERIES'
LINE = f'    Column("{AXIS}", SERIES, "compression", str, "How gradients are compressed."),\n'
COMPARES = """
import json, sys
import pandas as pd
from helpers import figure_tables as figured
from howmanygpus.report.rows import name_series

AXIS, RELATIVE = sys.argv[1], ("group", "speedup_over_best", "best_one_device", "roles", "series", "efficiency")

def speed_up(table):
    if "images_per_s" in table:
        table.loc[table[AXIS] == "fp16", "images_per_s"] *= 3

def make(*values):
    return figured.make_tables(lambda count: "completed", lambda count: 0.95, speed_up, axis=(AXIS, values))

both, alone = make("none", "fp16"), [make("none"), make("fp16")]
problems = {}
for name in sorted(both):
    if AXIS not in both[name]:
        continue
    kept = [column for column in both[name] if not column.startswith(RELATIVE)]
    rows = [sorted(map(tuple, table[kept].astype(object).fillna("").astype(str).to_numpy())) for table in
            (both[name], pd.concat([each[name] for each in alone]))]
    if rows[0] != rows[1]:
        pairs = [pair for pair in zip(*rows) if pair[0] != pair[1]]
        problems[name] = [len(rows[0]), len(rows[1]), sorted({column for pair in pairs for column, *values in
                          zip(kept, *pair) if values[0] != values[1]})]
without = sorted(name for name in both if AXIS not in both[name] and "framework" in both[name])
series = sorted(name_series(both["runs"]).unique())
print(json.dumps({"problems": problems, "without": without, "series": series, "tables": sorted(both)}))
"""


def test_levels_make_the_keys():
    assert [*CURVE[:-1], *POINT, "unit", "repeat", "seed"] == IDENTITY
    assert sorted(CONFIGURATION) == sorted([*CURVE, *POINT])


def test_an_axis_of_one_line_is_in_every_table_and_name(tmp_path):
    shutil.copytree(LIB.parent, tmp_path / "workflow", ignore=shutil.ignore_patterns("__pycache__"))
    columns = tmp_path / "workflow" / "lib" / "howmanygpus" / "report" / "columns.py"
    text = columns.read_text()
    assert text.count(ANCHOR) == 1
    columns.write_text(text.replace(ANCHOR, LINE + ANCHOR))
    paths = os.pathsep.join(map(str, (tmp_path / "workflow" / "lib", ROOT / "tests")))
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    called = subprocess.run(
        [sys.executable, "-c", COMPARES, AXIS], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert called.returncode == 0, called.stderr
    found = json.loads(called.stdout)
    assert found["problems"] == {}, "tables that mix the values of the axis, with their rows and those to expect"
    # Published numbers have columns of their own.
    assert found["without"] == ["published"]
    assert found["series"] == [
        f"{name} {value}" for name in ("a base", "b base", "b best") for value in ("fp16", "none")
    ]


def test_no_other_module_lists_the_columns_of_a_series():
    """A list by hand would lack the next axis. Published numbers have no variants."""
    found = []
    for path in sorted((LIB / "howmanygpus" / "report").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())) if path.name != "columns.py" else ():
            if isinstance(node, ast.List | ast.Tuple | ast.Set):
                names = {each.value for each in node.elts if isinstance(each, ast.Constant)}
                if "variant" in names and len(names & set(SERIES_KEY)) > 2:
                    found.append(f"{path.name}:{node.lineno}")
    assert found == []

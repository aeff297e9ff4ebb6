"""Jobs that draw nothing do not wait for packages that take longer to import than the job takes."""

import os
import subprocess
import sys

from project import ROOT

SCRIPT = """
import sys
from howmanygpus.report import answer
from howmanygpus.report.tables import list_tables, load_table
for name in list_tables():
    load_table(name)
print(*sorted({"matplotlib", "sklearn", "scipy"} & sys.modules.keys()))
"""


def test_tables_and_answers_import_neither_matplotlib_nor_scikit_learn():
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"

"""A figure looks the same whatever a user's shell and home folder say."""

import os
import subprocess
import sys

CODE = """
from howmanygpus.report import style
import matplotlib.pyplot as plt
import sys
plt.plot([1, 2])
plt.savefig(sys.argv[1], metadata={"Date": None})
"""


def test_a_users_settings_of_matplotlib_change_no_figure(tmp_path):
    (tmp_path / "matplotlibrc").write_text("axes.facecolor: black\nlines.linewidth: 9\nfigure.figsize: 1, 1\n")
    own = {"MATPLOTLIBRC": str(tmp_path / "matplotlibrc"), "MPLBACKEND": "no_such_backend"}
    given = {name: value for name, value in os.environ.items() if name not in own}
    figures = []
    for number, variables in enumerate(({}, own)):
        environment = given | {"PYTHONPATH": os.pathsep.join(sys.path)} | variables
        figure = tmp_path / f"{number}.svg"
        subprocess.run([sys.executable, "-c", CODE, figure], env=environment, check=True)
        figures.append(figure.read_text())
    assert figures[0] == figures[1]

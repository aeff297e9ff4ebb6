"""Draw the speed and the quality of preparing a data set."""

import argparse
from pathlib import Path

from howmanygpus.report.files import read_table
from howmanygpus.report.preparation import draw
from howmanygpus.report.style import save_figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path, required=True, help="table of measurements of one data set")
    parser.add_argument("--svg", type=Path, required=True, help="figure to write")
    parser.add_argument("--png", type=Path, required=True, help="figure to write")
    arguments = parser.parse_args()
    save_figure(draw(read_table(arguments.table)), arguments.svg, arguments.png)


if __name__ == "__main__":
    main()

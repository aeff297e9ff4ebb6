"""
Compare the rates of two results of a study: of two machines, versions or dates.

Prints what differs beyond the scatter of the repeats, and writes it to a folder as text, table and figure. The exit
status is 1 if a framework differs and is slower than `--fail-below` times the first result.
"""

import argparse
import json
import sys
from pathlib import Path

import pandas as pd

from howmanygpus.files import write_text_atomic
from howmanygpus.report.files import write_table
from howmanygpus.report.result import Result, compare, find_changes, tabulate
from howmanygpus.report.texts import render_comparison


def read(path: Path, study: str | None) -> Result:
    """Read a result.json, or that of a study below a folder of results. Raises SystemExit if there is not just one."""
    if path.is_dir():
        # `make figures` has results of its own below results/.
        places = (
            path.glob(f"tables/{study or '*'}/result.json"),
            path.glob(f"results/tables/{study or '*'}/result.json"),
        )
        found = sorted(each for place in places for each in place)
        if len(found) != 1:
            names = ", ".join(each.parent.name for each in found) or "none"
            sys.exit(f"{path} has results of these studies: {names}; name one by --study, or a file result.json")
        (path,) = found
    try:
        result = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"{path} cannot be read as a result: {error}; name a file result.json that this workflow wrote")
    if not isinstance(result, dict) or "configurations" not in result:
        sys.exit(f"{path} is no result; name a file result.json that this workflow wrote")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path, help="a file result.json, or a folder with results/")
    parser.add_argument("second", type=Path, help="likewise; its rates are divided by those of the first")
    parser.add_argument("--study", help="the study to compare, if a folder has several")
    parser.add_argument("--fail-below", type=float, default=0.0, metavar="RATIO", help="e.g. 0.95 (default never)")
    parser.add_argument("--folder", type=Path, default=Path("results/comparison"), help="where to write (%(default)s)")
    arguments = parser.parse_args()
    first, second = (read(path, arguments.study) for path in (arguments.first, arguments.second))
    comparison = compare(first, second)
    if not comparison.configurations:
        sys.exit(f"{arguments.first} and {arguments.second} have no configuration in common")
    text = render_comparison(comparison, find_changes(first, second), str(arguments.first), str(arguments.second))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    write_table(arguments.folder / "comparison.tsv", pd.DataFrame(tabulate(comparison)))
    write_text_atomic(arguments.folder / "comparison.txt", text)
    print(text)
    sys.exit(comparison.worst < arguments.fail_below)


if __name__ == "__main__":
    main()

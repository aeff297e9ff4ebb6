"""
Compare the rates of two results of a study: of two machines, versions or dates.

Prints what differs beyond the scatter of the repeats, and writes it to a folder as text, table and figure. The exit
status is 1 if a framework is slower than `--fail-below` times the first result, and differs from it or has lost
relative to the other frameworks.
"""

import argparse
import sys
from pathlib import Path

import pandas as pd

from howmanygpus.files import write_text_atomic
from howmanygpus.report.answer.texts import render_comparison
from howmanygpus.report.comparison_figure import draw_ratios
from howmanygpus.report.files import write_table
from howmanygpus.report.result import Result, find_changes, tabulate
from howmanygpus.report.result_files import ResultError, compare_named, read_result, rename_framework
from howmanygpus.report.style import save_figure


def find(path: Path, study: str | None) -> Path:
    """Return the file of a result, which a folder of results may hold. Raises ResultError if it has not just one."""
    if not path.is_dir():
        return path
    # `make figures` has results of its own below results/.
    places = (path.glob(f"tables/{study or '*'}/result.json"), path.glob(f"results/tables/{study or '*'}/result.json"))
    found = sorted(each for place in places for each in place)
    if len(found) != 1:
        names = ", ".join(each.parent.name for each in found) or "none"
        raise ResultError(f"{path} has results of these studies: {names}; name one by --study, or a file result.json")
    return found[0]


def read_both(arguments: argparse.Namespace) -> tuple[Result, Result]:
    """Return the two results, the second with the names of frameworks that it has in the first."""
    paths = [find(path, arguments.study) for path in (arguments.first, arguments.second)]
    if paths[0].exists() and paths[1].exists() and paths[0].samefile(paths[1]):
        raise ResultError(f"{arguments.first} and {arguments.second} are the same file; name two results")
    first, second = map(read_result, paths)
    for given in arguments.rename:
        old, _, new = given.partition("=")
        second = rename_framework(second, old, new, str(arguments.second))
    return first, second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path, help="a file result.json, or a folder with results/")
    parser.add_argument("second", type=Path, help="likewise; its rates are divided by those of the first")
    parser.add_argument("--study", help="the study to compare, if a folder has several")
    parser.add_argument("--fail-below", type=float, default=0.0, metavar="RATIO", help="e.g. 0.95 (default never)")
    parser.add_argument("--folder", type=Path, default=Path("results/comparison"), help="where to write (%(default)s)")
    parser.add_argument(
        "--rename",
        default=[],
        nargs="*",
        metavar="OLD=NEW",
        help="a framework of the second result, and what the first one calls it",
    )
    arguments = parser.parse_args()
    try:
        first, second = read_both(arguments)
        comparison = compare_named(first, second, str(arguments.first), str(arguments.second))
    except ResultError as error:
        sys.exit(str(error))
    text = render_comparison(comparison, find_changes(first, second), str(arguments.first), str(arguments.second))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    write_table(arguments.folder / "comparison.tsv", pd.DataFrame(tabulate(comparison)))
    write_text_atomic(arguments.folder / "comparison.txt", text)
    save_figure(draw_ratios(comparison), *(arguments.folder / f"comparison.{suffix}" for suffix in ("svg", "png")))
    print(text)
    sys.exit(comparison.worst < arguments.fail_below)


if __name__ == "__main__":
    main()

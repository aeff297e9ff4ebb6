"""Draw figures of one study, several at a time."""

import argparse
import gc
import json
import multiprocessing
from functools import partial
from pathlib import Path

from howmanygpus.report.figures import describe_figure, load_figure
from howmanygpus.report.files import read_table
from howmanygpus.report.published import drop_unfair
from howmanygpus.report.style import mark_trial_runs, plt, save_figure


def draw(name: str, tables_folder: Path, folder: Path, decision: dict) -> None:
    """Draw a figure of howmanygpus/report/figures/ as SVG and as PNG. decision: of an adaptive study."""
    described = describe_figure(name)
    tables = {each: read_table(tables_folder / f"{each}.tsv") for each in described.tables}
    tables = tables if described.shows_unfair else drop_unfair(tables)
    figure = load_figure(name).draw(**tables)
    if "probes_of" in decision:
        mark_trial_runs(figure, decision["probes_of"])
    save_figure(figure, folder / f"{name}.svg", folder / f"{name}.png")
    plt.close(figure)
    gc.collect()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", required=True, nargs="+", help="modules of howmanygpus/report/figures/")
    parser.add_argument("--tables", type=Path, required=True, help="folder of the study's tables")
    parser.add_argument("--folder", type=Path, required=True, help="folder of the study's figures")
    parser.add_argument("--decision", type=Path, nargs="?", help="what an adaptive study decided")
    parser.add_argument("--threads", type=int, default=1, help="number of figures at a time")
    arguments = parser.parse_args()
    decision = json.loads(arguments.decision.read_text()) if arguments.decision else {}
    drawing = partial(draw, tables_folder=arguments.tables, folder=arguments.folder, decision=decision)
    # Forked processes have imported what takes longer than a figure. Looking for unused objects among those that are
    # imported, over and over while a figure is drawn, takes a tenth of the time.
    for figure in arguments.figures:
        load_figure(figure)
    gc.disable()
    gc.freeze()
    with multiprocessing.get_context("fork").Pool(min(arguments.threads, len(arguments.figures))) as pool:
        pool.map(drawing, arguments.figures, chunksize=1)


if __name__ == "__main__":
    main()

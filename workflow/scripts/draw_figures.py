"""Draw figures of one study, several at a time."""

import gc
import json
import multiprocessing
from functools import partial
from pathlib import Path

from howmanygpus.base.requests import read_request
from howmanygpus.report.figures import describe_figure, load_figure
from howmanygpus.report.files import read_table
from howmanygpus.report.published import drop_unfair
from howmanygpus.report.style import mark_trial_runs, plt, save_figure


def draw(path: Path, tables_folder: Path, decision: dict, predictions: list[Path]) -> None:
    """Draw a figure of howmanygpus/report/figures/ as SVG and as PNG beside it.

    decision: of an adaptive study. predictions: the table of that name, if the study has it.
    """
    described = describe_figure(path.stem)
    tables = {each: read_table(tables_folder / f"{each}.tsv") for each in described.tables}
    if described.shows_predicted and predictions:
        tables["predictions"] = read_table(predictions[0])
    tables = tables if described.shows_unfair else drop_unfair(tables)
    figure = load_figure(path.stem).draw(**tables)
    if "probes_of" in decision:
        mark_trial_runs(figure, decision["probes_of"])
    save_figure(figure, path, path.with_suffix(".png"))
    plt.close(figure)
    gc.collect()


def main() -> None:
    request = read_request()
    given, made = request.input, request.output
    decision = json.loads(given.decision.read_text()) if given.decision else {}
    drawing = partial(draw, tables_folder=given.tables[0].parent, decision=decision, predictions=given.predictions)
    # Forked processes have imported what takes longer than a figure. Looking for unused objects among those that are
    # imported, over and over while a figure is drawn, takes a tenth of the time.
    for path in made.svg:
        load_figure(path.stem)
    gc.disable()
    gc.freeze()
    with multiprocessing.get_context("fork").Pool(min(request.values.threads, len(made.svg))) as pool:
        pool.map(drawing, made.svg, chunksize=1)


if __name__ == "__main__":
    main()

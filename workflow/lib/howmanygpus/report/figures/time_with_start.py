"""Time to each threshold with start-up and first step, by device count."""

import pandas as pd
from matplotlib.figure import Figure

from howmanygpus.report.figures import time_to_accuracy as without_start
from howmanygpus.report.style import draw_empty_figure

TITLE = "Time to accuracy with start-up and first step"
CATEGORY = "Time and price"
CLOCK = "time_with_start_s"
TABLES = ("time_to_accuracy", "scaling", "runs")


def draw(time_to_accuracy: pd.DataFrame, scaling: pd.DataFrame, runs: pd.DataFrame) -> Figure:
    """Draw one panel per threshold and scaling curve: medians, and bars from minimum to maximum.

    A program of the user that did not report step 0 is left out, because the end of its start-up is not known.
    """
    is_known = time_to_accuracy[CLOCK].notna() | ~time_to_accuracy["reached"].astype(bool)
    if not is_known.any() and len(time_to_accuracy):
        return draw_empty_figure("No program reported step 0, which ends its start.")
    time_to_accuracy = time_to_accuracy[is_known]
    label = "start-up, first step\nand training (s)"
    return without_start.draw(time_to_accuracy, scaling, runs, CLOCK, label)

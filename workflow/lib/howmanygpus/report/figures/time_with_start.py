"""Time to each threshold with start-up and first step, by device count."""

import pandas as pd
from matplotlib.figure import Figure

from howmanygpus.report.figures import time_to_accuracy as without_start

TITLE = "Time to accuracy with start-up and first step"
TABLES = ("time_to_accuracy", "scaling")


def draw(time_to_accuracy: pd.DataFrame, scaling: pd.DataFrame) -> Figure:
    """Draw one panel per threshold and scaling curve: medians, and bars from minimum to maximum."""
    label = "start-up, first step\nand training (s)"
    return without_start.draw(time_to_accuracy, scaling, "time_with_start_s", label)

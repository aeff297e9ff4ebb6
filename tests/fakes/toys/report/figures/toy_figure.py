"""Throughput of every variant, as bars."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

TITLE = "Toys"
CATEGORY = "More"
TABLES = ("toy_table",)


def draw(toy_table: pd.DataFrame) -> Figure:
    figure, axes = plt.subplots()
    axes.bar(toy_table["variant"], toy_table["images_per_s"])
    axes.set_ylabel("images/s of toys")
    return figure

"""Published epochs to a quality by global batch beside measured ones, each in panels of their own."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.figures.helpers.published import (
    NOTHING_MEASURED,
    SIZE,
    Group,
    draw_lines,
    style_published,
    title_measured,
    title_published,
)
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.rows import choose_inputs, find_unit, name_count, name_series
from howmanygpus.report.style import (
    add_note,
    choose_styles,
    describe_guess,
    label_lines,
    make_panels,
    mark_counts,
    note_rates,
)

TITLE = "Epochs by batch, published and measured"
CATEGORY = "More"
TABLES = ("published", "batch_sizes", "runs")
NEEDS_PUBLISHED = ("epochs_by_batch",)
COLUMNS = ["series", "global_batch_size", "epochs", "low", "high", "is_disturbed", "unit"]


def draw(published: pd.DataFrame, batch_sizes: pd.DataFrame, runs: pd.DataFrame) -> Figure:
    """Draw one panel per source and network, and one per device and device count of the measured runs."""
    measured = group_measured(batch_sizes, runs)
    groups = [*group_published(published), *measured]
    figure, axes = make_panels([title for title, *_ in groups], SIZE, max_columns=min(len(groups), 2))
    for panel, (_, rows, styles) in zip(axes, groups, strict=True):
        draw_epochs(panel, rows, styles)
    if not measured:
        add_note(axes[0], NOTHING_MEASURED)
    return figure


def group_published(published: pd.DataFrame) -> list[Group]:
    is_counted = published[["epochs", "global_batch_size"]].notna().all(axis=1)
    counted = published[is_counted & published[["duration_s", "images_per_s"]].isna().all(axis=1)]
    counted = counted.assign(low=None, high=None, is_disturbed=False, unit="images")
    groups = []
    for _, rows in counted.groupby(["source", "model"], sort=False, dropna=False):
        first = rows.iloc[0]
        title = title_published(first["title"], first["year"], first["remark"])
        groups.append((title, rows[COLUMNS], style_published(rows)))
    return groups


def group_measured(batch_sizes: pd.DataFrame, runs: pd.DataFrame) -> list[Group]:
    """Return one group per device and device count.

    Batches with which half or more of the repeats never reached the target have no number of epochs.
    """
    table = choose_inputs(batch_sizes)
    reached = table[table["epochs_to_target_median"].notna()]
    if reached.empty:
        return []
    reached = reached.assign(
        series=name_series(reached, runs),
        epochs=reached["epochs_to_target_median"],
        low=reached["epochs_to_target_min"],
        high=reached["epochs_to_target_max"],
        is_disturbed=reached["num_disturbed"] > 0,
    )
    styles, groups = choose_styles(reached["series"]), []
    for (device, count), rows in reached.groupby(["device", "num_gpus"], sort=True):
        target = f"{name_metric(rows['metric'].iloc[0])} {rows['target'].iloc[0]:g}"
        guess = describe_guess(choose_inputs(runs), "quality_metric")
        more = f"to test {target}{guess} on {name_count(count, 'device')}"
        groups.append((title_measured(runs, device, more), rows[COLUMNS], styles))
    return groups


def draw_epochs(axes: Axes, rows: pd.DataFrame, styles: dict[str, dict]) -> None:
    """Draw one line per series. The bar of a batch has no upper end if some repeat never reached the target with it."""
    top = 1.15 * rows[["epochs", "high"]].astype(float).max(axis=None)
    axes.set(xlabel=f"{find_unit(rows)} in a global batch", ylabel="epochs")
    mark_counts(axes, rows["global_batch_size"].astype(int))
    ends = draw_lines(axes, rows, "global_batch_size", "epochs", styles, top)
    note_rates(axes, rows["series"])
    axes.set_ylim(0, top)
    label_lines(axes, ends)

"""Published throughput and speed-up by device count beside measured ones, never on one curve."""

import numpy as np
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
from howmanygpus.report.rows import find_unit, is_program, is_real, name_series
from howmanygpus.report.style import (
    GREY,
    add_note,
    choose_styles,
    label_lines,
    make_panels,
    mark_counts,
)
from howmanygpus.report.tables.scaling import name_curve

TITLE = "Throughput and speed-up, published and measured"
CATEGORY = "More"
TABLES = ("published", "scaling", "runs")
NEEDS_PUBLISHED = ("images_per_s", "num_images")
QUANTITIES = ("rate", "speedup")
COLUMNS = ["series", "num_gpus", "rate", "low", "high", "speedup", "is_disturbed", "unit"]


def draw(published: pd.DataFrame, scaling: pd.DataFrame, runs: pd.DataFrame) -> Figure:
    """Draw one panel per hardware and kind of images for rates, and below one for speed-ups."""
    measured = group_measured(scaling, runs)
    groups = [*group_published(published), *measured]
    panels = [(group, column) for column in QUANTITIES for group in groups if has_any(group[1], column)]
    titles = [title if column == "rate" else f"{title}\nspeed-up" for (title, *_), column in panels]
    figure, axes = make_panels(titles, SIZE, max_columns=min(len(groups), 2))
    for panel, ((_, rows, styles), column) in zip(axes, panels, strict=True):
        draw_quantity(panel, rows, styles, column)
    if not measured:
        add_note(axes[0], NOTHING_MEASURED)
    return figure


def has_any(rows: pd.DataFrame, column: str) -> bool:
    """Return whether there is something to draw. The speed-up of one device over itself does not count."""
    known = rows[rows[column].notna()]
    return not known.empty and (column == "rate" or known["num_gpus"].max() > 1)


def group_published(published: pd.DataFrame) -> list[Group]:
    """Return one group per source, hardware, model and kind of images."""
    rated = published[published["images_per_s"].notna() & published["num_gpus"].notna()]
    rated = rated.assign(rate=rated["images_per_s"], low=None, high=None, is_disturbed=False, unit="images")
    keys = ["source", "hardware", "model", "input"]
    several = rated["model"].nunique() > 1
    groups = []
    for (_, hardware, model, images), rows in rated.groupby(keys, sort=False, dropna=False):
        words = [model] if several else []
        words += [f"{precision} precision," for precision in rows["precision"].dropna().unique()]
        more = " ".join([*words, f"{images} images" if pd.notna(images) else "images not stated"])
        title = title_published(hardware, rows["year"].iloc[0], more)
        rows = add_batches_to_names(rows)
        groups.append((title, rows[COLUMNS], style_published(rows)))
    return groups


def add_batches_to_names(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the images per device to the names of series that have several results for one number of devices."""
    if not rows.duplicated(["series", "num_gpus"]).any():
        return rows
    each = (rows["global_batch_size"] / rows["num_gpus"]).map("{:g}".format)
    return rows.assign(series=rows["series"] + ", " + each + " images each")


def group_measured(scaling: pd.DataFrame, runs: pd.DataFrame) -> list[Group]:
    """Return one group per device, scaling curve, and real or random images."""
    done = scaling[scaling["num_repeats"] > 0]
    if done.empty:
        return []
    rated = done.assign(
        series=name_series(done),
        is_real=is_real(done),
        rate=done["images_per_s_median"],
        low=done["images_per_s_min"],
        high=done["images_per_s_max"],
        speedup=done["speedup"].where(done["baseline_num_gpus"] == 1),
        is_disturbed=done["num_disturbed"] > 0,
    )
    styles, groups = choose_styles(rated["series"]), []
    keys = ["device", "is_real", "scaling_mode", "fixed_batch_size"]
    for (device, real, mode, size), rows in rated.groupby(keys, sort=False):
        kind = "" if is_program(rows) else f", {'real' if real else 'random'} images"
        more = f"{name_curve(mode, size, find_unit(rows))}{kind}"
        groups.append((title_measured(runs, device, more), rows[COLUMNS], styles))
    return groups


def draw_quantity(axes: Axes, rows: pd.DataFrame, styles: dict[str, dict], column: str) -> None:
    known = rows[rows[column].notna()]
    axes.set_xlabel("devices")
    # The bars are those of rates.
    drawn = known if column == "rate" else known.assign(low=None, high=None)
    ends = draw_lines(axes, drawn, "num_gpus", column, styles)
    counts = known["num_gpus"].astype(int)
    if column == "speedup" and counts.max() > 1:
        # On the logarithmic axis, a line proportional to the devices is curved.
        ideal = np.unique([1, *counts])
        axes.plot(ideal, ideal, color=GREY, linestyle=":")
        ends["ideal"] = (counts.max(), counts.max(), GREY)
    mark_counts(axes, counts)
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    axes.set_ylabel("speed-up over 1 device" if column == "speedup" else f"{find_unit(rows)}/s over all devices")
    label_lines(axes, ends)

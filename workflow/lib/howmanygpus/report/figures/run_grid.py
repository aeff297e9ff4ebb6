"""Every planned run with its status, and the reasons of those that did not complete."""

import textwrap

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from howmanygpus.report.columns import SERIES, list_columns
from howmanygpus.report.disturbance import OTHER_CPU_LIMIT
from howmanygpus.report.published import is_control
from howmanygpus.report.rows import find_unit, name_count
from howmanygpus.report.style import RING
from howmanygpus.report.trajectory import has_unexplained_losses

TITLE = "All runs by status"
CATEGORY = "Every run"
TABLES = ("runs",)
SHOWS_UNFAIR = True
STATUS_COLOURS = {
    "completed": "#009E73",
    "unsupported": "#DDDDDD",
    "missing": "#FFFFFF",
    "not_run": "#F4F1E8",
    "running": "#56B4E9",
    "out_of_memory": "#E69F00",
    "diverged": "#CC79A7",
    "stale": "#F0E442",
}
FAILED_COLOUR = "#D55E00"
"""Colour of all other statuses, such as crashed, killed, interrupted and time_limit."""
LOSSES_DIFFER = "losses apart"
"""Status shown for a completed run whose losses differ from the others' by more than rounding explains."""
LOSSES_DIFFER_COLOUR = "#882255"
UNFAIR, CONTROL = "not comparable", "control"
LOSSES_DIFFER_TEXT = "the losses of the first epoch differ from those of the others by more than rounding explains"
MAX_REASONS = 20
WITHOUT_LOG = ("unsupported", "missing", "not_run")
"""Statuses of runs that were not started."""
ROW = list_columns(SERIES)
COLUMN = ["num_gpus", "per_device_batch_size"]


def draw(runs: pd.DataFrame) -> Figure:
    """Draw one square per configuration, and list the reasons of incomplete runs and of differing losses."""
    runs = runs.assign(
        status=runs["status"].where(~has_unexplained_losses(runs) | (runs["status"] != "completed"), LOSSES_DIFFER)
    )
    row = [*ROW, "placement"] if runs["placement"].nunique() > 1 else ROW
    rows = list(runs.groupby(row, sort=False).groups)
    columns = list(runs.groupby(COLUMN).groups)
    configurations = [
        (columns.index(key[len(row) :]), rows.index(key[: len(row)]), configuration)
        for key, configuration in runs.groupby([*row, *COLUMN], sort=False)
    ]
    num_lines = max(len(write_lines(configuration)) for _, _, configuration in configurations)
    # The size of the squares; a saved figure includes everything around them.
    figure, axes = plt.subplots(figsize=(1.25 * len(columns), (0.25 + 0.17 * num_lines) * len(rows)))
    figure.subplots_adjust(0, 0, 1, 1)
    for x, y, configuration in configurations:
        draw_configuration(axes, x, y, configuration)
    axes.set_xlim(0, len(columns))
    axes.set_ylim(len(rows), 0)
    axes.set_yticks([y + 0.5 for y in range(len(rows))], [" ".join(names) for names in rows])
    axes.set_xticks([x + 0.5 for x in range(len(columns))], [f"{gpus} x {size}" for gpus, size in columns])
    axes.xaxis.tick_top()
    axes.set_title(
        f"devices x {find_unit(runs)} per device; each square: completed of planned repeats,\n"
        "and the largest relative difference of a loss in the first epoch from the median run"
    )
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for line, reason in enumerate(list_reasons(runs)):
        axes.annotate(reason, (0, 0), (0, -14 - 15 * line), "axes fraction", "offset points", fontsize=9, va="top")
    return figure


def draw_configuration(axes: Axes, x: int, y: int, configuration: pd.DataFrame) -> None:
    """Draw a square in the colour of its first status other than `completed`, if there is one, and name that status."""
    status = find_status(configuration)
    colour = LOSSES_DIFFER_COLOUR if status == LOSSES_DIFFER else STATUS_COLOURS.get(status, FAILED_COLOUR)
    is_disturbed = configuration["disturbed"].eq(True).any()
    edge = {"edgecolor": RING, "linewidth": 2.5} if is_disturbed else {"edgecolor": "#BBBBBB", "linewidth": 0.5}
    axes.add_patch(Rectangle((x + 0.03, y + 0.05), 0.94, 0.9, facecolor=colour, **edge))
    # Black has the higher contrast on all other colours.
    ink = "white" if colour == LOSSES_DIFFER_COLOUR else "black"
    text = "\n".join(write_lines(configuration))
    axes.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=9, color=ink, linespacing=1.1)


def find_status(configuration: pd.DataFrame) -> str:
    others = configuration.loc[configuration["status"] != "completed", "status"]
    return others.iloc[0] if len(others) else "completed"


def write_lines(configuration: pd.DataFrame) -> list[str]:
    """Return the lines of text in a square."""
    done, disturbed = (
        configuration["status"].isin(["completed", LOSSES_DIFFER]).sum(),
        int(configuration["disturbed"].eq(True).sum()),
    )
    status, differences = find_status(configuration), configuration["trajectory"].dropna().astype(float)
    lines = [f"{done} of {len(configuration)}", *[f"{disturbed} disturbed"] * (disturbed > 0)]
    if outliers := int(configuration["is_outlier"].eq(True).sum()):
        lines.append(name_count(outliers, "outlier"))
    lines += [] if status == "completed" else [status.replace("_", " ")]
    lines += [f"loss {differences.max():.0e}"] if len(differences) else []
    lines += [UNFAIR] if configuration["protocol"].notna().any() else []
    return lines + ([CONTROL] if is_control(configuration).any() else [])


def list_reasons(runs: pd.DataFrame) -> list[str]:
    """Return a line per reason, the most frequent first, with number of runs, an example and its log."""
    other = runs[runs["status"] != "completed"]
    # A column without any text has numbers.
    other = other.assign(reason=other["reason"].astype(object).fillna(""))
    lines = [*list_disturbed(runs), *list_outliers(runs), *list_unfair(runs)]
    other = other.assign(reason=other["reason"].where(other["status"] != LOSSES_DIFFER, LOSSES_DIFFER_TEXT))
    for (status, reason), group in other.groupby(["status", "reason"], sort=False):
        run = group.iloc[0]
        example = f"{run['framework']} {run['variant']} {run['num_gpus']} x {run['per_device_batch_size']}"
        text = textwrap.shorten(str(reason), 110, placeholder=" ...")
        said = [f"{status}, {name_count(len(group), 'run')} (e.g. {example}): {text}"]
        if status not in WITHOUT_LOG:
            said.append(f"    results/logs/train/{run['run_dir'].removeprefix('results/runs/')}.log")
        lines.append((len(group), said))
    ordered = [text for _, said in sorted(lines, key=lambda line: -line[0]) for text in said]
    more = [f"and {len(ordered) - MAX_REASONS} more reasons"] if len(ordered) > MAX_REASONS else []
    return ordered[:MAX_REASONS] + more


def list_unfair(runs: pd.DataFrame) -> list[tuple[int, list[str]]]:
    """Return the number of runs that follow each unfair protocol, and a line that names it."""
    return [
        (len(own), [f"{variant}, {name_count(len(own), 'run')}: {text}"])
        for (variant, text), own in runs[runs["protocol"].notna()].groupby(["variant", "protocol"], sort=False)
    ]


def list_outliers(runs: pd.DataFrame) -> list[tuple[int, list[str]]]:
    """Return the number of outliers and a line that says what they are, with a folder; empty without outliers."""
    folders = runs.loc[runs["is_outlier"].eq(True), "run_dir"]
    if folders.empty:
        return []
    number = name_count(len(folders), "outlier")
    return [(len(folders), [f"{number} (e.g. {folders.iloc[0]}): the rate is far from those of the other repeats"])]


def list_disturbed(runs: pd.DataFrame) -> list[tuple[int, list[str]]]:
    """Return the number of disturbed runs and the line that explains the red edge; empty without disturbed runs."""
    disturbed = int(runs["disturbed"].eq(True).sum())
    known = int(runs["disturbed"].notna().sum())
    which = f"{disturbed} of {name_count(known, 'run')} {'was' if disturbed == 1 else 'were'}"
    text = (
        f"red edge: {which} disturbed; other work used more than {OTHER_CPU_LIMIT:.0%} of"
        " their cores' time, or their GPUs"
    )
    return [(disturbed, [text])] if disturbed else []

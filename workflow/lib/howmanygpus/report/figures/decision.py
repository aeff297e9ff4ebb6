"""The decision: time or rate, and price, by number of devices, with the recommended point and what else there is."""

import textwrap
from math import log2

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from howmanygpus.report.rows import name_count
from howmanygpus.report.style import (
    FAMILIES,
    GREY,
    GREY_OF_NOTES,
    LINE_PT,
    add_headline,
    add_note,
    choose_styles,
    describe_guess,
    draw_empty_figure,
    draw_in_grey,
    find_family,
    get_look,
    label_lines,
    make_panels,
    mark_counts,
    mark_disturbed,
    spread,
)
from howmanygpus.report.words import (
    choose_runs,
    choose_unit,
    write_configuration,
    write_duration,
    write_number,
    write_value,
)

TITLE = "The decision: devices against time and price"
CATEGORY = "Decision"
TABLES = ("decision",)
FEW_SERIES = 4
"""Number of series up to which each has a line. Of more, each family has one."""
MAX_RATIO = 6
"""Ratio of the largest and smallest value from which on the axis is logarithmic."""
RECOMMENDED, TIED = "recommended", "tied"
RATED = "cost_per_million"
"""Column of the prices of configurations that are compared by their rates."""
HEIGHT_IN = 2.8
"""About the height of a panel's axes, in inches."""
WIDTH = 62
"""Letters of a line of a title."""


def draw(decision: pd.DataFrame) -> Figure:
    """Draw a panel of times or rates for each part of a study, and one of prices beside it if they are known."""
    known = decision[decision["num_gpus"].notna()]
    if known.empty:
        refusals = decision["refusal"].dropna().unique()
        return draw_empty_figure(textwrap.fill(f"No recommendation: {'; '.join(refusals)}.", WIDTH))
    is_priced = known["currency"].notna().all()
    parts = [part for _, part in known.groupby("of", sort=False, dropna=False)]
    titles = [title for part in parts for title in (write_title(part), write_price_title(part))[: 1 + is_priced]]
    figure, axes = make_panels(titles, (5.8, 4.8), max_columns=2)
    panels = iter(axes)
    for part in parts:
        letters = choose_letters(part)
        panel = next(panels)
        draw_speed(panel, part, letters)
        explain_letters(panel, part, letters)
        panel.set_xlabel(panel.get_xlabel(), loc="left")
        if is_priced:
            beside = next(panels)
            draw_price(beside, part, letters)
            beside.set_xlabel(beside.get_xlabel(), loc="left")
    add_headline(figure, write_headline(known))
    return figure


def write_headline(known: pd.DataFrame) -> str:
    """Return what the recommendation gains over the fewest devices or, if it has these, what the next number gains.

    Of several parts, their numbers of devices.
    """
    chosen = known[known["roles"] == RECOMMENDED]
    if known["of"].nunique() > 1 or chosen.empty:
        named = [f"{row['of']}: {name_count(int(row['num_gpus']), 'device')}" for row in chosen.to_dict("records")]
        return ", ".join(named)
    fastest = find_fastest(known.assign(all="all"), "all")
    own, others = chosen.iloc[0], fastest[fastest["num_gpus"] != chosen["num_gpus"].iloc[0]]
    if others.empty:
        return ""
    is_fewest = own["num_gpus"] < others["num_gpus"].min()
    # The answer says of this one why it is not recommended.
    doubled = known[known["roles"].fillna("").str.contains("next doubling")]
    other = doubled.iloc[0] if is_fewest and len(doubled) else others.iloc[0]
    larger, smaller = (other, own) if is_fewest else (own, other)
    gain = write_number(float(smaller[own["clock"]]) / float(larger[own["clock"]]))
    column, of = (
        (choose_price(known)[0], "price") if known["currency"].notna().all() else ("device_seconds", "device time")
    )
    cost = write_number(float(larger[column]) / float(smaller[column])) if smaller[column] else None
    counts = [name_count(int(row["num_gpus"]), "device") for row in (smaller, larger)]
    begin = (
        f"No more than {counts[0]}: {int(larger['num_gpus'])}" if is_fewest else f"{counts[1]} instead of {counts[0]}:"
    )
    return f"{begin}{' are' if is_fewest else ''} {gain} x as fast{f', at {cost} x the {of}' if cost else ''}"


def write_title(part: pd.DataFrame) -> str:
    """Return the recommendation of a part of a study with its numbers, or that there is none."""
    first = part.iloc[0]
    of = f"{first['of']}: " if pd.notna(first["of"]) else ""
    chosen = part[part["roles"] == RECOMMENDED]
    if chosen.empty:
        return textwrap.fill(f"{of}No recommendation, see the answer", WIDTH)
    row = chosen.iloc[0].to_dict()
    if pd.notna(row["threshold"]):
        goal = f"{row['metric']} {row['threshold']:g}{describe_guess(part)}"
        reached = f"{goal} in {write_duration(read_value(row, row['clock']))}"
    else:
        reached = write_value(read_value(row, "images_per_s"), f"{row['unit']}/s")
    return f"{textwrap.fill(f'{of}Use {write_one(row)}', WIDTH)}\n{reached}"


def write_price_title(part: pd.DataFrame) -> str:
    """Return the price of the recommended configuration, or what the panel shows without one."""
    chosen = part[part["roles"] == RECOMMENDED]
    if chosen.empty:
        return "What it costs"
    row, (column, num_runs) = chosen.iloc[0].to_dict(), choose_price(part)
    price = {end: value and num_runs * value for end, value in read_value(row, column).items()}
    what = "it costs" if num_runs == 1 else f"{num_runs:,} runs cost"
    per = f" per million {row['unit']}" if column == RATED else ""
    return f"What {what}: {write_value(price, row['currency'])}{per}"


def choose_price(part: pd.DataFrame) -> tuple[str, int]:
    """Return the column of the prices, and of how many runs they are written."""
    return (RATED, 1) if part[RATED].notna().any() else ("cost", choose_runs(part["cost"]))


def write_one(row: dict) -> str:
    """Write a configuration as the answer does."""
    counts = ("num_gpus", "num_nodes", "per_device_batch_size", "accumulate")
    return write_configuration(row | {name: int(row[name]) for name in counts}, row["unit"])


def read_value(row: dict, name: str) -> dict[str, float | None]:
    ends = {"median": row[name], "low": row[f"{name}_low"], "high": row[f"{name}_high"]}
    return {end: None if pd.isna(number) else number for end, number in ends.items()}


def draw_speed(axes: Axes, part: pd.DataFrame, letters: dict) -> None:
    """Draw training times to the target or, without a target, rates."""
    first = part.iloc[0]
    if pd.isna(first["threshold"]):
        draw_lines(axes, part, letters, "images_per_s", 1.0, is_time=False)
        axes.set_ylabel(f"{first['unit']}/s over all devices")
        return
    clock = first["clock"]
    unit, size = choose_unit(part[clock].min())
    draw_lines(axes, part, letters, clock, size, is_time=True)
    axes.set_ylabel(
        f"{'wall' if clock == 'wall_s' else 'training'} time to {first['metric']} {first['threshold']:g} ({unit})"
    )


def draw_price(axes: Axes, part: pd.DataFrame, letters: dict) -> None:
    first, (column, num_runs) = part.iloc[0], choose_price(part)
    draw_lines(axes, part, letters, column, 1 / num_runs, is_time=None)
    of = "of a run" if num_runs == 1 else f"of {num_runs:,} runs"
    of = f"per million {first['unit']}" if column == RATED else of
    until = "" if pd.isna(first["threshold"]) else f"\nuntil {first['metric']} {first['threshold']:g}"
    axes.set_ylabel(f"price {of}{until} ({first['currency']})")


def draw_lines(
    axes: Axes, part: pd.DataFrame, letters: dict[int, str], value: str, size: float, is_time: bool | None
) -> None:
    """Draw a value of the configurations in units of `size`, and name lines and roles.

    is_time: whether less is better and more devices should bring less; None for a price, which they need not lower.
    """
    columns = [value, f"{value}_low", f"{value}_high"]
    part = part.assign(**{name: part[name].astype(float) / size for name in columns})
    part["line"] = name_lines(part)
    axes.set_xlabel("devices")
    draw_in_grey(axes, find_fastest(part, "series"), "num_gpus", value)
    ends: dict[str, tuple[float, float, str]] = {}
    styles, drawn = choose_styles(part["series"]), []
    for _, line in part.groupby("line", sort=False):
        fastest = find_fastest(line, "line")
        name, style = name_line(fastest), styles[fastest["series"].iloc[0]]
        colour, look = (style["color"], style["linestyle"]) if name in styles else (choose_colour(fastest), "-")
        axes.plot(fastest["num_gpus"], fastest[value], color=colour, linestyle=look, zorder=2)
        drawn.append(fastest.assign(colour=colour))
        last = fastest.iloc[-1]
        ends[name] = (last["num_gpus"], last[value], colour)
    named = part.loc[[*letters]]
    others = named[~named.index.isin(pd.concat(drawn).index)]
    points = pd.concat([*drawn, others.assign(colour=[styles[series]["color"] for series in others["series"]])])
    draw_points(axes, points, value, styles)
    name_nodes(axes, points, value)
    mark_counts(axes, part["num_gpus"])
    set_scale(axes, part, columns)
    guide(axes, part, value, is_time)
    mark_letters(axes, named.assign(letter=letters), value)
    mark_disturbed(axes, points["num_gpus"], points[value], points["num_disturbed"] > 0)
    label_lines(axes, ends)


def find_fastest(rows: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Return the fastest row of each kind on each number of devices, by rising number."""
    return rows.sort_values(rows["clock"].iloc[0]).drop_duplicates([kind, "num_gpus"]).sort_values("num_gpus")


def name_lines(part: pd.DataFrame) -> pd.Series:
    """Return the line of each configuration: its series or, if there are many, its family."""
    if part["series"].nunique() <= FEW_SERIES:
        return part["series"]
    return part["framework"].map(find_family)


def name_line(line: pd.DataFrame) -> str:
    """Return what is written beside a line: its series or, if its points are of several, its family."""
    series = line["series"].unique()
    return series[0] if len(series) == 1 else f"best of {find_family(line['framework'].iloc[0])}"


def choose_colour(line: pd.DataFrame) -> str:
    """Return the colour of a family's line."""
    family = find_family(line["framework"].iloc[0])
    return FAMILIES.get(family, get_look(family)[0])


def draw_points(axes: Axes, rows: pd.DataFrame, value: str, styles: dict[str, dict]) -> None:
    """Draw medians with intervals, each with the marker of its series, so that a family's line shows which is best."""
    for row in rows.to_dict("records"):
        interval = [[row[value] - row[f"{value}_low"]], [row[f"{value}_high"] - row[value]]]
        look = {"color": row["colour"], "marker": styles[row["series"]]["marker"], "markersize": 7, "capsize": 4}
        yerr = np.clip(interval, 0, None) if np.isfinite(interval).all() else None
        axes.errorbar([row["num_gpus"]], [row[value]], yerr=yerr, linestyle="none", zorder=3, **look)


def name_nodes(axes: Axes, rows: pd.DataFrame, value: str) -> None:
    """Write the number of nodes beside each point whose number of devices has points on several."""
    look = {"textcoords": "offset points", "ha": "right", "va": "center", "color": GREY_OF_NOTES, "fontsize": 9}
    look["bbox"] = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
    for row in rows[rows.groupby("num_gpus")["num_nodes"].transform("nunique") > 1].to_dict("records"):
        axes.annotate(name_count(int(row["num_nodes"]), "node"), (row["num_gpus"], row[value]), (-13, 0), **look)


def set_scale(axes: Axes, part: pd.DataFrame, columns: list[str]) -> None:
    """Begin the axis at zero or, if the values differ much, make it logarithmic with numbers in full."""
    values = part[columns].to_numpy(float)
    values = values[np.isfinite(values) & (values > 0)]
    low, high = values.min(), values.max()
    if high <= MAX_RATIO * low:
        axes.set_ylim(0, 1.15 * high)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: write_number(number)))
        return
    axes.set_yscale("log")
    axes.set_ylim(low / 1.4, high * 1.4)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: write_number(number)))


def guide(axes: Axes, part: pd.DataFrame, value: str, is_time: bool | None) -> None:
    """Draw from the recommended point what more devices would have to reach to be worth it."""
    chosen, counts = part[part["roles"] == RECOMMENDED], part["num_gpus"].max()
    if is_time is None or chosen.empty or pd.isna(chosen["worth_doubling"].iloc[0]):
        return
    row = chosen.iloc[0]
    if row["num_gpus"] >= counts:
        return
    places = np.geomspace(row["num_gpus"], counts, 30)
    gain = row["worth_doubling"] ** np.array([log2(place / row["num_gpus"]) for place in places])
    low, high = axes.get_ylim()
    axes.plot(places, row[value] / gain if is_time else row[value] * gain, ":", color=GREY, linewidth=1.6, zorder=1)
    axes.set_ylim(low, high)
    side = "below" if is_time else "above"
    add_note(axes, f"{side} the dotted line, more devices pay: {row['worth_doubling']:g} x per doubling")


def choose_letters(part: pd.DataFrame) -> dict[int, str]:
    """Return the letter of each configuration that the answer names, by its index; the recommended one has `use`."""
    is_named = part["roles"].notna() & ~part["roles"].isin((RECOMMENDED, TIED))
    letters = dict(zip(part.index[is_named], "abcdefgh", strict=False))
    return {**dict.fromkeys(part.index[part["roles"] == RECOMMENDED], "use"), **letters}


def explain_letters(axes: Axes, part: pd.DataFrame, letters: dict[int, str]) -> None:
    """Write below a panel what its letters stand for, and how many others are tied with the recommended one."""
    for place, letter in letters.items():
        row = part.loc[place].to_dict()
        if row["roles"] != RECOMMENDED:
            add_note(axes, f"{letter}  {row['roles']}: {write_one(row)}")
    if part.groupby(["series", "num_gpus"])["num_nodes"].nunique().gt(1).any():
        add_note(axes, "each line has the fastest of several numbers of nodes", is_shared=True)
    if num_tied := int((part["roles"] == TIED).sum()):
        verb = "is" if num_tied == 1 else "are"
        add_note(axes, f"{num_tied} more on as many devices {verb} not told apart from the one to use")


def mark_letters(axes: Axes, named: pd.DataFrame, value: str) -> None:
    """Ring the recommended point, and write each letter beside its point; letters on one count do not overlap."""
    to_fraction = axes.transData + axes.transAxes.inverted()
    for count, rows in named.groupby("num_gpus"):
        rows = rows.sort_values(value)
        wanted = [to_fraction.transform((count, height))[1] for height in rows[value]]
        heights = spread(wanted, LINE_PT / 72 / HEIGHT_IN)
        for height, wish, row in zip(heights, wanted, rows.to_dict("records"), strict=True):
            is_chosen = row["letter"] == "use"
            if is_chosen:
                look = {"markersize": 18, "markerfacecolor": "none", "markeredgewidth": 2, "color": "black"}
                axes.plot(count, row[value], "o", zorder=5, **look)
            axes.annotate(
                row["letter"],
                (count, row[value]),
                (13, (height - wish) * HEIGHT_IN * 72),
                textcoords="offset points",
                va="center",
                fontweight="bold",
                zorder=6,
                bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
            )

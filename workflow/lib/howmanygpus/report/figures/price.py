"""Price of each configuration: for the whole training, and until it reached the target."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.answer.doubts import UNEQUAL_FRAC
from howmanygpus.report.columns import BATCH, PLACE, SERIES, list_columns
from howmanygpus.report.figures.helpers.predicted import EDGE, choose_look
from howmanygpus.report.figures.speedup import choose_threshold
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.outcomes import has_failed
from howmanygpus.report.rows import choose_inputs, count_units, find_unit, name_count, name_series
from howmanygpus.report.style import (
    GREY,
    add_headline,
    choose_styles,
    describe_guess,
    draw_empty_figure,
    make_panels,
    mark_disturbed,
    note_rates,
)
from howmanygpus.report.thresholds import summarize_time_to_accuracy
from howmanygpus.report.words import choose_runs, write_number

TITLE = "Price to train and to reach the target"
CATEGORY = "Time and price"
TABLES = ("runs", "time_to_accuracy")
SHOWS_PREDICTED = True
NEEDS_PRICE = True
KEYS = list_columns(SERIES, PLACE, BATCH, but=["placement", "global_batch_size"])
PRICES = ("cost", "cost_min", "cost_max", "failed_cost", "cost_to_accuracy")
BAR = 0.62
NOTHING = "No run with a price has completed; the figure of all runs says why."


def draw(runs: pd.DataFrame, time_to_accuracy: pd.DataFrame, predictions: pd.DataFrame | None = None) -> Figure:
    """Draw one row per configuration: a pale bar for the whole training, a strong one until the target.

    Below them, a hatched bar is the bracket of each predicted price until the target.
    """
    prices = summarize_prices(runs, time_to_accuracy)
    if prices.empty:
        return draw_empty_figure(NOTHING)
    predicted = list_predicted(predictions, prices)
    figure, (axes,) = make_panels([describe_target(prices)], (8.4, 1.3 + 0.42 * (len(prices) + len(predicted))))
    draw_prices(axes, prices)
    if len(predicted):
        draw_predicted(axes, prices, predicted)
    add_headline(figure, write_headline(prices))
    return figure


def list_predicted(predictions: pd.DataFrame | None, prices: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a price of the table `predictions`, the cheapest first, with `series` and `metric`.

    predictions: None for a study that predicts nothing. prices: of summarize_prices.
    """
    if predictions is None:
        return prices[:0]
    known = predictions[predictions["cost_low"].notna()].astype({"cost_low": float, "cost_high": float})
    series = prices.drop_duplicates(list_columns(SERIES))[[*list_columns(SERIES), "series", "metric"]]
    # A weak and a strong curve may have the same configuration.
    names = [*list_columns(SERIES), "num_nodes", "num_gpus", "global_batch_size"]
    return known.merge(series).drop_duplicates(names).sort_values("cost_low", kind="stable").reset_index(drop=True)


def write_headline(prices: pd.DataFrame) -> str:
    """Return the cheapest configuration until the target or, if none reached it, of whole trainings."""
    if prices["currency"].nunique() > 1:
        return ""
    reached = prices["cost_to_accuracy"].astype(float)
    is_target = bool(np.isfinite(reached).any())
    costs = reached if is_target else prices["cost"].astype(float)
    best, num_runs = prices.loc[costs.idxmin()], choose_runs(prices["cost"])
    until = f" to {name_metric(best['metric'])} {best['target']:g}" if is_target else ""
    price = (
        f"{write_number(num_runs * costs.min())} {best['currency']}{f' per {num_runs:,} runs' if num_runs > 1 else ''}"
    )
    return f"Cheapest{until}: {price}, {best['series']} on {name_count(best['num_gpus'], 'device')}"


def summarize_prices(runs: pd.DataFrame, time_to_accuracy: pd.DataFrame) -> pd.DataFrame:
    """Return one row per configuration that completed in some repeat and has a price, the cheapest first.

    cost, cost_min, cost_max: of a whole run with its failed attempts. cost_to_accuracy: median until the target,
    infinite if half or more of the repeats never reached it. failed_frac: fraction of the cost for failed attempts.
    """
    priced = choose_inputs(runs[(runs["status"] == "completed") & runs["cost"].notna()])
    if priced.empty:
        return priced
    priced = priced.assign(
        series=name_series(priced, runs),
        failed_cost=priced["cost"] * priced["failed_billed_device_hours"].fillna(0) / priced["billed_device_hours"],
        quality_last=priced["quality_last"].astype(float),
        disturbed=priced["disturbed"].eq(True),
        time_s=priced["train_s"] + priced["eval_s"],
    )
    configurations = priced.groupby(
        [*KEYS, "series", "unit", "currency", "global_batch_size"], as_index=False, sort=False
    ).agg(
        cost=("cost", "median"),
        cost_min=("cost", "min"),
        cost_max=("cost", "max"),
        failed_cost=("failed_cost", "median"),
        num_repeats=("cost", "count"),
        quality=("quality_last", "mean"),
        quality_of_guess=("quality_of_guess", "first"),
        time_s=("time_s", "median"),
        images=("images_seen", "median"),
        is_disturbed=("disturbed", "any"),
    )
    return add_target(configurations, runs, time_to_accuracy).sort_values("cost", kind="stable").reset_index(drop=True)


def add_target(configurations: pd.DataFrame, runs: pd.DataFrame, time_to_accuracy: pd.DataFrame) -> pd.DataFrame:
    """Add metric, target, and the median cost until the target of each configuration, if there is a threshold."""
    if time_to_accuracy.empty:
        metrics = runs["quality_metric"].dropna()
        metric = metrics.iloc[0] if len(metrics) else None
        return configurations.assign(cost_to_accuracy=None, target=None, metric=metric)
    target = choose_threshold(time_to_accuracy)
    summary = summarize_time_to_accuracy(time_to_accuracy, "cost_to_accuracy")
    summary = summary[summary["threshold"] == target][[*KEYS, "time_s_median"]]
    joined = configurations.merge(summary.rename(columns={"time_s_median": "cost_to_accuracy"}), on=KEYS, how="left")
    failed = runs.assign(failed=has_failed(runs["status"])).groupby(KEYS, as_index=False)["failed"].sum()
    metric = time_to_accuracy["metric"].iloc[0]
    return joined.merge(failed, on=KEYS, how="left").assign(target=target, metric=metric)


def describe_target(prices: pd.DataFrame) -> str:
    """Explain the bars, and name the quality of a guess, with which the qualities beside them compare."""
    target, text = prices["target"].iloc[0], "pale: whole training"
    fewest, most = prices["images"].min(), prices["images"].max()
    if most > fewest * (1 + UNEQUAL_FRAC):
        text += f" on {fewest:,.0f} to {most:,.0f} {find_unit(prices)}"
    if target is not None:
        text += f"; strong: until test {name_metric(prices['metric'].iloc[0])} {target:g}"
    return text + describe_guess(prices)


def name_prices(prices: pd.DataFrame) -> list[str]:
    return [
        f"{row['series']}, {row['num_gpus']} x {count_units(row['per_device_batch_size'], row['unit'])}"
        for _, row in prices.iterrows()
    ]


def draw_prices(axes: Axes, prices: pd.DataFrame) -> None:
    """Draw the bars of summarize_prices, the cheapest on top."""
    num_runs = choose_runs(prices["cost"])
    prices = prices.assign(**{name: num_runs * prices[name].astype(float) for name in PRICES})
    looks = choose_styles(prices["series"])
    colours = [looks[series]["color"] for series in prices["series"]]
    places = pd.Series(prices.index[::-1], index=prices.index)
    axes.barh(places, prices["cost"], height=BAR, color=colours, alpha=0.35)
    spread = [prices["cost"] - prices["cost_min"], prices["cost_max"] - prices["cost"]]
    axes.errorbar(prices["cost"], places, xerr=spread, fmt="none", ecolor=GREY, capsize=3)
    to_target = prices["cost_to_accuracy"]
    axes.barh(places, to_target.where(np.isfinite(to_target), 0), height=0.5 * BAR, color=colours)
    for position, row in prices.iterrows():
        where = (row["cost_max"], places[position])
        axes.annotate(
            describe_price(row),
            where,
            (12 if row["is_disturbed"] else 8, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    mark_disturbed(axes, prices["cost"], places, prices["is_disturbed"])
    axes.set_yticks(places, name_prices(prices))
    axes.set_ylim(-0.6, len(prices) - 0.4)
    axes.set_xlim(0, 2.1 * prices["cost_max"].max())
    of = "one run" if num_runs == 1 else f"{num_runs:,} runs"
    label = f"price of {of} ({', '.join(sorted(set(prices['currency'])))}), failed attempts included"
    axes.set_xlabel(label if not axes.get_xlabel() else f"{label}{axes.get_xlabel()}")
    note_rates(axes, prices["series"])


def draw_predicted(axes: Axes, prices: pd.DataFrame, predicted: pd.DataFrame) -> None:
    """Draw the brackets of list_predicted as hatched bars below those of draw_prices."""
    num_runs, looks = choose_runs(prices["cost"]), choose_styles(prices["series"])
    names, places = name_prices(prices), list(prices.index[::-1])
    for place, (_, row) in enumerate(predicted.iterrows(), start=1):
        low, high = num_runs * row["cost_low"], num_runs * row["cost_high"]
        look = choose_look(looks[row["series"]]["color"])
        axes.barh(-place, high - low, left=low, height=0.5 * BAR, linestyle=EDGE, linewidth=1, **look)
        text = f"predicted: {low:.3g} to {high:.3g} until {name_metric(row['metric'])} {row['threshold']:g}"
        axes.annotate(text, (high, -place), (8, 0), textcoords="offset points", va="center", fontsize=9)
        names.append(f"{row['series']}, {row['num_gpus']} devices, batch {row['global_batch_size']}")
        places.append(-place)
    axes.axhline(-0.5, color=GREY, linewidth=0.8)
    axes.set_yticks(places, names)
    axes.set_ylim(-0.6 - len(predicted), len(prices) - 0.4)
    axes.set_xlim(0, max(axes.get_xlim()[1], 2.1 * num_runs * predicted["cost_high"].max()))


def describe_price(row: pd.Series) -> str:
    """Return price, duration and quality of the whole training, and the price until the target and of failures."""
    text = f"{row['cost']:.3g}, {row['time_s']:,.3g} s"
    text += f", {name_metric(row['metric'])} {row['quality']:.3g}" if pd.notna(row["quality"]) else ""
    reached = row["cost_to_accuracy"]
    if pd.notna(reached):
        text += f", target at {reached:.3g}" if np.isfinite(reached) else ", target not reached"
    if row["failed_cost"] > 0:
        text += f", {row['failed_cost']:.2g} of it for failed attempts"
    return text

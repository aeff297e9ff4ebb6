"""The configurations that reach a quality fastest and at the lowest cost."""

import pandas as pd

from howmanygpus.report.answer.cost import name_cheapest
from howmanygpus.report.answer.names import (
    CONFIGURATION,
    add_series,
    describe_quality,
    describe_reached,
    describe_shortfall,
    name_configuration,
    name_spread,
)
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.rows import is_real, name_count
from howmanygpus.report.tables.time_to_accuracy import choose_hardest_threshold, summarize_time_to_accuracy


def answer_accuracy(runs: pd.DataFrame, table: pd.DataFrame, datasets: pd.DataFrame) -> list[str]:
    """Name the fastest and the cheapest configuration to the hardest threshold that any reached in all repeats.

    A repeat that crashed, ran out of memory or hit its time limit counts as not having reached it.
    """
    if table.empty:
        return []
    summary = add_series(summarize_time_to_accuracy(table))
    metric, any_reached = name_metric(table["metric"].iloc[0]), table.groupby("threshold")["reached"].any()
    unreached = [f"{threshold:g}" for threshold, reached in any_reached.items() if not reached]
    never = [f"No run reached {metric} {', '.join(unreached)}."] if unreached else []
    sure = summary[summary["num_reached"] == summary["num_repeats"]]
    if sure.empty:
        none = [f"No configuration reached a threshold of {metric} in all its repeats."] if any_reached.any() else []
        return [*none, *never, *name_best_quality(runs, table, datasets)]
    hardest = choose_hardest_threshold(sure)
    candidates = sure[sure["threshold"] == hardest].sort_values("time_s_median", kind="stable")
    fastest, goal = candidates.iloc[0], f"{metric} {hardest:g}"
    lines = [
        f"Fastest to {goal}: {name_configuration(fastest)}: "
        + f"{name_spread(fastest, 'time_s_median', 's of training', '.3g')}."
        + describe_shortfall(runs, fastest)
        + describe_relapse(table, fastest, hardest)
        + describe_quality(runs, fastest, datasets),
        describe_runner_up(runs, candidates, fastest),
        describe_start(table, candidates, fastest, hardest),
        name_cheapest(runs, table, candidates, goal),
    ]
    return [line for line in lines if line] + never


def name_best_quality(runs: pd.DataFrame, table: pd.DataFrame, datasets: pd.DataFrame) -> list[str]:
    """Name the configuration with the best mean quality at the end, for a study that reached no threshold.

    Among configurations whose written quality is equal, the one with the shortest training is named.
    """
    reached = add_series(runs[runs["quality_last"].notna() & is_real(runs)]).astype({"quality_last": float})
    if reached.empty:
        return []
    means = reached.groupby([*CONFIGURATION, "series"], as_index=False).agg(
        quality_last=("quality_last", "mean"), train_s=("train_s", "median")
    )
    best = means.sort_values("quality_last", ascending=(table["better"] == "lower").all(), kind="stable").iloc[0]
    written = means["quality_last"].map("{:.3g}".format)
    same = means[written == f"{best['quality_last']:.3g}"].sort_values("train_s", kind="stable")
    others = name_count(len(same) - 1, "other configuration")
    tied = f" {others} {'ends' if len(same) == 2 else 'end'} at the same; this one trained fastest." * (len(same) > 1)
    first = same.iloc[0]
    return [f"Best quality: {name_configuration(first)}.{describe_quality(runs, first, datasets)}{tied}"]


def describe_relapse(table: pd.DataFrame, fastest: pd.Series, threshold: float) -> str:
    """Say in how many repeats of a configuration the last evaluation no longer meets the threshold, if in any."""
    own = table[(table[CONFIGURATION] == fastest[CONFIGURATION]).all(axis=1) & (table["threshold"] == threshold)]
    lost = int(own["held"].eq(False).sum())
    if not lost:
        return ""
    if len(own) == 1:
        return " Its last evaluation no longer meets it."
    return f" In {lost} of {len(own)} repeats the last evaluation no longer meets it."


def describe_runner_up(runs: pd.DataFrame, candidates: pd.DataFrame, fastest: pd.Series) -> str:
    """Name the fastest configuration of another framework, precision or variant, and say how sure the order is."""
    others = candidates[candidates["series"] != fastest["series"]]
    if others.empty:
        return ""
    other = others.iloc[0]
    text = f"Next: {name_configuration(other)}: {name_spread(other, 'time_s_median', 's of training', '.3g')}"
    text += describe_reached(runs, other)
    if min(fastest["num_repeats"], other["num_repeats"]) == 1:
        return f"{text}. With one repeat, chance may decide between the two."
    return text + ("; their repeats overlap." if other["time_s_min"] <= fastest["time_s_max"] else ".")


def describe_start(table: pd.DataFrame, candidates: pd.DataFrame, fastest: pd.Series, threshold: float) -> str:
    """Name the times that the ranking leaves out, and the fastest configuration if start-up and first step count."""
    both = summarize_time_to_accuracy(table, "time_with_start_s")
    both = both[both["threshold"] == threshold].merge(candidates[[*CONFIGURATION, "series"]], on=CONFIGURATION)
    both = both[both["time_s_median"].notna()].sort_values("time_s_median", kind="stable")
    text = "The ranking is by training time, without start-up, first step (compilation) and evaluation"
    if both.empty:
        return f"{text}."
    first, same = both.iloc[0], (both[CONFIGURATION] == fastest[CONFIGURATION]).all(axis=1)
    own = both.loc[same, "time_s_median"]
    text += f"; with start-up and first step it takes {own.iloc[0]:.3g} s" if len(own) else ""
    if same.iloc[0]:
        return f"{text} and is still the fastest."
    return f"{text}, and the fastest is {name_configuration(first)}: {first['time_s_median']:.3g} s."

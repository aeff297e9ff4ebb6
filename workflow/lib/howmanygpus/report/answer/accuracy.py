"""The configurations that reach a quality fastest and at the lowest cost."""

import numpy as np
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
from howmanygpus.report.answer.ties import MAX_TIED_NAMED, Repeats, describe_best, describe_tie
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
    at_hardest = table[table["threshold"] == hardest]
    best = Repeats(at_hardest, "time_to_accuracy_s").list_best(candidates, "lower")
    fastest, goal = best.iloc[0], f"{metric} {hardest:g}"
    lines = [
        f"Fastest to {goal}: {describe_best(best, 'time_s_median', 's of training', '.3g')}."
        + describe_shortfall(runs, fastest)
        + describe_relapse(table, fastest, hardest)
        + describe_quality(runs, fastest, datasets),
        describe_runner_up(runs, candidates, best),
        describe_start(at_hardest, candidates, best),
        name_cheapest(runs, at_hardest, candidates, goal),
    ]
    return [line for line in lines if line] + never


def name_best_quality(runs: pd.DataFrame, table: pd.DataFrame, datasets: pd.DataFrame) -> list[str]:
    """Name the configuration with the best mean quality at the end, for a study that reached no threshold.

    Among configurations whose written quality is equal, or that the repeats do not tell from the best one, the one with
    the shortest training is named.
    """
    reached = add_series(runs[runs["quality_last"].notna() & is_real(runs)]).astype({"quality_last": float})
    if reached.empty:
        return []
    means = reached.groupby([*CONFIGURATION, "series"], as_index=False).agg(
        quality_last=("quality_last", "mean"), train_s=("train_s", "median")
    )
    is_lower_better = (table["better"] == "lower").all()
    means = means.sort_values("quality_last", ascending=is_lower_better, kind="stable")
    written = means["quality_last"].map("{:.3g}".format)
    is_equal = written == written.iloc[0]
    repeats, best = Repeats(reached, "quality_last"), means.iloc[0]
    is_tied = [not repeats.tell_nothing and not repeats.are_told_apart(best, row) for _, row in means.iterrows()]
    same = means[is_equal | np.array(is_tied)].sort_values("train_s", kind="stable")
    others = name_count(len(same) - 1, "other configuration")
    end = f"{'ends' if len(same) == 2 else 'end'} at the same"
    if len(same) > is_equal.sum():
        end = f"{'is' if len(same) == 2 else 'are'} not told from the best by the repeats"
    tied = f" {others} {end}; this one trained fastest." * (len(same) > 1)
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


def describe_runner_up(runs: pd.DataFrame, candidates: pd.DataFrame, best: pd.DataFrame) -> str:
    """Name the fastest configuration of another framework, precision or variant, and say how sure the order is.

    candidates: sorted by time. best: those of them that tie for the fastest.
    """
    others = candidates[~candidates["series"].isin(best["series"]) & ~candidates.index.isin(best.index)]
    if others.empty:
        return ""
    fastest, other = best.iloc[0], others.iloc[0]
    text = f"Next: {name_configuration(other)}: {name_spread(other, 'time_s_median', 's of training', '.3g')}"
    text += describe_reached(runs, other)
    if min(fastest["num_repeats"], other["num_repeats"]) == 1:
        return f"{text}. With one repeat, chance may decide between the two."
    return f"{text}."


def describe_start(table: pd.DataFrame, candidates: pd.DataFrame, best: pd.DataFrame) -> str:
    """Name the times that the ranking leaves out, and the fastest configuration if start-up and first step count.

    table: the times to the threshold of the ranking. best: the configurations that tie for the fastest.
    """
    both = summarize_time_to_accuracy(table, "time_with_start_s")
    both = both.merge(candidates[[*CONFIGURATION, "series"]], on=CONFIGURATION)
    both = both[both["time_s_median"].notna()].sort_values("time_s_median", kind="stable")
    fastest = best.iloc[0]
    text = "The ranking is by training time, without start-up, first step (compilation) and evaluation"
    if both.empty:
        return f"{text}."
    own = both.loc[(both[CONFIGURATION] == fastest[CONFIGURATION]).all(axis=1), "time_s_median"]
    text += f"; with start-up and first step it takes {own.iloc[0]:.3g} s" if len(own) else ""
    first = Repeats(table, "time_with_start_s").list_best(both, "lower")
    if (first[CONFIGURATION] == fastest[CONFIGURATION]).all(axis=1).any():
        if len(first) == 1:
            return f"{text} and is still the fastest."
        tied = name_count(len(first) - 1, "other")
        return f"{text}, and the repeats do not tell it from the fastest (a tie with {tied})."
    named = [f"{name_configuration(row)}: {row['time_s_median']:.3g} s" for _, row in first.iterrows()]
    return f"{text}, and the fastest is {describe_tie(first, named[:MAX_TIED_NAMED])}."

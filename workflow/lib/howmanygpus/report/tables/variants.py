"""Throughput, quality, evaluation and start-up of each variant of a study, compared with the first variant."""

from collections import Counter

import numpy as np
import pandas as pd

from howmanygpus.report.columns import CONFIGURATION, IDENTITY
from howmanygpus.report.equivalence import compare_means, pool
from howmanygpus.report.intervals import ratio_interval
from howmanygpus.report.outcomes import has_failed
from howmanygpus.report.published import is_fair
from howmanygpus.report.ties import collect_samples

READS = ("runs", "evaluations")
IS_MERGED = True
COMPARED = [name for name in CONFIGURATION if name not in ("variant", "global_batch_size")]
COLUMNS = [
    *COMPARED,
    *("variant", "base_variant", "base_images_per_s", "images_per_s", "throughput_ratio"),
    *("throughput_ratio_low", "throughput_ratio_high"),
    *("num_repeats", "num_failed", "num_disturbed"),
    *("quality_metric", "base_quality", "quality", "quality_of_guess", "quality_difference"),
    *("difference_low", "difference_high", "quality_margin", "same_quality"),
    *("base_evaluation_s", "evaluation_s", "base_start_s", "start_s"),
]


def tabulate(plan: dict, runs: pd.DataFrame, evaluations: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration and variant. runs, evaluations: the tables of these names."""
    names, margin = list(plan["config"]["variants"]), plan["config"]["quality"]["margin"]
    return compute_variants(runs[is_fair(runs)], names, margin, evaluations)


def compute_variants(runs: pd.DataFrame, variants: list[str], margin: float, evaluations: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration and variant. The first variant is the base and has no rows.

    runs, evaluations: the tables of these names; variants: names in the order of the config. Rates are medians over the
    repeats, and throughput_ratio_low and throughput_ratio_high the confidence interval of their ratio, see
    report.intervals. Quality is the mean over the repeats at the end of training. same_quality says whether the means
    are the same within the margin, see report.equivalence, and is empty if no run was evaluated; difference_low and
    difference_high are the confidence interval of their difference. num_disturbed counts the repeats of both.
    evaluation_s is the time of one evaluation of the test images and start_s that until the end of the first step, both
    medians over the repeats.
    """
    configurations = summarize_configurations(runs.assign(evaluation_s=time_evaluations(runs, evaluations)))
    rates = collect_samples(runs, ["variant", *COMPARED], "images_per_s")
    # The spread of seeds is assumed to be the same in all configurations.
    completed = runs[runs["status"] == "completed"]
    spread, freedom = pool(collect_samples(completed, ["variant", *COMPARED], "quality_last").values())
    metric = runs["quality_metric"].dropna()
    base, *others = variants
    rows = []
    for variant, *configuration in configurations.index:
        if variant not in others or (base, *configuration) not in configurations.index:
            continue
        one, other = configurations.loc[(base, *configuration)], configurations.loc[(variant, *configuration)]
        if not one["completed"] or not other["completed"]:
            continue
        difference, repeats = other["quality"] - one["quality"], (int(one["repeats"]), int(other["repeats"]))
        low, high, same = compare_means(difference, spread, freedom, repeats, margin)
        interval = ratio_interval(rates[variant, *configuration], rates[base, *configuration])
        values = [variant, base, one["rate"], other["rate"], other["rate"] / one["rate"], *interval]
        values += [int(other["completed"]), int(other["failed"]), int(one["disturbed"] + other["disturbed"])]
        values += [metric.iloc[0] if len(metric) else None, one["quality"], other["quality"]]
        values += [other["guess"], difference]
        values += [low, high, margin, same if all(repeats) else None]
        rows.append(
            [*configuration, *values, *(each[name] for name in ("evaluation_s", "start_s") for each in (one, other))]
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def time_evaluations(runs: pd.DataFrame, evaluations: pd.DataFrame) -> list[float]:
    """Return the seconds of one evaluation of each run; nan if there is none."""
    counts = Counter(evaluations[IDENTITY].itertuples(index=False, name=None))
    keys = runs[IDENTITY].itertuples(index=False, name=None)
    totals = runs["eval_s"].astype(float)
    return [total / counts[key] if counts[key] else np.nan for key, total in zip(keys, totals, strict=True)]


def summarize_configurations(runs: pd.DataFrame) -> pd.DataFrame:
    """Return medians of rate and seconds, mean quality and numbers of repeats by variant and configuration."""
    runs = runs.assign(failed=has_failed(runs["status"]), disturbed=runs["disturbed"].eq(True))
    runs["start_s"] = runs["init_s"].astype(float) + runs["compile_s"].astype(float)
    return runs.groupby(["variant", *COMPARED], sort=False).agg(
        rate=("images_per_s", "median"),
        quality=("quality_last", "mean"),
        guess=("quality_of_guess", "first"),
        completed=("images_per_s", "count"),
        repeats=("quality_last", "count"),
        failed=("failed", "sum"),
        disturbed=("disturbed", "sum"),
        evaluation_s=("evaluation_s", "median"),
        start_s=("start_s", "median"),
    )

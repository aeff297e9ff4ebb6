"""The answer in words: the best framework and device count of a study, with numbers."""

import numpy as np
import pandas as pd

from howmanygpus.report.inputs import choose_inputs
from howmanygpus.report.style import name_series
from howmanygpus.report.tables.time_to_accuracy import summarize_time_to_accuracy


def answer(runs: pd.DataFrame, scaling: pd.DataFrame, time_to_accuracy: pd.DataFrame) -> str:
    """Describe the tables of one study in a few lines."""
    lines = [describe_study(runs)]
    rates = choose_inputs(scaling)
    measured = rates[rates["images_per_s_median"].notna()]
    if measured.empty:
        lines.append("  No run has completed, so there is no answer yet.")
    else:
        lines += [*answer_accuracy(time_to_accuracy), answer_throughput(measured)]
    return "\n".join(lines) + "\n"


def describe_study(runs: pd.DataFrame) -> str:
    counts = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in runs["status"].value_counts().items())
    first = runs.iloc[0]
    return f"{first['study']}: {first['model']} on {first['dataset']}, {len(runs)} runs planned: {counts}."


def answer_accuracy(table: pd.DataFrame) -> list[str]:
    """Name the fastest and the cheapest configuration to the hardest threshold that some reached in all repeats."""
    if table.empty:
        return []
    summary = summarize_time_to_accuracy(table)
    summary["series"] = name_series(summary)
    summary["device_s"] = summary["time_s_median"] * summary["num_gpus"]
    sure = summary[summary["num_reached"] == summary["num_repeats"]]
    metric, best = table["metric"].iloc[0], table.groupby("threshold")["reached"].any()
    if sure.empty:
        return [f"  No configuration reached a threshold of {metric} in all its repeats."]
    hardest = sure["threshold"].max()
    candidates = sure[sure["threshold"] == hardest].sort_values("time_s_median")
    fastest, cheapest = candidates.iloc[0], candidates.sort_values("device_s").iloc[0]
    unreached = [f"{threshold:g}" for threshold, reached in best.items() if not reached]
    goal = f"to {metric} {hardest:g}"
    lines = [
        f"  Fastest {goal}: {name_configuration(fastest)}: {fastest['time_s_median']:.3g} s of training"
        f" (median of {fastest['num_repeats']}, {fastest['time_s_min']:.3g} to {fastest['time_s_max']:.3g})."
        + describe_runner_up(candidates, fastest),
        f"  Cheapest {goal}: {name_configuration(cheapest)}: {cheapest['device_s']:.3g} device-seconds.",
    ]
    return lines + ([f"  No run reached {metric} {', '.join(unreached)}."] if unreached else [])


def describe_runner_up(candidates: pd.DataFrame, fastest: pd.Series) -> str:
    """Name the fastest other framework, and say if its repeats overlap with those of the fastest."""
    others = candidates[candidates["series"] != fastest["series"]]
    if others.empty:
        return ""
    other = others.iloc[0]
    overlap = other["time_s_min"] <= fastest["time_s_max"]
    text = f" Next: {name_configuration(other)}, {other['time_s_median']:.3g} s"
    return text + ("; their repeats overlap." if overlap else ".")


def answer_throughput(scaling: pd.DataFrame) -> str:
    scaling = scaling.assign(series=name_series(scaling))
    best = scaling.loc[scaling["images_per_s_median"].idxmax()]
    text = (
        f"  Highest throughput: {name_configuration(best)}: {best['images_per_s_median']:,.0f} images/s"
        f" (median of {best['num_repeats']}, {best['images_per_s_min']:,.0f} to {best['images_per_s_max']:,.0f})"
    )
    if np.isfinite(best["speedup"]) and best["num_gpus"] > best["baseline_num_gpus"]:
        text += f", {best['speedup']:.2f} times its own rate on {best['baseline_num_gpus']}"
    return text + "."


def name_configuration(row: pd.Series) -> str:
    plural = "s" if row["num_gpus"] > 1 else ""
    return (
        f"{row['series']} on {row['num_gpus']} {row['device']} device{plural} x {row['per_device_batch_size']} images"
    )

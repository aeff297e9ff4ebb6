"""The configuration with the highest throughput, and its speed-up over two baselines."""

import numpy as np
import pandas as pd

from howmanygpus.report.answer.names import (
    add_series,
    describe_quality,
    describe_shortfall,
    name_configuration,
    name_spread,
)
from howmanygpus.report.rows import name_count


def answer_throughput(runs: pd.DataFrame, scaling: pd.DataFrame, datasets: pd.DataFrame) -> list[str]:
    """Name the fastest configuration without a failed repeat, and a faster one with failed repeats.

    scaling: rows with a rate.
    """
    scaling = add_series(scaling).sort_values("images_per_s_median", ascending=False, kind="stable")
    sound = scaling[scaling["num_failed"] == 0]
    lines = [] if sound.empty else [describe_best(runs, sound.iloc[0], datasets)]
    fastest = scaling.iloc[0]
    if fastest["num_failed"]:
        tried = fastest["num_repeats"] + fastest["num_failed"]
        lines.append(
            f"{name_configuration(fastest)} {'is faster' if lines else 'is the fastest'} with"
            f" {fastest['images_per_s_median']:,.0f} images/s, but {fastest['num_failed']} of {tried} repeats failed."
        )
    return lines


def describe_best(runs: pd.DataFrame, best: pd.Series, datasets: pd.DataFrame) -> str:
    rate = name_spread(best, "images_per_s_median", "images/s", ",.0f")
    return (
        f"Highest throughput: {name_configuration(best)}: {rate}."
        + describe_baselines(best)
        + describe_shortfall(runs, best)
        + describe_quality(runs, best, datasets)
    )


def describe_baselines(best: pd.Series) -> str:
    """Name the speed-up over the framework's own smallest device count, and over the best framework on one device."""
    parts = []
    is_own = best["best_one_device"] == best["framework"]
    if np.isfinite(best["speedup"]) and best["num_gpus"] > best["baseline_num_gpus"]:
        baseline = name_count(best["baseline_num_gpus"], "device")
        text = f"{best['speedup']:.2f} times its own rate on {baseline}"
        machinery = best["baseline_machinery"]
        if pd.notna(machinery):
            carried = "no collective machinery" if machinery == "none" else machinery
            text += f" (that run carries {carried}" + ("; no framework is faster there)" if is_own else ")")
        parts.append(text)
    if pd.notna(best["speedup_over_best"]) and best["num_gpus"] > 1 and not is_own:
        parts.append(f"{best['speedup_over_best']:.2f} times the best rate on one device, of {best['best_one_device']}")
    return f" That is {', and '.join(parts)}." if parts else ""

"""The configurations with the highest throughput, and their speed-up over two baselines."""

import numpy as np
import pandas as pd

from howmanygpus.report.answer.names import (
    CONFIGURATION,
    add_series,
    describe_quality,
    describe_shortfall,
    name_configuration,
)
from howmanygpus.report.answer.ties import Repeats, describe_best
from howmanygpus.report.rows import name_count
from howmanygpus.report.tables.scaling import CURVE

FIXED = ["scaling_mode", "fixed_batch_size"]
ABOVE_LINEAR = 1.05
"""Ratio to linear scaling from which on a speed-up without an interval is above it."""


def answer_throughput(runs: pd.DataFrame, scaling: pd.DataFrame, datasets: pd.DataFrame) -> list[str]:
    """Name the fastest configurations without a failed repeat, and a faster one with failed repeats.

    scaling: rows with a rate.
    """
    repeats = Repeats(runs, "images_per_s")
    scaling = add_series(scaling).sort_values("images_per_s_median", ascending=False, kind="stable")
    # A configuration may be on a curve of weak and on one of strong scaling.
    configurations = scaling.drop_duplicates(CONFIGURATION)
    sound = configurations[configurations["num_failed"] == 0]
    best = sound if sound.empty else repeats.list_best(sound, "higher")
    lines = []
    if len(best):
        chosen = best.iloc[0]
        lines.append(
            f"Highest throughput: {describe_best(best, 'images_per_s_median', 'images/s', ',.0f')}."
            + (" With one repeat, chance may decide." if repeats.tell_nothing and len(sound) > 1 else "")
            + describe_baselines(chosen, scaling, repeats)
            + describe_shortfall(runs, chosen)
            + describe_quality(runs, chosen, datasets)
        )
    fastest = scaling.iloc[0]
    if fastest["num_failed"]:
        tried = fastest["num_repeats"] + fastest["num_failed"]
        verb = "is the fastest"
        if len(best):
            verb = "is faster" if repeats.are_told_apart(fastest, best.iloc[0]) else "may be faster"
        lines.append(
            f"{name_configuration(fastest)} {verb} with"
            f" {fastest['images_per_s_median']:,.0f} images/s, but {fastest['num_failed']} of {tried} repeats failed."
        )
    return lines


def describe_baselines(best: pd.Series, scaling: pd.DataFrame, repeats: Repeats) -> str:
    """Name the speed-up over the framework's own smallest device count, and over the best framework on one device.

    A speed-up over a baseline that was disturbed in half or more of its repeats is not claimed. scaling: rows with a
    rate, the fastest first.
    """
    parts, doubts = [], []
    on_curve = scaling[(scaling[[*CURVE, *FIXED]] == best[[*CURVE, *FIXED]]).all(axis=1)]
    is_own = best["best_one_device"] == best["framework"]
    if np.isfinite(best["speedup"]) and best["num_gpus"] > best["baseline_num_gpus"]:
        is_base = on_curve["num_gpus"] == best["baseline_num_gpus"]
        base = on_curve[is_base & (on_curve["num_nodes"] == best["baseline_num_nodes"])].iloc[0]
        where = f"its own rate on {name_count(best['baseline_num_gpus'], 'device')}"
        part, doubt = _compare(best, base, "speedup", where, repeats)
        machinery = best["baseline_machinery"]
        if part and pd.notna(machinery):
            carried = "no collective machinery" if machinery == "none" else machinery
            part += f"; that run carries {carried}" + ("; no framework is faster there" if is_own else "")
        parts.append(part and f"{part})")
        doubts.append(doubt)
    if pd.notna(best["speedup_over_best"]) and best["num_gpus"] > 1 and not is_own:
        others = [name for name in CURVE if name != "framework"] + FIXED
        alone = scaling[(scaling[others] == best[others]).all(axis=1) & (scaling["num_gpus"] == 1)]
        base = alone[(alone["framework"] == best["best_one_device"]) & (alone["num_failed"] == 0)].iloc[0]
        part, doubt = _compare(best, base, "speedup_over_best", "the best rate on one device", repeats)
        parts.append(part and f"{part}), of {base['framework']}{_name_tied(base, alone, repeats)}")
        doubts.append(doubt)
    claims = [part for part in parts if part]
    return (f" That is {', and '.join(claims)}." if claims else "") + "".join(doubts)


def _compare(best: pd.Series, base: pd.Series, column: str, where: str, repeats: Repeats) -> tuple[str, str]:
    """Return the speed-up of one row over another with its interval, and a sentence that doubts it.

    The former ends within a bracket. It is empty if the baseline is too disturbed for a claim, and the latter if there
    is no doubt. column: of the speed-up; where: the rate of the baseline, in words.
    """
    speedup, low, high = best[column], best[f"{column}_low"], best[f"{column}_high"]
    linear = best["num_gpus"] / base["num_gpus"]
    is_above = low > linear if np.isfinite(low) else speedup > ABOVE_LINEAR * linear
    disturbed, done = int(base["num_disturbed"]), int(base["num_repeats"])
    which = "the only repeat" if done == 1 else f"{disturbed} of {done} repeats"
    if 2 * disturbed >= done:
        above = f", more than the {linear:g} of linear scaling" if is_above else ""
        return "", (
            f" The speed-up over {where} is not known, because other work disturbed {which} there; by their rates it "
            f"would be {speedup:.2f}{above}."
        )
    interval = repeats.describe_interval(best, base, low, high)
    part = f"{speedup:.2f} times {where} (of {base['images_per_s_median']:,.0f} images/s{interval}"
    doubt = f" Other work disturbed {which} behind {where}." if disturbed else ""
    if not repeats.tell_nothing and not repeats.are_told_apart(best, base):
        doubt += " The repeats do not tell it from no speed-up."
    if is_above:
        doubt += (
            f" {speedup:.2f} is above linear scaling ({linear:g}): something slowed the run on"
            f" {name_count(base['num_gpus'], 'device')}, or the work of each device became less or fitted its caches"
            " better."
        )
    return part, doubt


def _name_tied(base: pd.Series, alone: pd.DataFrame, repeats: Repeats) -> str:
    """Name the other frameworks that the repeats do not tell from the best one on one device; often empty."""
    others = alone[(alone["framework"] != base["framework"]) & (alone["num_failed"] == 0)]
    names = [row["framework"] for _, row in others.iterrows() if not repeats.are_told_apart(base, row)]
    return f" (in a tie with {', '.join(names)})" if names and not repeats.tell_nothing else ""

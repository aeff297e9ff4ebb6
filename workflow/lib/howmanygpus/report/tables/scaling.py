"""
Throughput of each configuration over its repeats, and its speed-up along each scaling curve.

Columns that end in `_low` and `_high` are confidence intervals, see report.intervals: of the median rate, and of
speed-ups as ratios of medians. `group` numbers the configurations of one device count of a curve, see report.ties: 1
for the fastest and all that their repeats do not tell from it. It is empty without repeats.

There are two baselines. `speedup` compares a framework with itself on the smallest device count of the curve.
`speedup_over_best` compares it with the fastest framework on one device, on the same curve.

If a study has the key `num_nodes`, each number of nodes is a line of its own, with its name in the column placement.
They share their baseline, on the smallest number of nodes that can have it: one device, if the study has that count.

`curve` names the rows that figures show together: a scaling mode and the batch that it keeps constant. With
`per_device_batch_size: max`, it is the largest batch of each framework, whatever its number.
"""

import numpy as np
import pandas as pd

from howmanygpus.report.columns import CONFIGURATION, CURVE, FIXED, LINE, POINT, SEARCHED, STUDY, TASK, list_columns
from howmanygpus.report.intervals import median_interval, ratio_interval
from howmanygpus.report.outcomes import OVER_REPEATS, flag_outcomes
from howmanygpus.report.published import is_fair
from howmanygpus.report.ties import collect_samples, group_ties, measure_scatter
from howmanygpus.report.words import word

READS = ("runs",)
IS_MERGED = True
COLUMNS = [
    *(*CURVE, "placement", "scaling_mode", "fixed_batch_size", *POINT[1:]),
    *("images_per_s_median", "images_per_s_min", "images_per_s_max", "images_per_s_low", "images_per_s_high"),
    *("num_planned", "num_repeats", "num_failed", "num_disturbed", "repeats_ended"),
    *("independent", "device_images_per_s_min", "device_images_per_s_max"),
    *("baseline_num_nodes", "baseline_num_gpus", "speedup", "speedup_low", "speedup_high", "scaling_efficiency"),
    *("baseline_machinery", "best_one_device"),
    *("speedup_over_best", "speedup_over_best_low", "speedup_over_best_high", "curve", "group"),
]
GROUPED = [*list_columns(STUDY, TASK), "input", "curve", "num_gpus"]
"""Columns that name a device count of a curve, whose configurations are grouped."""
MODES = ("weak", "strong")
"""Scaling modes in the order in which tables and figures show them."""


def name_curve(scaling_mode: str, fixed_batch_size: int, unit: str) -> str:
    """Return the title of a curve, such as "weak scaling, 64 images per device". unit: such as images."""
    return word("tables", "curve", scaling_mode=scaling_mode, size=fixed_batch_size, unit=unit)


def tabulate(plan: dict, runs: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration and scaling mode. runs: the table of that name."""
    fair = runs[is_fair(runs)]
    table = compute_scaling(fair, plan["curves"], plan.get("machinery", {}))
    if "largest" in plan:
        table = add_groups(name_largest(table, plan["largest"], plan["config"]), fair)
    return table


def name_largest(table: pd.DataFrame, largest: list[dict], config: dict) -> pd.DataFrame:
    """Put the rows of the largest batches on one curve. largest, config: as in the plan.

    Numbers that the study also lists stay on their own curves.
    """
    factor = min(config["num_gpus"]) * config["accumulate"] if config["scaling"] == "strong" else 1
    sizes = {
        tuple(each[name] for name in SEARCHED): each["number"] * factor
        for each in largest
        if each["number"] not in config["per_device_batch_size"]
    }
    found = [sizes.get(series) for series in table[SEARCHED].itertuples(index=False, name=None)]
    is_largest = table["fixed_batch_size"] == pd.Series(found, index=table.index, dtype=float)
    shared = table["scaling_mode"].map(lambda mode: word("tables", "curve_of_largest", scaling_mode=mode))
    return table.assign(curve=table["curve"].where(~is_largest, shared))


def compute_scaling(runs: pd.DataFrame, curves: dict[str, list[int]], machinery: dict[str, dict]) -> pd.DataFrame:
    """One row per configuration and scaling mode.

    runs: the table of that name; curves: the batch sizes that each mode keeps constant; machinery: by variant and
    framework, overhead of a run on one device for collective operations, see registry. num_repeats counts the
    repeats that completed, num_failed those that were tried and did not. Speed-up compares the median with that of the
    baseline, the smallest planned device count of the curve. It is empty if no run completed there. repeats_ended,
    independent and the rates of single devices: see the table of runs.
    """
    runs, frames = flag_outcomes(runs), []
    for mode in MODES:
        members = runs[runs[FIXED[mode]].isin(curves.get(mode, []))].assign(scaling_mode=mode)
        members["fixed_batch_size"] = members[FIXED[mode]]
        frames.append(members.sort_values("fixed_batch_size", kind="stable"))
    configurations = COLUMNS[: COLUMNS.index("images_per_s_median")]
    aggregated = OVER_REPEATS | {column: (column, "first") for column in ("repeats_ended", "independent")}
    # Medians, so that the spread is that of devices and not of repeats.
    aggregated |= {f"device_images_per_s_{of}": (f"device_images_per_s_{of}", "median") for of in ("min", "max")}
    table = pd.concat(frames).groupby(configurations, sort=False).agg(**aggregated).reset_index()
    named = zip(table["scaling_mode"], table["fixed_batch_size"], table["unit"], strict=True)
    table["curve"] = [name_curve(*names) for names in named]
    rates = list_rates(table, runs)
    table[["images_per_s_low", "images_per_s_high"]] = [median_interval(each) for each in rates]
    table = add_speedup_over_best(add_speedup(table, machinery, rates), rates)
    return add_groups(table, runs)[COLUMNS]


def list_rates(table: pd.DataFrame, runs: pd.DataFrame) -> list[np.ndarray]:
    """Return the rates of the repeats of each row of the table."""
    samples = collect_samples(runs, CONFIGURATION, "images_per_s")
    return [samples.get(key, np.array([])) for key in table[CONFIGURATION].itertuples(index=False, name=None)]


def add_groups(table: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Add the group of each row with a rate. Independent runs rival one run on all devices and are in no group.

    runs: the table of that name, whose repeats say how much rates scatter.
    """
    scatter = measure_scatter(collect_samples(runs, CONFIGURATION, "images_per_s").values())
    rates, groups = list_rates(table, runs), pd.Series(pd.NA, table.index, dtype="Int64")
    is_independent = table["independent"].eq(True).to_numpy()
    for positions in table.groupby(GROUPED, sort=False).indices.values():
        known = [each for each in positions if len(rates[each]) and not is_independent[each]]
        if len(known) == 1 or not np.isnan(scatter):
            groups.iloc[known] = group_ties([rates[position] for position in known], scatter)
    return table.assign(group=groups)


def list_repeats(table: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per repeat with a rate of configurations that have several, with the table's columns.

    table: rows of the table scaling, with further columns. runs: the table of that name, which adds images_per_s and
    is_outlier.
    """
    rates = runs.loc[runs["images_per_s"].notna(), [*CONFIGURATION, "images_per_s", "is_outlier"]]
    return table[table["num_repeats"] > 1].merge(rates, on=CONFIGURATION)


def add_speedup(table: pd.DataFrame, machinery: dict[str, dict], rates: list[np.ndarray]) -> pd.DataFrame:
    """Add the speed-up of each configuration over the same framework on the smallest device count of its curve.

    Numbers of nodes that cannot have this count are no baseline. rates: those of the repeats of each row.
    """
    curve = table.groupby(LINE).ngroup()
    table["baseline_num_gpus"] = table["num_gpus"].groupby(curve).transform("min")
    least = table["num_gpus"] == table["baseline_num_gpus"]
    possible = least & (table["num_unsupported"] < table["num_planned"])
    fewest, of_any = (table["num_nodes"].where(rows).groupby(curve).transform("min") for rows in (possible, least))
    table["baseline_num_nodes"] = fewest.fillna(of_any).astype(int)
    baseline = table["images_per_s_median"].where(is_baseline(table)).groupby(curve).transform("first")
    table["speedup"] = table["images_per_s_median"] / baseline
    of_baseline = {curve.iloc[position]: rates[position] for position in np.flatnonzero(is_baseline(table))}
    intervals = [compare_rates(own, of_baseline[each]) for own, each in zip(rates, curve, strict=True)]
    table[["speedup_low", "speedup_high"]] = intervals
    table["scaling_efficiency"] = table["speedup"] / (table["num_gpus"] / table["baseline_num_gpus"])
    has_one = table["baseline_num_gpus"] == 1
    pairs = zip(table["variant"], table["framework"], strict=True)
    carried = pd.Series([machinery.get(variant, {}).get(name) for variant, name in pairs], table.index, dtype=object)
    table["baseline_machinery"] = carried.where(has_one).replace("", "none")
    return table


def is_baseline(table: pd.DataFrame) -> pd.Series:
    """Whether each row of the table is the baseline of its curve."""
    return (table["num_gpus"] == table["baseline_num_gpus"]) & (table["num_nodes"] == table["baseline_num_nodes"])


def compare_rates(rates: np.ndarray, baseline: np.ndarray) -> tuple[float, float]:
    """Return the interval of the ratio of median rates. A configuration is exactly as fast as itself."""
    return (1.0, 1.0) if rates is baseline and len(rates) else ratio_interval(rates, baseline)


def add_speedup_over_best(table: pd.DataFrame, rates: list[np.ndarray]) -> pd.DataFrame:
    """Add the speed-up over the fastest one-device run of any framework, and the name of that framework.

    The batch, variant, input, precision and device are the same. A framework with a failed repeat on one device is no
    baseline. rates: those of the repeats of each row.
    """
    same = [name for name in LINE if name != "framework"]
    alone = table[(table["num_gpus"] == 1) & (table["num_failed"] == 0) & table["images_per_s_median"].notna()]
    best = alone.sort_values("images_per_s_median", ascending=False).drop_duplicates(same)
    best = best[[*same, "framework", "images_per_s_median"]].assign(best_row=best.index)
    best = best.rename(columns={"framework": "best_one_device", "images_per_s_median": "best_rate"})
    table = table.merge(best, on=same, how="left")
    table["speedup_over_best"] = table["images_per_s_median"] / table["best_rate"]
    of_best = [np.array([]) if pd.isna(row) else rates[int(row)] for row in table["best_row"]]
    intervals = [compare_rates(own, other) for own, other in zip(rates, of_best, strict=True)]
    table[["speedup_over_best_low", "speedup_over_best_high"]] = intervals
    return table

"""
The cost of spreading devices: the rate of each device count on each number of nodes, relative to the fewest nodes.

The base is the smallest number of nodes that can have the devices. Repeats are not paired: rate_of_base_min is the
slowest repeat over the fastest one of the base, and rate_of_base_max the fastest over the slowest. `parity` is the
parity gate's verdict on the runs, with the layout on which it stands, if it is another one. Runs on several nodes have
the verdict of the gate's task over two nodes, with one device on each.
"""

import pandas as pd

from howmanygpus.report.columns import CONFIGURATION
from howmanygpus.report.published import is_fair
from howmanygpus.report.tables.scaling import OVER_REPEATS, flag_outcomes

READS = ("runs",)
COMPARES = "num_nodes"
COMPARED = [name for name in CONFIGURATION if name not in ("placement", "num_nodes")]
RATES = ["images_per_s_median", "images_per_s_min", "images_per_s_max"]
COLUMNS = [
    *(*COMPARED, "num_nodes", "base_num_nodes", *RATES, "rate_of_base", "rate_of_base_min", "rate_of_base_max"),
    *("num_planned", "num_repeats", "num_failed", "num_disturbed", "base_num_repeats", "base_num_failed", "parity"),
]


def tabulate(plan: dict, runs: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration and number of nodes. runs: the table of that name."""
    return compare_placements(runs[is_fair(runs)])


def compare_placements(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration and number of nodes, for device counts that were planned on several of them.

    runs: the table of that name. A number of nodes that cannot have the devices is not used as the base, and has no
    rate.
    """
    configurations = flag_outcomes(runs).groupby([*COMPARED, "num_nodes"], sort=False)
    table = configurations.agg(
        **OVER_REPEATS, parity=("parity", lambda verdicts: ", ".join(verdicts.dropna().unique()) or None)
    )
    table = table.reset_index().astype(dict.fromkeys(RATES, float))
    is_possible = table["num_unsupported"] < table["num_planned"]
    configuration = table.groupby(COMPARED, sort=False).ngroup()
    table = table[configuration.groupby(configuration).transform("size") > 1]
    table["base_num_nodes"] = (
        table["num_nodes"].where(is_possible).groupby(configuration).transform("min").astype("Int64")
    )
    is_base = table["num_nodes"].eq(table["base_num_nodes"]).fillna(False)

    def of_base(column: str) -> pd.Series:
        return table[column].where(is_base).groupby(configuration).transform("first")

    table["rate_of_base"] = table["images_per_s_median"] / of_base("images_per_s_median")
    table["rate_of_base_min"] = table["images_per_s_min"] / of_base("images_per_s_max")
    table["rate_of_base_max"] = table["images_per_s_max"] / of_base("images_per_s_min")
    for column in ("num_repeats", "num_failed"):
        table[f"base_{column}"] = of_base(column).fillna(0).astype(int)
    return table[COLUMNS].reset_index(drop=True)

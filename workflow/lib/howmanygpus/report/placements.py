"""Rates of the same devices on several numbers of nodes; see the table placement."""

import pandas as pd

from howmanygpus.report.columns import CONFIGURATION
from howmanygpus.report.outcomes import OVER_REPEATS, flag_outcomes

COMPARED = [name for name in CONFIGURATION if name not in ("placement", "num_nodes")]
RATES = ["images_per_s_median", "images_per_s_min", "images_per_s_max"]


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
    return table.reset_index(drop=True)

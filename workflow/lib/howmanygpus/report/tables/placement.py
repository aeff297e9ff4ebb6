"""
The cost of spreading devices: the rate of each device count on each number of nodes, relative to the fewest nodes.

The base is the smallest number of nodes that can have the devices. Repeats are not paired: rate_of_base_min is the
slowest repeat over the fastest one of the base, and rate_of_base_max the fastest over the slowest. `parity` is the
parity gate's verdict on the runs, with the layout on which it stands, if it is another one. Runs on several nodes have
the verdict of the gate's task over two nodes, with one device on each.
"""

import pandas as pd

from howmanygpus.report.placements import COMPARED, RATES, compare_placements
from howmanygpus.report.published import is_fair

READS = ("runs",)
COMPARES = "num_nodes"
COLUMNS = [
    *(*COMPARED, "num_nodes", "base_num_nodes", *RATES, "rate_of_base", "rate_of_base_min", "rate_of_base_max"),
    *("num_planned", "num_repeats", "num_failed", "num_disturbed", "base_num_repeats", "base_num_failed", "parity"),
]


def tabulate(plan: dict, runs: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration and number of nodes. runs: the table of that name."""
    return compare_placements(runs[is_fair(runs)])[COLUMNS]

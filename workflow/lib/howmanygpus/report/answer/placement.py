"""The cost of spreading the same devices over more nodes."""

import pandas as pd

from howmanygpus.report.answer.names import add_series
from howmanygpus.report.outcomes import name_nodes
from howmanygpus.report.rows import choose_inputs, name_count
from howmanygpus.report.tables.placement import compare_placements

MAX_PLACEMENTS_NAMED = 6
UNKNOWN = "What it costs to spread devices over nodes is not known: no device count has completed on several."


def answer_placement(runs: pd.DataFrame) -> list[str]:
    """Compare the largest device count of each series on the most and on the fewest nodes; nothing without the key.

    Placements with a failed repeat are left out. runs: the table of that name.
    """
    table = compare_placements(choose_inputs(runs))
    if table.empty:
        return []
    known = table[table["rate_of_base"].notna() & (table["num_nodes"] > table["base_num_nodes"])]
    sound = add_series(known[(known["num_failed"] == 0) & (known["base_num_failed"] == 0)].assign(placement=""))
    if sound.empty:
        return [UNKNOWN]
    sound = sound.sort_values(["num_gpus", "num_nodes", "images_per_s_median"], ascending=False, kind="stable")
    chosen = sound.drop_duplicates("series").sort_values("images_per_s_median", ascending=False, kind="stable")
    parts = [_describe(row) for _, row in chosen.head(MAX_PLACEMENTS_NAMED).iterrows()]
    more = (
        [f"and {len(chosen) - MAX_PLACEMENTS_NAMED} more in placement.tsv"]
        if len(chosen) > MAX_PLACEMENTS_NAMED
        else []
    )
    return [f"Spread over nodes: {'; '.join(parts + more)}."]


def _describe(row: pd.Series) -> str:
    """Write the rate of a row over that on the fewest nodes, with its range over the repeats."""
    count = row["num_gpus"]
    scope = f"{row['rate_of_base_min']:.2f} to {row['rate_of_base_max']:.2f} by the spread of the repeats"
    if row["num_repeats"] == row["base_num_repeats"] == 1:
        scope = "one repeat each"
    return (
        f"{count} {row['device']} devices on {name_nodes(row['num_nodes'])} give {row['rate_of_base']:.2f} of the rate "
        f"of {count} on {name_nodes(row['base_num_nodes'])}, in {row['series']} x "
        f"{name_count(row['per_device_batch_size'], 'image')} ({scope})"
    )

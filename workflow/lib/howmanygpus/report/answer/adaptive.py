"""The runs that an adaptive study left out, and why."""

import pandas as pd

from howmanygpus.report.outcomes import GridDecision
from howmanygpus.report.rows import name_count

NOT_RUN, MISSING = "not_run", "missing"
NOT_YET = "not run yet"
MAX_REASONS_NAMED = 12


def describe_grid(runs: pd.DataFrame, decision: GridDecision | None) -> list[str]:
    """Name the reasons for which runs of an adaptive study were not done, or are not decided yet.

    decision: None for a fixed grid.
    """
    if decision is None:
        return []
    lines = []
    if "probes_of" in decision:
        lines.append(
            f"These are short probes of {decision['probes_of']}, which choose the configurations that it trains. Their "
            "quality says nothing."
        )
    elif (runs["status"] == NOT_RUN).any():
        lines.append("The grid is adaptive: the best is the best of what was run.")
    for status, title in ((NOT_RUN, "Not run"), (MISSING, "Open")):
        rows = runs[(runs["status"] == status) & (runs["reason"] != NOT_YET)]
        counts = rows["reason"].value_counts()
        named = [f"{reason} ({name_count(count, 'run')})" for reason, count in counts.items()]
        more = (
            [f"and {len(named) - MAX_REASONS_NAMED} more reasons in runs.tsv"] if len(named) > MAX_REASONS_NAMED else []
        )
        lines += [f"{title}: {'; '.join(named[:MAX_REASONS_NAMED] + more)}."] if named else []
    return lines

"""The runs that an adaptive study left out, and why."""

from collections import Counter

import pandas as pd

from howmanygpus.report.outcomes import GridDecision
from howmanygpus.report.rows import name_count

NOT_RUN, MISSING = "not_run", "missing"
NOT_YET = "not run yet"
MAX_REASONS_NAMED = 12


CAUSES = {
    "precision": "until the interval of the median was as narrow as asked for",
    "limit": "up to the limit, with a wider interval",
    "no_rate": "no further, because a repeat gave no rate",
}
"""Why configurations are not repeated further, see study.adaptive.repeats."""


def describe_repeats(decision: GridDecision) -> str:
    """Count why configurations are not repeated further; empty if the number of repeats is fixed.

    Configurations are the runs that differ in more than the repeat.
    """
    ended = {path.rpartition("_repeat")[0]: cause for path, (cause, _) in decision.get("repeats_ended", {}).items()}
    counts = Counter(ended.values())
    named = [
        f"{name_count(counts[cause], 'configuration')} {words}" for cause, words in CAUSES.items() if counts[cause]
    ]
    return f"Repeated: {'; '.join(named)}." if named else ""


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
    if ended := describe_repeats(decision):
        lines.append(ended)
    for status, title in ((NOT_RUN, "Not run"), (MISSING, "Open")):
        rows = runs[(runs["status"] == status) & (runs["reason"] != NOT_YET)]
        counts = rows["reason"].value_counts()
        named = [f"{reason} ({name_count(count, 'run')})" for reason, count in counts.items()]
        more = (
            [f"and {len(named) - MAX_REASONS_NAMED} more reasons in runs.tsv"] if len(named) > MAX_REASONS_NAMED else []
        )
        lines += [f"{title}: {'; '.join(named[:MAX_REASONS_NAMED] + more)}."] if named else []
    return lines

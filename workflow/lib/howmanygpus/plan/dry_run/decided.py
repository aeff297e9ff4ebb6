"""Says which runs of adaptive studies are decided later, and which are not done."""

from collections import Counter

from howmanygpus.plan.plan import Plan

LATER, NOT_RUN = "decided later: ", "not run: "
MOST_REASONS = 20


def describe_decisions(plan: Plan) -> list[str]:
    """Return lines with the reasons, the most frequent first; nothing if all grids are fixed."""
    campaigns = {id(decision): decision for decision in plan.decisions.values()}.values()
    later = [reason for decision in campaigns for reason in decision.later.values()]
    not_run = [reason for decision in campaigns for reason in decision.not_run.values()]
    lines = []
    if later:
        lines += ["", f"Decided later, by what this call measures: {len(later)} runs", *_list_reasons(later, LATER)]
    if not_run:
        lines += ["", f"Not run: {len(not_run)} runs", *_list_reasons(not_run, NOT_RUN)]
    return lines


def _list_reasons(reasons: list[str], title: str) -> list[str]:
    counts = Counter(reason.removeprefix(title) for reason in reasons).most_common()
    more = [f"  and {len(counts) - MOST_REASONS} more reasons"] if len(counts) > MOST_REASONS else []
    return [f"  {number} x {reason}" for reason, number in counts[:MOST_REASONS]] + more

"""Says which runs are unsupported, and which of adaptive studies are decided later or not done."""

from collections import Counter

from howmanygpus.plan.plan import Plan

LATER, NOT_RUN = "decided later: ", "not run: "
MOST_REASONS = 20


def describe_unsupported(plan: Plan) -> list[str]:
    """Return lines with the reasons, the most frequent first, and the studies without any remaining run."""
    reasons = [run.unsupported for run in plan.runs.values() if run.unsupported]
    if not reasons:
        return []
    title = f"Unsupported: {len(reasons)} of {len(plan.runs)} planned runs"
    if len(reasons) == len(plan.runs):
        return ["", f"{title}; no run is left", *_list_reasons(reasons, "")]
    empty = [study.name for study in plan.studies.values() if all(run.unsupported for run in study.runs)]
    left = [f"  no run is left of {', '.join(empty)}"] if empty else []
    return ["", title, *_list_reasons(reasons, ""), *left]


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

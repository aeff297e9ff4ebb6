"""Results of the runs without wait: windows that end without it must take as long as windows that end with it."""

import json
import statistics

from howmanygpus.report.check_gpu.findings import explain_missing
from howmanygpus.train.preflight.waits import UNSUPPORTED, RunWithoutWait

COMPLETES_STEPS = "completes steps before they return on a CPU, so that there is nothing to wait for"
STOPPED = ("running", "interrupted", "killed")
"""Statuses of attempts that were stopped from outside, by a signal or by SIGKILL."""
SHORTER_FRAC, SHORTER_PAIRS = 0.1, 0.85
"""Windows are too short without the wait if the median lacks this fraction, and nearly all are shorter than the window
before them. If only the wait ended a window, each window without it would lack a large part of a step. Other work on
the machine also changes windows, but in both directions: 16 of 18 pairs differ in one direction by chance once in
1,500.
"""


def describe_wait(run: RunWithoutWait, why: str) -> dict:
    """Describe a run without wait. why: how it ended if it has no record.

    Keys: framework, status (empty if it was not done), with_wait_s and without_s (median seconds of a window, None if
    it was not measured), reason, and `problem`: empty if nothing is wrong.
    """
    row: dict = {"framework": run.framework, "status": "", "reason": "", "problem": ""}
    row |= {"with_wait_s": None, "without_s": None}
    if not run.shows_it:
        return row | {"reason": COMPLETES_STEPS}
    if refusal := run.explain_refusal():
        return row | {"status": UNSUPPORTED, "reason": refusal}
    record = run.read_outcome() or run.read_last_attempt()
    if record is None or record["status"] in STOPPED:
        return row | {"problem": explain_missing(why)}
    row |= {"status": record["status"], "reason": record["reason"]}
    if record["status"] != "completed":
        is_problem = record["status"] != UNSUPPORTED
        return row | {"problem": f"{record['status']}: {record['reason']}" if is_problem else ""}
    with_wait_s, without_s = _read_windows(run)
    medians = statistics.median(with_wait_s), statistics.median(without_s)
    row |= dict(zip(("with_wait_s", "without_s"), medians, strict=True))
    shorter = [without < with_wait for with_wait, without in zip(with_wait_s, without_s, strict=False)]
    is_short = sum(shorter) > SHORTER_PAIRS * len(shorter)
    return row | {"problem": _describe_problem(*medians) if is_short else ""}


def _read_windows(run: RunWithoutWait) -> tuple[list[float], list[float]]:
    """Return the seconds of the measured windows that end with the wait, and of those after them, which do not."""
    events = [json.loads(line) for line in (run.folder / "events.jsonl").read_text().splitlines()]
    windows = [event for event in events if event["event"] == "window"]
    without_s, with_wait_s = (
        [window["elapsed_s"] for window in windows[first::2] if window["phase"] == "train"] for first in (0, 1)
    )
    return with_wait_s, without_s


def _describe_problem(with_wait_s: float, without_s: float) -> str:
    if without_s >= (1 - SHORTER_FRAC) * with_wait_s:
        return ""
    return (
        f"a window takes {1000 * without_s:.3g} ms without the wait and {1000 * with_wait_s:.3g} ms with it: neither "
        "the marker of a step nor its loss waits for it, so rates depend on wait_until_idle alone"
    )

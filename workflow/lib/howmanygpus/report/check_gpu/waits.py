"""What became of the runs without wait: each must have been noticed, where the framework needs a wait at all."""

from howmanygpus.report.check_gpu.findings import TIME_UP
from howmanygpus.train.preflight.waits import UNSUPPORTED, WaitRun

EXPECTED = "clock_mismatch"
COMPLETES_STEPS = "nothing: completes steps before they return on a CPU"
STOPPED = ("running", "interrupted")
"""Statuses of attempts that were stopped from outside, by a signal or by SIGKILL."""


def describe_wait(run: WaitRun) -> dict:
    """Return what is known of a run without wait.

    Keys: framework, status (empty if it was not done), expected, phases (seconds, in words), reason, and `problem`:
    anything but the expected status, or nothing.
    """
    row = {"framework": run.framework, "status": "", "expected": EXPECTED, "phases": "", "reason": "", "problem": ""}
    if not run.shows_it:
        return row | {"expected": COMPLETES_STEPS}
    if refusal := run.explain_refusal():
        return row | {"status": UNSUPPORTED, "reason": refusal}
    record = run.find_outcome() or run.find_last_attempt()
    if record is None or record["status"] in STOPPED:
        return row | {"problem": TIME_UP}
    status, seconds = record["status"], record.get("phases_s", {})
    phases = ", ".join(f"{phase} {value:.3g} s" for phase, value in seconds.items())
    row |= {"status": status, "reason": record["reason"], "phases": phases}
    return row | {"problem": _find_problem(status, record["reason"], phases)}


def _find_problem(status: str, reason: str, phases: str) -> str:
    if status in (EXPECTED, UNSUPPORTED):
        return ""
    if status == "completed":
        reason = (
            f"without its wait the run was not noticed ({phases}). Either the marker of a step does not wait for it, "
            "or the framework itself waits in each step"
        )
    return f"{status}, not {EXPECTED}: {reason}"

"""The last message of a call: where the answer is, or what was not done."""

import json
import shlex
from collections.abc import Iterable
from pathlib import Path

from howmanygpus.paths import RUNS

AVAILABLE, OF_CLONE = "available", ".venv/bin/snakemake"


def repeat_call(target: str, command_line: list[str], targets: Iterable[str]) -> str:
    """Return the command line of the same call with another target, which stands before the options.

    target: empty for none. targets: those of the call, which are left out.
    """
    return shlex.join([name_program(), *filter(None, [target]), *_list_options(command_line, targets)])


def name_program() -> str:
    """Return how users of this folder call Snakemake: a clone has its own."""
    return OF_CLONE if Path(OF_CLONE).exists() else "snakemake"


def _list_options(command_line: list[str], targets: Iterable[str]) -> list[str]:
    given = {*targets, "--"}
    return [word for word in command_line[1:] if word not in given]


def describe_success(made: Iterable[str], command_line: list[str], targets: Iterable[str]) -> str:
    """Return the last message of a call that did everything; empty if it was not asked for an answer.

    made: paths of all files that were asked for, also if they existed.
    """
    answers = sorted((path for path in made if path.endswith("/answer.txt")), key=len)
    if not answers:
        return ""
    targets = list(targets)
    options = _list_options(command_line, targets)
    report = shlex.join([name_program(), *targets, *options, "--report", "results/report.html"])
    return f"The answer is in {answers[0]}, and as Markdown beside it. This writes the report: {report}"


def describe_untrained(runs: Iterable[str]) -> str:
    """Return the last message of a call of whose runs none was trained, because of the parity gate; otherwise empty.

    runs: paths of all runs that were asked for.
    """
    records: list[dict] = []
    for run in runs:
        path = Path(RUNS, run, "run.json")
        records.append(json.loads(path.read_text()) if path.exists() else {"status": "missing"})
    failed = [record for record in records if record["status"] == "failed_parity"]
    if not failed or any(record["status"] not in ("failed_parity", "unsupported") for record in records):
        return ""
    count = "the only one fails" if len(records) == 1 else f"{len(failed)} of {len(records)} fail"
    return f"No run was trained: {count} the parity gate. {failed[0]['reason']}"


def describe_end(
    interruption: str, submits: bool, command_line: list[str], targets: Iterable[str], cause: str = ""
) -> str:
    """Return the last message of a call that failed or was interrupted.

    interruption: signal that ended the call, see invocation.interrupting; empty if none did. targets: those of
    the call. cause: what failed first, which the last line names, see invocation.failing.
    """
    if interruption:
        jobs = "jobs that had not started were cancelled" if submits else "no other job was started"
        if interruption == "Ctrl-C":
            jobs = "its jobs were cancelled" if submits else "its jobs were stopped"
        return f"The call was interrupted by {interruption}; {jobs}. The same call continues with what is missing."
    targets = list(targets)
    message = "Some steps failed. The same call tries the missing ones again."
    if AVAILABLE not in targets:
        message += f" Tables and figures from the runs that exist: {repeat_call(AVAILABLE, command_line, targets)}"
    return f"{message}\nThe first that failed: {cause}" if cause else message

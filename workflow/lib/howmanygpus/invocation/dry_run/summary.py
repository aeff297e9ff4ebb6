"""Writes the summary of a dry run: what the call would do, why, and how long it would take."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from howmanygpus.files import read_each
from howmanygpus.invocation.dry_run.reasons import RerunReasons, is_missing
from howmanygpus.invocation.modules import find_own_name
from howmanygpus.invocation.submitted_jobs import read_seconds
from howmanygpus.paths import ATTEMPTS
from howmanygpus.study.adaptive.configurations import Decision
from howmanygpus.study.durations import Duration, RecordedJobs, RecordedRuns, StageEstimate, add_up
from howmanygpus.study.plan import Plan
from howmanygpus.study.runs import name_configuration

RUNS, GATE, PRODUCTS = "runs", "parity gate", "tables and figures"
PROBES, SEARCHES = "probes and all-reduces", "largest batches"
STAGES = {
    "environments": "environments",
    "prepare": "data and weights",
    "weights": "data and weights",
    "own_models": "data and weights",
    "probe": PROBES,
    "parity": GATE,
    "largest": SEARCHES,
    "train": RUNS,
    "tables": PRODUCTS,
    "figures": PRODUCTS,
}
"""Names in the order of the work, by the file in workflow/rules/ that defines a rule."""
BEFORE_RUNS = ("environments", "data and weights", PROBES, GATE, SEARCHES)
MEASURED = (PROBES, GATE, SEARCHES, RUNS)
"""Stages whose jobs go one at a time on one machine."""
DERIVED_STAGES = ("plan_runs", "write_parity_page", "tabulate_probes")
"""Rules of earlier stages whose jobs make products from the records that exist."""
NAMED = 20
"""Runs that are named for each reason to do them again."""
NOTHING = "Nothing to be done: all that this call asks for exists and is up to date."
LATER, NOT_RUN = "decided later: ", "not run: "
MAX_REASONS_NAMED = 20
HEADER = ("stage", "jobs", "why", "expected", "based on")
UNKNOWN_YET = "how long they take is not known, as none like them was done here; small networks take minutes"
UNKNOWN_AT_FIRST = "unknown before the first runs here; small networks take minutes"
GATE_RULES = ("compute_reference", "observe_parity")
"""The rules of the gate that take long, in the order of their jobs. The logs of a rule exist once its jobs start."""
NOT_ATTEMPTED = ("running", "blocked")
"""Statuses of attempts that are running, or that did not begin because an earlier step failed."""


def resolve_stage(rule: Any) -> str | None:
    """Return the stage of a rule; None for a target, whose job does nothing, and for a rule of another workflow."""
    if not (name := find_own_name(rule)):
        return None
    return PRODUCTS if name in DERIVED_STAGES else STAGES.get(Path(str(rule.snakefile)).stem)


def count(words: Iterable[str]) -> list[str]:
    """Return each word with how often it occurs, the most frequent first; a word that is alone needs no number."""
    counts = Counter(words)
    return [f"{number} {word}" for word, number in counts.most_common()] if len(counts) > 1 else list(counts)


def shorten_list(names: list[str]) -> list[str]:
    more = [f"  and {len(names) - NAMED} more; --printshellcmds lists all"] if len(names) > NAMED else []
    return [f"  {name}" for name in names[:NAMED]] + more


def align(rows: list[tuple[str, ...]]) -> list[str]:
    """Return the rows of a table as lines. Numbers are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = [
        [cell.rjust(width) if cell.isdigit() else cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        for row in rows
    ]
    return [f"  {'  '.join(cells)}".rstrip() for cells in aligned]


def format_s(seconds: float) -> str:
    """Return a duration in words, such as `40 s`, `13 min` or `2 h 10 min`."""
    minutes = round(seconds / 60)
    if seconds < 89.5:
        return f"{seconds:.0f} s"
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"


def format_h(seconds: float) -> str:
    hours = seconds / 3600
    if 0 < hours < 0.01:
        return "< 0.01"
    return f"{hours:.2g}" if hours < 99.5 else f"{hours:.0f}"


def describe_duration(duration: Duration, form: Callable[[float], str] = format_s) -> str:
    """Return what is known of a duration, such as `12 min + an unknown rest of at most 30 min`.

    Limits of some jobs say nothing about all of them.
    """
    known = form(duration.seconds)
    if duration.is_complete and not duration.limit_s:
        return known
    most = f"at most {form(duration.limit_s)}" if duration.is_complete else ""
    if not duration.seconds:
        return f"unknown, {most}" if most else "unknown"
    return f"{known} + an unknown rest of {most}" if most else f"{known} + an unknown rest"


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
    ended = [reason for decision in campaigns for reason in _list_ended_repeats(decision)]
    later = [reason for decision in campaigns for reason in decision.later.values()]
    not_run = [reason for decision in campaigns for reason in decision.not_run.values()]
    lines = []
    if ended:
        title = f"Not repeated further: {len(ended)} configuration{'s' if len(ended) > 1 else ''}"
        lines += ["", title, *_list_reasons(ended, "")]
    if later:
        lines += ["", f"Decided later, by what this call measures: {len(later)} runs", *_list_reasons(later, LATER)]
    if not_run:
        lines += ["", f"Not run: {len(not_run)} runs", *_list_reasons(not_run, NOT_RUN)]
    return lines


def _list_ended_repeats(decision: Decision) -> list[str]:
    """Return the reason of each configuration that is not repeated further."""
    by_configuration = {name_configuration(path): reason for path, (_, reason) in decision.repeats_ended.items()}
    return list(by_configuration.values())


def _list_reasons(reasons: list[str], title: str) -> list[str]:
    counts = Counter(reason.removeprefix(title) for reason in reasons).most_common()
    more = [f"  and {len(counts) - MAX_REASONS_NAMED} more reasons"] if len(counts) > MAX_REASONS_NAMED else []
    return [f"  {number} x {reason}" for reason, number in counts[:MAX_REASONS_NAMED]] + more


class Summary:
    """What a call would do. dag, persistence: Snakemake's plan of the call and its records.

    cores: how many jobs that are not measured run at the same time. is_forced: whether the user forces jobs.
    """

    def __init__(self, plan: Plan, dag: Any, persistence: Any, cores: int, is_forced: bool):
        self._plan, self._cores = plan, cores
        self._reasons = RerunReasons(dag, persistence, is_forced)
        self._jobs = _sort_by_stage(dag.needrun_jobs(exclude_finished=False))
        self._estimates = self._estimate(RecordedRuns(plan), RecordedJobs(dag.jobs, persistence, read_seconds))
        runs = self._jobs.get(RUNS, [])
        self._missing = [_name(job) for job in runs if is_missing(job)]
        missing = set(self._missing)
        self._again = [job for job in runs if _name(job) not in missing]

    def write(self) -> str:
        not_done = [*describe_unsupported(self._plan), *describe_decisions(self._plan)]
        if not self._jobs:
            return "\n".join([NOTHING, *not_done])
        rows = [HEADER, *map(self._describe_stage, self._jobs)]
        lines = [f"This call would do {sum(map(len, self._jobs.values()))} jobs:", "", *align(rows)]
        lines += ["", self._describe_total(), *self._describe_controls()]
        for reason, runs in sorted(self._group_by_reason().items()):
            lines += ["", f"Runs that exist and are done again, because {reason}:", *shorten_list(sorted(runs))]
        return "\n".join([*lines, *not_done])

    def _estimate(self, recorded_runs: RecordedRuns, recorded_jobs: RecordedJobs) -> dict[str, StageEstimate]:
        estimates = {}
        for stage, jobs in self._jobs.items():
            estimates[stage] = estimate = StageEstimate(stage in MEASURED)
            for job in jobs:
                if stage == RUNS:
                    run = self._plan.runs[_name(job)]
                    expected, limit_min = recorded_runs.expect(run), self._plan.limits_min.get(run.path)
                    if limit_min is not None and expected.seconds is not None:
                        expected = expected._replace(seconds=min(expected.seconds, 60 * limit_min))
                    estimate.add(expected, run.num_gpus)
                else:
                    estimate.add(recorded_jobs.expect(job), job.threads)
        return estimates

    def _describe_stage(self, stage: str) -> tuple[str, ...]:
        jobs, estimate = self._jobs[stage], self._estimates[stage]
        why = self._describe_runs() if stage == RUNS else ", ".join(count(map(self._explain, jobs)))
        expected = describe_duration(estimate.elapsed(self._cores))
        return stage, str(len(jobs)), why, expected, "; ".join(count(estimate.bases.elements()))

    def _describe_runs(self) -> str:
        failed = len(_list_attempted() & set(self._missing))
        words = Counter({"missing": len(self._missing) - failed, "missing after a failed attempt": failed})
        return ", ".join(count((words + Counter(again=len(self._again))).elements()))

    def _describe_controls(self) -> list[str]:
        """Return a line that counts the control runs among the runs to do; nothing without any."""
        runs = [self._plan.runs[_name(job)] for job in self._jobs.get(RUNS, [])]
        controls = sum(run.path in self._plan.studies[run.study].controls for run in runs)
        return [f"Control runs (diagnose): {controls} of the {len(runs)} runs"] if controls else []

    def _explain(self, job: Any) -> str:
        return "missing" if is_missing(job) else self._reasons.explain(job)

    def _group_by_reason(self) -> dict[str, list[str]]:
        """Return the runs that are done again by reason."""
        found = defaultdict(list)
        for job in self._again:
            found[self._reasons.explain_run(job)].append(_name(job))
        return found

    def _describe_total(self) -> str:
        total = self._add_up(self._estimates)
        if total.seconds:
            text = f"Expected: {describe_duration(total)}"
            if RUNS in self._estimates and self._estimates.keys() & set(BEFORE_RUNS):
                text += f"; before the first run: {describe_duration(self._add_up(BEFORE_RUNS))}"
        else:
            text = f"Expected: {UNKNOWN_AT_FIRST}"
            text += f" (time limits: {format_s(total.limit_s)})" if total.limit_s else ""
        if self._plan.machine.is_cluster:
            text += " (one job after the other, without the waits in the queue)"
        used = add_up(estimate.device_time for estimate in self._estimates.values())
        return f"{text}; device-hours: {describe_duration(used, format_h)}"

    def _add_up(self, stages: Iterable[str]) -> Duration:
        return add_up(self._estimates[stage].elapsed(self._cores) for stage in stages if stage in self._estimates)


def describe_gate(dag: Any, persistence: Any) -> str:
    """Say how long the gate takes before the first run, and how to watch it; empty if it has no jobs that take long."""
    jobs = _sort_by_stage(dag.needrun_jobs(exclude_finished=False)).get(GATE, [])
    logs = [f"`results/logs/{rule}/*.log`" for rule in GATE_RULES if any(job.rule.name == rule for job in jobs)]
    if not logs:
        return ""
    estimate, recorded = StageEstimate(is_measured=True), RecordedJobs(dag.jobs, persistence, read_seconds)
    for job in jobs:
        estimate.add(recorded.expect(job), job.threads)
    expected, text = estimate.elapsed(cores=1), f"{len(jobs)} job{'s' if len(jobs) > 1 else ''}"
    is_known = expected.is_complete and not expected.limit_s
    text += f", in about {describe_duration(expected)}" if is_known else f" ({UNKNOWN_YET})"
    return f"Before the first run, the parity gate does {text}. It writes what it does to {' and then to '.join(logs)}."


def _sort_by_stage(jobs: Iterable[Any]) -> dict[str, list]:
    """Return the jobs by stage, in the order of the work. Targets are no jobs for users."""
    by_rule = defaultdict(list)
    for job in jobs:
        by_rule[job.rule].append(job)
    sorted_jobs: dict[str, list] = {stage: [] for stage in dict.fromkeys(STAGES.values())}
    for rule, jobs_of_rule in by_rule.items():
        if stage := resolve_stage(rule):
            sorted_jobs[stage] += jobs_of_rule
    return {stage: found for stage, found in sorted_jobs.items() if found}


def _list_attempted() -> set[str]:
    """Return the paths of the runs with a failed attempt; the files of those attempts are kept."""

    def read(path: Path) -> tuple[str, str]:
        return str(path.parents[1].relative_to(ATTEMPTS)), json.loads(path.read_text())["status"]

    # Another call removes the record when its attempt succeeds.
    attempts = read_each(ATTEMPTS, "*/*/*/*/*/attempt.json", read)
    return {run for run, status in attempts if status not in NOT_ATTEMPTED}


def _name(job: Any) -> str:
    """Return the path of the run that a job of the rule `train` does."""
    return job.wildcards_dict["run"]

"""
What is made from the runs that exist: tables and figures for the target `available`, and the report.

The target `available` starts nothing but the jobs that make tables and figures. A report is written of results that are
up to date, so that no page describes other settings than those its runs were made with.

A run that exists may be stale: a call without `available` would do it again, because its settings, code, data or pins
have changed since. Snakemake's own plan of such a call says which runs these are. They are named when the call begins
and, by way of the plans of their studies, in the tables and answers.
"""

from collections import defaultdict
from typing import Any

from howmanygpus.invocation.closing_message import AVAILABLE, repeat_call
from howmanygpus.invocation.dry_run.reasons import RerunReasons, is_missing
from howmanygpus.invocation.dry_run.summary import PRODUCTS, count, resolve_stage, shorten_list
from howmanygpus.invocation.internals import forget_parameters
from howmanygpus.invocation.modules import find_own_name, give_name

_FOUND: dict[str, dict[str, str]] = defaultdict(dict)
"""Why runs are stale, by study and path."""


def builds_from_existing(workflow: Any) -> bool:
    """Return whether a call builds from what exists. It works once the targets are known. workflow: Snakemake's."""
    return give_name(AVAILABLE) in workflow.dag_settings.targets


def makes_all(workflow: Any, has_default: bool) -> bool:
    """Return whether a call makes the products of every study. It works once the targets are known.

    workflow: Snakemake's. has_default: whether a call without targets is one of `all`.
    """
    targets = workflow.dag_settings.targets
    return bool({give_name("all"), give_name(AVAILABLE)} & set(targets)) or (has_default and not targets)


def record_stale(dag: Any) -> list[str]:
    """Note the runs that exist and that a full call would do again, and return lines that name them.

    dag: Snakemake's plan of the full call.
    """
    by_reason = _list_rerun(dag)
    for reason, runs in by_reason.items():
        for run in runs:
            _FOUND[run.partition("/")[0]][run] = reason
    again = f"only a call without `{AVAILABLE}` does these runs again:"
    return ["\n".join([f"Stale, because {reason}; {again}", *runs]) for reason, runs in _name_runs(by_reason)]


def _list_rerun(dag: Any) -> dict[str, list[str]]:
    """Return the runs that exist and that a plan does again, by reason."""
    reasons, found = RerunReasons(dag, dag.workflow.persistence, is_forced=False), defaultdict(list)
    for job in dag.needrun_jobs(exclude_finished=False):
        if find_own_name(job.rule) == "train" and not is_missing(job):
            found[reasons.explain_run(job)].append(job.wildcards_dict["run"])
    return found


def _name_runs(by_reason: dict[str, list[str]]) -> list[tuple[str, list[str]]]:
    return [(reason, shorten_list(sorted(runs))) for reason, runs in sorted(by_reason.items())]


def refuse_report(dag: Any, command_line: list[str]) -> str:
    """Return why no report is written, with the remedy; empty if all that it shows is up to date.

    dag: Snakemake's plan of the call without --report. The plan of a study, which the report describes, must be up to
    date whatever --rerun-triggers says.
    """
    persistence, targets = dag.workflow.persistence, dag.workflow.dag_settings.targets
    jobs = {job for job in dag.needrun_jobs(exclude_finished=False) if job.output}
    jobs |= {job for job in dag.jobs if find_own_name(job.rule) == "plan_runs" and persistence.params_changed(job)}
    if not jobs:
        return ""
    lines = ["--report: no report is written, because the results are not those of this config."]
    for reason, runs in _name_runs(_list_rerun(dag)):
        lines += [f"Runs that exist and would be done again, because {reason}:", *runs]
    if missing := [job.wildcards_dict["run"] for job in jobs if find_own_name(job.rule) == "train" and is_missing(job)]:
        lines += ["Runs that are missing:", *shorten_list(sorted(missing))]
    lines += [f"Jobs to do: {', '.join(count(job.rule.name for job in jobs))}"]
    call = _drop_report(command_line)
    lines += [f"Do them first, by the same call without --report: {repeat_call('', call, ())}"]
    if AVAILABLE not in targets:
        existing = repeat_call(AVAILABLE, call, targets)
        lines += [f"Or have a report that names stale and missing runs: {existing}, and then the same with --report"]
    return "\n".join(lines)


def _drop_report(command_line: list[str]) -> list[str]:
    kept: list[str] = []
    for before, word in zip(["", *command_line], command_line, strict=False):
        is_file = before == "--report" and not word.startswith("-")
        kept += [] if is_file or word.partition("=")[0] == "--report" else [word]
    return kept


def allow(dag: Any, makes_products: bool) -> None:
    """Allow a plan only the jobs that make tables and figures from what exists, or only all others.

    Nothing is forced on jobs that are not allowed. The parameters of the rule plan_runs name the stale runs, so they
    are computed anew.
    """
    stages = {rule: resolve_stage(rule) for rule in dag.workflow.rules}
    products = {rule.name for rule, stage in stages.items() if stage == PRODUCTS}
    others = {rule.name for rule, stage in stages.items() if stage not in (PRODUCTS, None)}
    dag.rules_allowed_for_needrun = products | {give_name(AVAILABLE)} if makes_products else others
    dag.forcerules = {rule for rule in dag.forcerules if rule.name in products}
    for job in dag.jobs:
        dag.reason(job).clear()
        if find_own_name(job.rule) == "plan_runs":
            forget_parameters(job)


def list_stale(study: str) -> dict[str, str]:
    """Return why runs of a study are stale, by their paths."""
    return _FOUND.get(study, {})

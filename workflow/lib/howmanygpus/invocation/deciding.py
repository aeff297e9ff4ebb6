"""Decides what a study that is adaptive or waits for searches runs next, from its plan and the existing records."""

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from howmanygpus.config.findings import Finding, find_error
from howmanygpus.files import write_json_atomic
from howmanygpus.invocation.passes import PassState, ask_for_another
from howmanygpus.invocation.plans import leave_plans
from howmanygpus.paths import JOBS, STATE
from howmanygpus.site.jobs.ledger import RUN, complete_jobs
from howmanygpus.site.retrying import STARTED
from howmanygpus.study.adaptive.budget import RESERVE
from howmanygpus.study.adaptive.campaign import Campaign, list_campaigns
from howmanygpus.study.adaptive.configurations import Decision, KnownRuns, RunResult
from howmanygpus.study.adaptive.expected_durations import expect_seconds
from howmanygpus.study.adaptive.keys import AUTO
from howmanygpus.study.largest.search import FAILED, GAVE_UP, read_found
from howmanygpus.study.plan import Plan
from howmanygpus.study.runs import Run

DECISIONS = STATE / "decisions"
"""Folder in which the deciding process leaves its decisions for the jobs of a call, one file for each study."""
LIMITS = "limits-min"
"""File with the minutes that budgets have for runs. No study has this name."""
STILL_RUNNING = "By what was measured there is more to do: this call goes on with another pass."
DONE_BY_ANOTHER_CALL = "By what was measured there is more to do: give the same call again."
WAITS = "decided later: when the largest batches that fit are known"
NO_RECORD = "its job left no record; see results/logs/search_batch_size/{name}.log"
LATER, NOT_RUN = "missing", "not_run"
"""Statuses, in the table of runs, of a run that is decided later and of one that is not run."""


def decide_all(plan: Plan) -> dict[str, Decision]:
    """Return the decision about each adaptive study, each study of probes, and each that waits for a search, by name.

    The two studies of a campaign share one decision.
    """
    waiting = postpone_runs(plan)
    # A study of probes waits for the same searches as the study whose probes it has.
    campaigns = [campaign for campaign in list_campaigns(plan) if campaign.study.name not in waiting]
    decisions = {id(campaign): campaign.decide(_gather(campaign)) for campaign in campaigns}
    return waiting | {study.name: decisions[id(campaign)] for campaign in campaigns for study in campaign.studies}


def postpone_runs(plan: Plan) -> dict[str, Decision]:
    """Return a decision for each study with a batch size that is not known yet: all its runs are decided later.

    They are placeholders until the searches of the study are done.
    """
    waiting = [study for study in plan.studies.values() if study.largest and study.largest.is_open]
    return {
        study.name: Decision(
            later={run.path: WAITS for run in study.runs if not run.unsupported and not plan.is_left_out(run)}
        )
        for study in waiting
    }


def list_numbers(plan: Plan) -> frozenset[str]:
    """Return the numbers that this plan takes from searches, as texts that differ if a number does."""
    return frozenset(
        f"{study.name} {series} {size.number}"
        for study in plan.studies.values()
        if study.largest
        for series, size in study.largest.sizes.items()
        if size.limit not in ("open", GAVE_UP)
    )


def record_failed_searches(plan: Plan) -> None:
    """Note the searches that this call could not do, for example because an environment cannot be built.

    A further pass continues with the rest of their studies, and a later call tries them again.
    """
    for name, (search, _) in plan.searches.items():
        if read_found(search.record) is None:
            record = {"bound": search.bound, "call": os.environ.get(STARTED, ""), "largest": 0, "limit": GAVE_UP}
            path = Path(search.record).with_suffix(FAILED)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json_atomic(path, record | {"reason": NO_RECORD.format(name=name), "tries": []})


def _gather(campaign: Campaign) -> KnownRuns:
    # pandas, which these modules import, is loaded only if a study needs a decision.
    from howmanygpus.invocation.run_results import read_ended, sum_device_hours
    from howmanygpus.report.intervals import median_interval

    owners = {study.name: study for study in campaign.studies}
    runs = {run.path: run for run in campaign.runs}

    def find_spec(path: str) -> dict:
        return owners[runs[path].study].spec(runs[path])

    ended = read_ended(runs, find_spec, campaign.study.defaults, os.environ.get(STARTED, ""))
    known = {path: RunResult(status, rate, has_outcome) for path, status, rate, has_outcome in ended}
    if campaign.rules.budget_device_h is None:
        return KnownRuns(known, find_interval=median_interval)
    machine = campaign.plan.machine
    billing = {name: found for name in machine.devices if (found := machine.billing(name))}
    jobs: dict[str, dict] = {}
    for study in campaign.studies:
        before, completed = complete_jobs(JOBS / RUN / study.name)
        jobs |= {str(path): record for path, record in (before | completed).items()}
    used_device_h = sum_device_hours(jobs, billing)
    return KnownRuns(known, used_device_h, _expect_hours(campaign, known, billing), median_interval)


def _expect_hours(
    campaign: Campaign, tried: Collection[str], billing: dict[str, dict]
) -> Callable[[str], float | None]:
    """Return a function from a run's path to the device-hours that it is expected to need, as they are billed."""
    expect, runs = expect_seconds(campaign, tried), {run.path: run for run in campaign.runs}

    @cache
    def expect_hours(path: str) -> float | None:
        seconds = expect(runs[path])
        return None if seconds is None else seconds / 3600 * _count_devices(campaign.plan, runs[path], billing)

    return expect_hours


def _count_devices(plan: Plan, run: Run, billing: dict[str, dict]) -> float:
    """Return how many devices are billed for a run."""
    from howmanygpus.report.accounting import bill

    num_nodes, prices = plan.machine.count_nodes(run), billing.get(run.device)
    return bill(1.0, run.num_gpus, num_nodes, prices)["billed_device_hours"] if prices else run.num_gpus


def apply_decisions(plan: Plan, is_job: bool) -> None:
    """Give a plan its decisions. A job on a cluster only gets the time that budgets have for its run."""
    if is_job:
        plan.limits_min = json.loads((DECISIONS / LIMITS).read_text()) if (DECISIONS / LIMITS).exists() else {}
        return
    plan.decisions = decide_all(plan)
    plan.limits_min = limit_runs(plan, plan.decisions)


def end_pass(plan: Plan, say: Callable[[str], None], is_last: bool, has_failed: bool = False) -> bool:
    """Decide again at the end of a pass, and let another one follow if there is more to do; return whether there is.

    is_last: whether none may follow, because the user interrupted the call or wants it to end with the first failure.
    has_failed: whether a step failed, so that requested searches may be missing.
    """
    if is_last or not (plan.decisions or plan.searches):
        return False
    if has_failed:
        record_failed_searches(plan)
    is_followed = compute_pass_state(plan.decisions, list_numbers(plan)).is_followed_by(_compute_pass_state_now(plan))
    if is_followed:
        say(STILL_RUNNING if ask_for_another(has_failed) else DONE_BY_ANOTHER_CALL)
    return is_followed


def _compute_pass_state_now(plan: Plan) -> PassState:
    """Return the standing according to the records that exist now. New results of searches make a new plan."""
    now = plan.plan_again() if plan.searches else plan
    return compute_pass_state(decide_all(now), list_numbers(now))


def compute_pass_state(decisions: Mapping[str, Decision], numbers: Iterable[str] = ()) -> PassState:
    """Return the standing of a plan. numbers: those from searches, see list_numbers."""
    asked = {run for decision in decisions.values() for run in (*decision.go, *decision.done)}
    undecided = frozenset(study for study, decision in decisions.items() if not decision.is_final)
    return PassState(frozenset([*asked, *numbers]), undecided)


def refuse_overspending(plan: Plan, jobs: Iterable[Any]) -> list[Finding]:
    """Return an error for each budget that has no room for runs that exist and would be done again.

    jobs: those of Snakemake that this call does.
    """
    found, training = [], [job for job in jobs if job.rule.name == "train"]
    again = {job.wildcards_dict["run"] for job in training if Path(job.output[0]).exists()}
    for campaign in list_campaigns(plan):
        budget, own = campaign.rules.budget_device_h, {run.path for run in campaign.runs} & again
        if budget is None or not own:
            continue
        known, going = _gather(campaign), set(plan.decisions[campaign.study.name].go)
        need = sum(known.expect(run) or 0.0 for run in own | going)
        if known.used_device_h + RESERVE * need > budget:
            problem = f"device-hours, {known.used_device_h:.3g} of them used, have no room for {len(own)} runs that "
            problem += f"exist and would be done again, which need about {need:.2g} and a reserve of a quarter"
            remedy = "raise it, or keep the runs as they are with --rerun-triggers mtime"
            found.append(find_error(f"{campaign.study.place}.budget_device_h", f"{budget:g}", problem, remedy))
    return found


def limit_runs(plan: Plan, decisions: dict[str, Decision]) -> dict[str, float]:
    """Return the minutes that the budget has for each run that is done now."""
    billing = {name: found for name in plan.machine.devices if (found := plan.machine.billing(name))}
    return {
        path: 60 * hours / _count_devices(plan, plan.runs[path], billing)
        for decision in decisions.values()
        for path, hours in decision.allowed_device_h.items()
    }


def find_file(study: str) -> str:
    """Return the file in which write_decisions writes about a study."""
    return str(DECISIONS / f"{study}.json")


def hash_decision(plan: Plan, study: str) -> str:
    """Return the hash of the content that write_decisions writes about a study."""
    text = json.dumps(describe_decision(plan, study, plan.decisions[study]), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def describe_decision(plan: Plan, study: str, decision: Decision) -> dict:
    """Return the decision for tables and answers of a study: status and reason of each run without an outcome.

    Runs that this call does are missing until they have one. With `repeats: auto`, the decision also has the spare
    repeats, and cause and reason of each configuration that is not repeated further.
    """
    words = [(LATER, decision.later), (NOT_RUN, decision.not_run)]
    runs = {
        path: [status, reason.removeprefix("not run: ")]
        for status, reasons in words
        for path, reason in reasons.items()
        if plan.runs[path].study == study and path not in decision.spare
    }
    campaigns = list_campaigns(plan)
    owner = next((each for each in campaigns if study in [member.name for member in each.studies]), None)
    told: dict[str, Any] = {"runs": runs, "budget_device_h": owner.rules.budget_device_h if owner else None}
    if owner and owner.study.name != study:
        return told | {"probes_of": owner.study.name}
    if plan.studies[study].config["repeats"] == AUTO:
        told |= {"spare": sorted(decision.spare), "repeats_ended": dict(sorted(decision.repeats_ended.items()))}
    return told


def write_decisions(plan: Plan) -> None:
    """Write all plans and decisions, and the limits that budgets set, where the jobs of this call find them."""
    leave_plans(plan)
    if not plan.decisions:
        return
    DECISIONS.mkdir(parents=True, exist_ok=True)
    write_json_atomic(DECISIONS / LIMITS, dict(plan.limits_min))
    for study, decision in plan.decisions.items():
        write_json_atomic(Path(find_file(study)), describe_decision(plan, study, decision))

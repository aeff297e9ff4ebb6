"""What is not sure about a recommendation, each with what to run next."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import log2
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from howmanygpus.report.answer.candidates import Candidate, Goal
from howmanygpus.report.answer.names import CONFIGURATION
from howmanygpus.report.drift import choose_unit, compute_relative_rates, describe_drift, measure_drift
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.outcomes import has_failed
from howmanygpus.report.rows import choose_inputs, is_program, name_count, name_own_rates
from howmanygpus.report.trajectory import has_unexplained_losses

LINEAR = 1.05
"""Efficiency above which a speed-up counts as more than linear."""
ENOUGH_REPEATS = 3
UNFINISHED = ("missing", "running", "interrupted", "preempted", "node_failed", "cancelled")
"""Statuses of runs that the next call does."""
LONGEST_REASON = 80
"""Characters of the reason of a failure; runs.tsv has all of it."""
RETRY = ".venv/bin/python workflow/scripts/retry_runs.py"

Facts = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """What a recommendation is based on.

    found: all configurations with a result; unequal: those of them whose quality is worse. chosen: the recommended one;
    None without. by_count: the fastest of each device count. guess: the quality of a guess; nan if it is not known.
    margin: of the quality. worth_doubling: gain that a doubling must bring; None if it decides nothing. cause: see
    details.read_cause; None if nothing larger was explained.
    """

    runs: pd.DataFrame
    times: pd.DataFrame
    goal: Goal
    found: list[Candidate]
    unequal: list[Candidate]
    chosen: Candidate | None
    by_count: dict[int, Candidate]
    guess: float
    margin: float
    worth_doubling: float | None
    cause: Facts | None

    @property
    def named(self) -> list[Candidate]:
        return [each for each in (self.chosen, *self.by_count.values()) if each]

    @property
    def is_any_done(self) -> bool:
        return bool((self.runs["status"] == "completed").any())


def list_doubts(case: Case) -> list[Facts]:
    """Return what is not sure, the gravest first, each with lines of config or a command to run next."""
    rules = (_doubt_runs, _doubt_work, _doubt_chosen, _doubt_quality, _doubt_hosts, _doubt_lacking, _doubt_edges)
    return [
        {"kind": kind, "text": text, "run_next": run_next}
        for rule in rules
        for kind, text, *run_next in rule(case)
    ]


Doubts = Iterable[tuple[str, ...]]
"""Kind, text, and what to run next."""


def _doubt_runs(case: Case) -> Doubts:
    """Stale and disturbed runs."""
    runs = case.runs
    stale = runs["status"].eq("stale") | runs["stale_because"].notna()
    if stale.any():
        named = {run_dir for each in case.named for run_dir in each.run_dirs}
        scope = ", also of configurations named here" if runs.loc[stale, "run_dir"].isin(named).any() else ""
        text = f"Stale, made with other settings, code or data: {name_count(int(stale.sum()), 'run')}{scope}."
        yield "stale", f"{text} A call without the target available repeats them."
    num_disturbed = int(runs["disturbed"].eq(True).sum())
    if num_disturbed:
        is_named = any(each.num_disturbed for each in case.named)
        scope = ", also of configurations named here" if is_named else ", none of them named here"
        text = f"Disturbed by other work: {num_disturbed} of {name_count(len(runs), 'run')}{scope}."
        yield "disturbed", text, f"{RETRY} --disturbed --study {runs['study'].iloc[0]}"


def _doubt_work(case: Case) -> Doubts:
    """Runs that may not have done the same work."""
    runs = case.runs
    compared = runs[runs["trajectory"].notna()]
    apart = compared[has_unexplained_losses(compared)]
    if len(apart):
        names = ", ".join(sorted(apart["framework"].unique()))
        yield (
            "unequal_work",
            f"Losses of the first epoch differ by more than rounding explains in {len(apart)} of "
            f"{name_count(len(compared), 'run')} ({names}): they did not do the same work.",
        )
    if case.is_any_done and (runs["parity"] == "not_checked").any() and not is_program(runs):
        yield "unchecked", "The parity gate did not check all runs.", "parity: required"


def _doubt_chosen(case: Case) -> Doubts:
    """Few repeats, a gain that is near the rule, and a baseline that flatters."""
    chosen = case.chosen
    if chosen:
        more = [f"repeats: {ENOUGH_REPEATS}"] if chosen.names["num_planned"] < ENOUGH_REPEATS else []
        if chosen.num_repeats == 1:
            yield "one_repeat", "One repeat of the recommended configuration counts: chance may decide.", *more
        elif chosen.num_repeats < ENOUGH_REPEATS:
            yield "few_repeats", f"{chosen.num_repeats} repeats give no narrow interval.", *more
        if len(case.found) == 1:
            yield "nothing_compared", "Nothing is compared: no other configuration has a result."
    first = next(iter(case.by_count.values()), None)
    for each in case.by_count.values():
        if first and each is not first and each.gain_over(first).median > LINEAR * each.num_gpus / first.num_gpus:
            again = f"repeats: {2 * max(ENOUGH_REPEATS, each.names['num_planned'])}"
            yield "superlinear", f"{each} is more than linearly faster: doubt its baseline, {first}.", again
            break
    if chosen and case.worth_doubling is not None:
        for smaller, larger in _list_steps(case.by_count, chosen):
            gain, needed = larger.gain_over(smaller), case.worth_doubling ** log2(larger.num_gpus / smaller.num_gpus)
            if gain.low <= needed <= gain.high:
                again = f"repeats: {2 * max(ENOUGH_REPEATS, larger.names['num_planned'])}"
                is_taken = larger.num_gpus <= chosen.num_gpus
                text = (
                    f"{larger} is {gain.median:.2f} ({gain.low:.2f} to {gain.high:.2f}) x as fast as {smaller}: "
                    f"{'perhaps not' if is_taken else 'perhaps'} the {needed:.3g} x that it must be."
                )
                yield "near_the_rule", text, again


def _list_steps(by_count: dict[int, Candidate], chosen: Candidate) -> list[tuple[Candidate, Candidate]]:
    """Return the step to the recommended device count, and the one beyond, as pairs of configurations."""
    below = [each for count, each in by_count.items() if count < chosen.num_gpus]
    above = [each for count, each in by_count.items() if count > chosen.num_gpus]
    return [(each, chosen) for each in below[-1:]] + [(chosen, each) for each in above[:1]]


def _doubt_quality(case: Case) -> Doubts:
    """Qualities that are no better than a guess, lost again, worse, unknown, or short of the target."""
    goal, chosen = case.goal, case.chosen
    metric = name_metric(goal.metric) if goal.metric else ""
    sign = 1 if goal.better == "higher" else -1
    if chosen and chosen.qualities and sign * (fmean(chosen.qualities) - case.guess) <= 0:
        text = f"It ends at {metric} {fmean(chosen.qualities):.3g}, no better than a guess ({case.guess:.3g})"
        yield "no_better_than_a_guess", f"{text}: compare labels and learning rate with a training that learns."
    if chosen and chosen.num_lost:
        text = f"In {chosen.num_lost} of {name_count(chosen.num_repeats, 'repeat')} of the recommended configuration"
        yield "lost_target", f"{text} the last evaluation misses {metric} {goal.threshold:g} again."
    if case.unequal:
        worse = ", ".join(f"{each} ({fmean(each.qualities):.3g})" for each in case.unequal)
        equal = [each for each in case.found if each.qualities and each not in case.unequal]
        best = max((fmean(each.qualities) for each in equal), key=lambda quality: sign * quality)
        yield "unequal_quality", f"Set apart, worse than {metric} {best:.3g} by more than {case.margin:g}: {worse}."
    unknown = [each for each in case.found if not each.qualities]
    if goal.metric and unknown:
        rows = case.runs[case.runs["run_dir"].isin([path for each in unknown for path in each.run_dirs])]
        why = _name_reason(rows)
        names = ", ".join(map(str, unknown))
        yield "no_quality", f"No {metric} is known of {names}{why}."
    if case.found and len(case.times) and not goal.is_target:
        never = list_unreached(case.times)
        every = len(never) == case.times["threshold"].nunique()
        who = f"run reached {metric} {', '.join(f'{each:g}' for each in never)}"
        some = f"configuration reached a threshold of {metric} in all its repeats"
        yield "no_target", f"No {who if every else some}; the rate decides."
    if goal.is_target and (missed := _word_missed(case.times, goal)):
        yield "missed_target", f"Left out, {metric} {goal.threshold:g} not reached in all repeats: {missed}."


def list_unreached(times: pd.DataFrame) -> list[float]:
    """Return the thresholds that no run reached."""
    reached = times.groupby("threshold")["reached"].any()
    return [float(threshold) for threshold in reached[~reached.astype(bool)].index]


def _word_missed(times: pd.DataFrame, goal: Goal) -> str:
    """Name the configurations whose completed repeats did not all reach the goal; empty without any."""
    short = times[(times["threshold"] == goal.threshold) & times["status"].eq("completed") & ~times["reached"].eq(True)]
    configurations = short.drop_duplicates(CONFIGURATION)
    names = ", ".join(configurations["framework"].unique())
    return f"{name_count(len(configurations), 'configuration')} of {names}" if names else ""


def _doubt_hosts(case: Case) -> Doubts:
    """Devices or hosts that were not in order, outliers and a drift."""
    runs = case.runs
    unhealthy = runs[runs["health"].notna()]
    if len(unhealthy):
        them = name_count(len(unhealthy), "run")
        text = f"Devices or hosts of {them} were not in order: {unhealthy['health'].value_counts().index[0]}"
        yield "health", text, f"{RETRY} --unhealthy --study {runs['study'].iloc[0]}"
    outliers = runs[runs["is_outlier"].eq(True)]
    if len(outliers):
        names = ", ".join(sorted(set(outliers["framework"])))
        yield "outliers", f"Far from the rates of the other repeats: {name_count(len(outliers), 'run')} of {names}."
    drift = measure_drift(compute_relative_rates(choose_inputs(runs)))
    if drift is not None and drift.is_trend:
        change, (unit, per_hour) = "rose" if drift.change > 0 else "fell", choose_unit(drift.hours)
        text = f"Rates {change} by {abs(drift.change):.1%} in {drift.hours * per_hour:.2g} {unit}"
        yield "drift", f"{text} ({describe_drift(drift)}): the machine changed while it was measured."


def _doubt_lacking(case: Case) -> Doubts:
    """Runs without a result, and what they may hide."""
    runs = case.runs
    unfinished = runs["status"].isin(UNFINISHED)
    if unfinished.any() and case.is_any_done:
        them = name_count(len(runs), "run")
        yield "unfinished", f"Not done yet: {int(unfinished.sum())} of {them}; the same call does them."
    is_done = runs.groupby("framework", sort=False)["status"].transform(lambda own: own.eq("completed").any())
    for framework, own in runs[~is_done].groupby("framework", sort=False):
        tried = own[own["status"] != "missing"]
        if len(tried):
            text = f"{framework} has no completed run: {count_statuses(tried)}{_name_reason(tried)}."
            yield "absent_framework", text
    failed = runs[has_failed(runs["status"]) & is_done]
    if len(failed):
        text = f"{name_count(len(failed), 'run')} failed ({count_statuses(failed)}); their configurations are not ranked"
        faster = _list_faster(case, failed)
        also = f", although other repeats of {', '.join(faster)} are faster than all that are" if faster else ""
        yield "failed", f"{text}{also}."


def count_statuses(runs: pd.DataFrame) -> str:
    return ", ".join(f"{n} {status.replace('_', ' ')}" for status, n in runs["status"].value_counts().items())


def _name_reason(runs: pd.DataFrame) -> str:
    """Write the most frequent reason in brackets, cut if it is long; empty if none is known."""
    reasons = runs["reason"].dropna().value_counts()
    reasons = reasons[reasons.index != ""]
    if reasons.empty:
        return ""
    reason = str(reasons.index[0])
    return f" ({reason if len(reason) <= LONGEST_REASON else reason[: LONGEST_REASON - 4] + ' ...'})"


def _list_faster(case: Case, failed: pd.DataFrame) -> list[str]:
    """Return the configurations with failed repeats whose other repeats have a higher rate than all candidates."""
    best = max((np.median(each.rates) for each in case.found if each.rates), default=np.inf)
    names = failed[CONFIGURATION].drop_duplicates()
    done = case.runs[case.runs["status"] == "completed"].merge(names)
    rates = done.groupby(["num_gpus", "device", "framework", "per_device_batch_size"])["images_per_s"].median()
    faster = rates[rates.astype(float) > best]
    return [f"{count} x {device} {framework} x {size}" for count, device, framework, size in faster.index]


def _doubt_edges(case: Case) -> Doubts:
    """What would have to be measured to know more."""
    chosen, runs = case.chosen, case.runs
    if chosen and case.cause and case.cause["run_next"]:
        text = "Why more devices gain less is not all known: runs with resident input and without exchange would tell."
        yield "cause_unknown", text, case.cause["run_next"]
    if rates := name_own_rates(runs):
        yield "own_rates", f"Not all frameworks learn by the same settings, and their order compares these too: {rates}."
    if not chosen:
        return
    measured = sorted(case.by_count)
    if len(measured) > 1 and chosen.num_gpus == measured[-1] == runs["num_gpus"].max():
        yield "edge_of_counts", "More devices than measured may pay.", f"num_gpus: {[*measured, 2 * measured[-1]]}"
    # Under strong scaling other counts have other batches per device.
    same = runs[runs["num_gpus"] == chosen.num_gpus]
    sizes = sorted(int(size) for size in same["per_device_batch_size"].unique())
    if chosen.names["per_device_batch_size"] == sizes[-1] and len(sizes) > 1:
        more = f"per_device_batch_size: {[*sizes, 2 * sizes[-1]]}"
        yield "edge_of_batches", "A larger batch than measured may be faster.", more

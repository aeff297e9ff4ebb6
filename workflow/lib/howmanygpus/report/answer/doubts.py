"""What is not sure about a recommendation, each with what to run next."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

import numpy as np
import pandas as pd

from howmanygpus.clone import name_script
from howmanygpus.measure.spec import RANDOM_INPUTS
from howmanygpus.report.answer.candidates import Candidate, Goal, name_configuration, name_series, walk
from howmanygpus.report.answer.details import compare_trajectories
from howmanygpus.report.answer.names import OF_STUDY
from howmanygpus.report.columns import SERIES, list_columns
from howmanygpus.report.drift import choose_unit, compute_relative_rates, describe_drift, measure_drift
from howmanygpus.report.equivalence import ROUNDING, exceeds
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.outcomes import IDENTITY, has_failed
from howmanygpus.report.rows import choose_inputs, is_program, name_own_rates
from howmanygpus.report.words import word
from howmanygpus.site.jobs.attempts import NOT_COMPARED

LINEAR = 1.05
"""Efficiency above which a speed-up counts as more than linear."""
ENOUGH_REPEATS = 3
BATCH_SIZES = ("per_device_batch_size", "global_batch_size")
UNFINISHED = (
    *("missing", "running", "interrupted", "preempted", "node_failed", "cancelled"),
    *("refused", "blocked", "disk_full"),
)
"""Statuses of runs that the next call does."""
NOT_DONE_AGAIN = ("failed_parity", "suspended")
"""Statuses of runs that say nothing about their configuration, and that no further call does."""
UNEQUAL_FRAC = 0.02
"""Difference of images, or of a program's samples, from which on runs are of different length."""
WASTED_FRAC = 0.05
"""Part of the billed hours of a configuration from which on its failed attempts are named."""
RETRY = "retry_runs"
"""The script that has the next call repeat runs."""

Facts = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """What a recommendation is based on.

    found: all configurations with a result; unequal: those of them whose quality is worse. chosen: the recommended one;
    None without. alternatives: those that are named beside it. by_count: the fastest of each device count, and the
    recommended one. unproven: what failed the parity gate and was trained. guess: the quality of a guess; nan if it is
    not known. last: the one beyond which more may be asked for, which is the recommended one or, if a deadline is
    missed, the fastest. margin: of the quality. worth_doubling: gain that a doubling must bring; None if a deadline
    decides. deadline_h, budget: None without. models_of_one_price: of devices, if there are several. networks: those
    with a finding, for each number of devices and nodes, the recommended one first, then the baseline's.
    """

    runs: pd.DataFrame
    times: pd.DataFrame
    goal: Goal
    found: list[Candidate]
    unequal: list[Candidate]
    chosen: Candidate | None
    alternatives: list[Candidate]
    by_count: dict[int, Candidate]
    unproven: list[str]
    guess: float
    margin: float
    worth_doubling: float | None
    deadline_h: float | None
    budget: float | None
    last: Candidate | None
    models_of_one_price: list[str]
    networks: list[Facts]

    @property
    def named(self) -> list[Candidate]:
        return [each for each in (self.chosen, *self.alternatives, *self.by_count.values()) if each]

    @property
    def is_any_done(self) -> bool:
        return bool((self.runs["status"] == "completed").any())


def list_doubts(case: Case) -> list[Facts]:
    """Return what is not sure, the gravest first, each with lines of config or a command to run next."""
    rules = (
        _doubt_faster,
        _doubt_runs,
        _doubt_work,
        _doubt_versions,
        _doubt_chosen,
        _doubt_quality,
        _doubt_hosts,
        _doubt_lacking,
        _doubt_edges,
    )
    return [
        {"kind": kind, "text": word("doubts", kind, **facts), "facts": facts, "run_next": run_next}
        for rule in rules
        for kind, facts, *run_next in rule(case)
    ]


def find_next(case: Case, is_open: bool) -> Facts | None:
    """Return what to run next if no doubt says it; None if one does, or without a recommendation.

    is_open: whether a doubt or the reason for no more devices has something to run next. The kind is what the study has
    measured one of only, or that there is nothing to run.
    """
    if case.chosen is None or is_open:
        return None
    counts = sorted(case.by_count)
    sizes = sorted(
        int(size) for size in case.runs.loc[case.runs["num_gpus"] == counts[0], "per_device_batch_size"].unique()
    )
    kind, line = "nothing_to_run", None
    if case.runs["num_gpus"].nunique() == 1:
        kind, line = "one_count", f"num_gpus: {[*counts, 2 * counts[-1]]}"
    elif len(sizes) == 1:
        kind, line = "one_batch", f"per_device_batch_size: {[*sizes, 2 * sizes[-1]]}"
    return {"kind": kind, "text": word("doubts", kind), "run_next": line}


Doubts = Iterable[tuple[Any, ...]]
"""Kind and facts, whose sentence is in workflow/report/templates/doubts.jinja, and what to run next."""


def _doubt_faster(case: Case) -> Doubts:
    """Configurations that were set apart, if one would be recommended otherwise, or if nothing is recommended."""
    worse = _find_worse(case)
    if worse and _is_decisive(case, worse):
        yield "unequal_quality", worse


def _doubt_runs(case: Case) -> Doubts:
    """Stale and disturbed runs."""
    runs = case.runs
    stale = runs["status"].eq("stale") | runs["stale_because"].notna()
    if stale.any():
        named = {run_dir for each in case.named for run_dir in each.run_dirs}
        is_named = bool(runs.loc[stale, "run_dir"].isin(named).any())
        yield "stale", {"num_runs": int(stale.sum()), "is_named": is_named} | _find_recommended(case, stale)
    num_disturbed = int(runs["disturbed"].eq(True).sum())
    if num_disturbed:
        is_named = any(each.num_disturbed for each in case.named)
        facts = {"num_disturbed": num_disturbed, "num_runs": len(runs), "is_named": is_named}
        facts |= _find_recommended(case, runs["disturbed"].eq(True))
        facts["num_left"] = case.chosen.num_repeats if case.chosen else 0
        yield "disturbed", facts, f"{name_script(RETRY)} --disturbed --study {runs['study'].iloc[0]}"


def _find_recommended(case: Case, is_affected: pd.Series) -> Facts:
    """Return whether a run of the recommended configuration is among some runs, as a fact; None if there is none."""
    if case.chosen is None:
        return {"is_recommended": None}
    own = case.runs[OF_STUDY] == [case.chosen.names[name] for name in OF_STUDY]
    return {"is_recommended": bool((own.all(axis=1) & is_affected).any())}


def _doubt_work(case: Case) -> Doubts:
    """Runs that may not have done the same work."""
    runs = case.runs
    if case.is_any_done and runs["input"].isin(RANDOM_INPUTS).all():
        yield "random_images", {"inputs": sorted(runs["input"].unique())}
    losses = compare_trajectories(runs)
    if losses and losses["num_apart"]:
        yield "unequal_work", losses
    if losses and losses["unstable_after_step"] is not None:
        yield "unstable_training", {"last_step": losses["unstable_after_step"]}
    if ended := _find_unequal_ends(case):
        yield "unequal_ends", ended
    unended = runs["unended_checkpoint"].dropna()
    if len(unended):
        facts = {"num_runs": len(unended), "step": int(unended.iloc[0])}
        yield "unended_checkpoint", facts | _find_recommended(case, runs["unended_checkpoint"].notna())
    if case.unproven:
        yield "unproven", {"frameworks": case.unproven, "is_recommended": (runs["parity"] == "failed").any().item()}
    if case.is_any_done and (runs["parity"] == "not_checked").any() and not is_program(runs):
        yield "unchecked", {}, "parity: required"
    if compared_in_part := _find_not_compared(runs):
        yield "compared_in_part", compared_in_part


def _find_not_compared(runs: pd.DataFrame) -> Facts | None:
    """Return which frameworks passed the parity gate with parts that it could not compare, and these parts."""
    parts = pd.Series([str(verdict).partition(NOT_COMPARED)[2] for verdict in runs["parity"]], runs.index, dtype=object)
    left = parts[parts.ne("")].unique().tolist()
    return {"frameworks": runs.loc[parts.ne(""), "framework"].unique().tolist(), "parts": left} if left else None


def _find_unequal_ends(case: Case) -> Facts | None:
    """Return how many runs of a program ended before steps that it announced, or after others than their repeats."""
    runs = case.runs[case.runs["status"] == "completed"]
    if not is_program(case.runs) or runs.empty:
        return None
    seen = runs.groupby(OF_STUDY, dropna=False)["images_seen"]
    num_unequal = int((seen.max() > seen.min() * (1 + UNEQUAL_FRAC)).sum())
    is_short = runs["missing_steps"].fillna(0) > 0
    if not num_unequal and not is_short.any():
        return None
    return {"num_short": int(is_short.sum()), "num_unequal": num_unequal}


def _doubt_versions(case: Case) -> Doubts:
    """Runs of one framework and variant with different software, which medians and ratios mix."""
    done = case.runs[case.runs["status"] == "completed"]
    found, num_mixed = {}, 0
    for (framework, _), runs in done.groupby(["framework", "variant"], sort=False):
        if different := _list_versions(runs):
            found[framework] = different
            configurations = runs.groupby(OF_STUDY, dropna=False, sort=False)
            num_mixed += sum(bool(_list_versions(repeats)) for _, repeats in configurations)
    if found:
        command = f"{name_script(RETRY)} --status completed --study {done['study'].iloc[0]}"
        yield "mixed_versions", {"versions": found, "num_mixed": num_mixed}, command


def _list_versions(runs: pd.DataFrame) -> dict[str, list[str]]:
    """Return the packages, Python and driver of which runs had several versions, with these."""
    seen: dict[str, set[str]] = {}
    for text in runs["framework_version"].dropna().unique():
        words = str(text).split()
        for package, version in zip(words[::2], words[1::2], strict=False):
            seen.setdefault(package, set()).add(version)
    for name, column in (("Python", "python_version"), ("driver", "driver_version")):
        seen[name] = set(runs[column].dropna().astype(str))
    return {name: sorted(versions) for name, versions in seen.items() if len(versions) > 1}


def _list_frameworks(runs: pd.DataFrame) -> list[str]:
    return sorted(runs["framework"].unique())


def _doubt_chosen(case: Case) -> Doubts:
    """Few repeats, a gain that is near the rule, and a baseline that flatters."""
    chosen = case.chosen
    if chosen:
        more = [f"repeats: {ENOUGH_REPEATS}"] if chosen.names["num_planned"] < ENOUGH_REPEATS else []
        if chosen.num_repeats == 1:
            yield "one_repeat", {}, *more
        elif chosen.num_repeats < ENOUGH_REPEATS:
            yield "few_repeats", {"num_repeats": chosen.num_repeats}, *more
        if len(case.found) == 1:
            yield "nothing_compared", {}
    yield from _doubt_limits(case)
    if wasted := _measure_waste(case):
        yield "failed_attempts", {"parts": wasted}
    if case.models_of_one_price:
        yield "one_price", {"models": case.models_of_one_price}
    others = [each for each in case.found if chosen and each is not chosen and each not in case.unequal]
    hidden = [each for each in others if chosen and each.is_hidden_by_evaluations(chosen)]
    if hidden:
        yield "coarse_evaluations", {"configurations": list(map(str, hidden))}, *_evaluate_more(case)
    first = next(iter(case.by_count.values()), None)
    if chosen and first and chosen.num_gpus > first.num_gpus and _lacks_own_baseline(case, chosen, first.num_gpus):
        facts = {"series": chosen.names["series"], "num_gpus": first.num_gpus, "baseline": str(first)}
        yield "other_baseline", facts
    if chosen and (lacking := _list_lacking_batches(case, chosen)):
        yield "lacking_batches", {"lacking": lacking}
    for each in case.by_count.values():
        # Another series may be faster for a reason of its own.
        is_own = first and each is not first and each.series == first.series
        if first and is_own and first.duration / each.duration > LINEAR * each.num_gpus / first.num_gpus:
            yield "superlinear", {"configuration": str(each), "baseline": str(first)}, _repeat_twice(each)
            break
    if chosen and case.worth_doubling is not None:
        for smaller, larger in _list_steps(case.by_count, chosen, case.worth_doubling):
            gain, needed = larger.gain_over(smaller), larger.need_over(smaller, case.worth_doubling)
            if gain.low <= needed <= gain.high:
                facts = {"larger": str(larger), "smaller": str(smaller), "needed": needed, "gain": gain.median}
                facts |= {"low": gain.low, "high": gain.high, "is_taken": larger is chosen}
                yield "near_the_rule", facts, _repeat_twice(larger)


def _measure_waste(case: Case) -> dict[str, float]:
    """Return the part of failed attempts in the billed hours of priced configurations that are named, if it counts."""
    parts = {}
    for candidate in case.named:
        own = pd.Series({name: candidate.names[name] for name in OF_STUDY})
        runs = case.runs[(case.runs[OF_STUDY] == own).all(axis=1)]
        failed, billed = (
            runs[name].astype(float).sum() for name in ("failed_billed_device_hours", "billed_device_hours")
        )
        if candidate.costs and failed > WASTED_FRAC * billed:
            parts[str(candidate)] = float(failed / billed)
    return parts


def _evaluate_more(case: Case) -> list[str]:
    """Return the line of config with which evaluations are half as far apart; none below an epoch."""
    reached = case.times[case.times["reached"].eq(True)]
    passed = 1 - reached["missed_images"].astype(float) / reached["images_seen"].astype(float)
    spacing = round((reached["epoch"].astype(float) * passed).min())
    return [f"eval_every_epochs: {spacing // 2}"] if spacing >= 2 else []


def _doubt_limits(case: Case) -> Doubts:
    """Repeats beyond a deadline or a budget that the median keeps."""
    chosen = case.chosen
    if not chosen:
        return
    walls, costs = (np.array(values) for values in (chosen.walls, chosen.costs))
    late = int((walls > 3600 * case.deadline_h).sum()) if case.deadline_h is not None else 0
    dear = int((costs > case.budget).sum()) if case.budget is not None else 0
    for limit, number in (("deadline", late), ("budget", dear)):
        if number:
            yield "beyond_the_limit", {"limit": limit, "number": number, "num_repeats": chosen.num_repeats}


def _lacks_own_baseline(case: Case, chosen: Candidate, num_gpus: int) -> bool:
    """Whether the recommended series has no result on the fewest devices that counts."""
    on_fewest = [each for each in case.found if each.num_gpus == num_gpus and each.is_trusted]
    return all(each.series != chosen.series for each in on_fewest)


def _list_lacking_batches(case: Case, chosen: Candidate) -> list[Facts]:
    """Return the batches of the recommended series that one of two compared device counts was not planned with.

    Under strong scaling, other counts have other batches per device, and the same global ones. Why no more devices is
    said elsewhere if they lack a larger batch.
    """
    own = case.runs[(case.runs[list_columns(SERIES)] == chosen.series).all(axis=1)]
    lacking: list[Facts] = []
    for other in case.by_count.values():
        pair = [own[own["num_gpus"] == each.num_gpus] for each in (chosen, other)]
        sizes, global_sizes = ([set(runs[name]) for runs in pair] for name in BATCH_SIZES)
        if other.series != chosen.series or global_sizes[0] == global_sizes[1]:
            continue
        size, others = (each.names["per_device_batch_size"] for each in (chosen, other))
        if others not in sizes[0]:
            lacking.append({"size": int(others), "num_gpus": chosen.num_gpus})
        if size not in sizes[1] and (other.num_gpus < chosen.num_gpus or size < others):
            lacking.append({"size": int(size), "num_gpus": other.num_gpus})
    return [each for place, each in enumerate(lacking) if each not in lacking[:place]]


def _repeat_twice(candidate: Candidate) -> str:
    return f"repeats: {2 * max(ENOUGH_REPEATS, candidate.names['num_planned'])}"


def _list_steps(
    by_count: dict[int, Candidate], chosen: Candidate, worth_doubling: float
) -> list[tuple[Candidate, Candidate]]:
    """Return the step to the recommended device count, and those beyond it, as pairs of configurations."""
    below = {count: each for count, each in by_count.items() if count < chosen.num_gpus}
    above = [each for count, each in by_count.items() if count > chosen.num_gpus]
    return ([(walk(below, worth_doubling), chosen)] if below else []) + [(chosen, each) for each in above]


def _doubt_quality(case: Case) -> Doubts:
    """Qualities that are no better than a guess, lost again, worse, unknown, or short of the target."""
    goal, chosen = case.goal, case.chosen
    if goal.metric is None:
        return
    metric = {"metric": name_metric(goal.metric)}
    sign = 1 if goal.better == "higher" else -1
    if chosen and chosen.qualities and sign * (fmean(chosen.qualities) - case.guess) <= _compute_tolerance(case):
        yield "no_better_than_a_guess", metric | {"quality": fmean(chosen.qualities), "guess": case.guess}
    if chosen and chosen.num_lost:
        counts = {"num_lost": chosen.num_lost, "num_repeats": chosen.num_repeats}
        yield "lost_target", metric | {"threshold": goal.threshold} | counts
    best = _find_best_quality(case)
    worse = _find_worse(case)
    if worse and not _is_decisive(case, worse):
        yield "unequal_quality", worse
    if chosen and chosen.qualities and exceeds(sign * (best - fmean(chosen.qualities)), case.margin):
        yield "unsure_quality", metric | {"best": best, "quality": fmean(chosen.qualities), "margin": case.margin}
    unknown = [each for each in case.found if not each.qualities]
    rows = case.runs[case.runs["run_dir"].isin([path for each in unknown for path in each.run_dirs])]
    reason = _find_reason(rows)
    missed = _list_missed(case) if goal.is_target else []
    unjudged = [*map(str, unknown), *(each["name"] for each in missed if each["quality"] is None)]
    if unjudged and (reason or len(unknown) < len(case.found)):
        yield "no_quality", metric | {"configurations": unjudged, "reason": reason}
    if case.found and len(case.times) and not goal.is_target:
        never = list_unreached(case.times)
        is_all = len(never) == case.times["threshold"].nunique()
        yield "no_target", metric | {"never": never if is_all else []}
    if judged_short := [each for each in missed if each["quality"] is not None]:
        yield "missed_target", metric | {"threshold": goal.threshold, "configurations": judged_short}
    at_once = case.times[case.times["reached"].eq(True) & (case.times["time_to_accuracy_s"].astype(float) <= 0)]
    at_once = at_once[at_once["threshold"] == goal.threshold]
    if goal.is_target and len(at_once):
        frameworks = list(at_once["framework"].unique())
        yield "reached_at_once", metric | {"threshold": goal.threshold, "frameworks": frameworks}


def _gains(candidate: Candidate, chosen: Candidate, worth_doubling: float) -> bool:
    is_faster = chosen.time >= candidate.time * (1 + ROUNDING)
    return is_faster and (candidate.num_gpus <= chosen.num_gpus or candidate.gains_enough_over(chosen, worth_doubling))


def _is_decisive(case: Case, worse: Facts) -> bool:
    return case.chosen is None or bool(worse["times_faster"])


def _find_best_quality(case: Case) -> float:
    """Return the best quality at the end of those that were not set apart; nan if none is known."""
    equal = [fmean(each.qualities) for each in case.found if each.qualities and each not in case.unequal]
    return (max if case.goal.better == "higher" else min)(equal, default=np.nan)


def _find_worse(case: Case) -> Facts | None:
    """Return the qualities of configurations that were set apart, and how many times faster some are; None if none is.

    A quality is None if it is not finite. times_faster: than the recommended one, of those that are faster on as many
    devices or gain on more of them what these must bring.
    """
    worse = {str(each): each for each in case.unequal if each.qualities}
    best = _find_best_quality(case)
    if not worse or np.isnan(best):
        return None
    qualities = {name: fmean(each.qualities) for name, each in worse.items()}
    chosen, doubling = case.chosen, case.worth_doubling or 1.0
    gains = {name: chosen.time / each.time for name, each in worse.items() if chosen and _gains(each, chosen, doubling)}
    return {
        **{"metric": name_metric(case.goal.metric or ""), "best": best, "margin": case.margin},
        "worse": {name: quality if np.isfinite(quality) else None for name, quality in qualities.items()},
        "times_faster": gains,
    }


def _list_missed(case: Case) -> list[Facts]:
    """Return the configurations whose completed repeats did not all reach the target, the highest rate first.

    quality: the median at the end; None if it is not known of any repeat. times_rate: the rate over that of the
    recommended one; None without.
    """
    times = case.times[case.times["status"].eq("completed") & (case.times["threshold"] == case.goal.threshold)]
    runs = times[[*IDENTITY, "reached"]].merge(case.runs)
    own = median(case.chosen.rates) if case.chosen and case.chosen.rates else np.nan
    found = []
    for key, repeats in runs.groupby(OF_STUDY, sort=False, dropna=False):
        num_missed = int((~repeats["reached"].eq(True)).sum())
        names = dict(zip(OF_STUDY, key, strict=True))
        names["series"] = name_series(names, case.runs)
        quality, rate = (repeats[name].astype(float).median() for name in ("quality_last", "images_per_s"))
        facts: Facts = {"num_missed": num_missed, "num_repeats": len(repeats)}
        facts |= {"quality": quality if np.isfinite(quality) else None}
        facts |= {"times_rate": rate / own if np.isfinite(rate / own) else None}
        found += [{"name": name_configuration(names)} | facts] if num_missed else []
    return sorted(found, key=lambda each: -(each["times_rate"] or 0))


def _compute_tolerance(case: Case) -> float:
    """Return by how much a quality must differ from that of a guess: half a test image, or the rounding of a mean."""
    images = case.runs["num_evaluated"].max()
    return ROUNDING if pd.isna(images) else 0.5 / float(images)


def list_unreached(times: pd.DataFrame) -> list[float]:
    """Return the thresholds that no run reached."""
    reached = times.groupby("threshold")["reached"].any()
    return [float(threshold) for threshold in reached[~reached.astype(bool)].index]


def _doubt_hosts(case: Case) -> Doubts:
    """Devices, hosts or links that were not in order, outliers and a drift."""
    runs = case.runs
    if case.networks:
        said = [each for each in case.networks if each["is_own"] or each["is_baseline"]] or case.networks[:1]
        findings = [{key: each[key] for key in ("finding", "is_baseline")} for each in said]
        yield "network", {"findings": findings, "num_more": len(case.networks) - len(said)}
    unhealthy = runs[runs["health"].notna()]
    if len(unhealthy):
        facts: Facts = {"num_runs": len(unhealthy), "finding": unhealthy["health"].value_counts().index[0]}
        facts |= _find_recommended(case, runs["health"].notna())
        yield "health", facts, f"{name_script(RETRY)} --unhealthy --study {runs['study'].iloc[0]}"
    outliers = runs[runs["is_outlier"].eq(True)]
    if len(outliers):
        facts = {"num_runs": len(outliers), "frameworks": _list_frameworks(outliers)}
        yield "outliers", facts | _find_recommended(case, runs["is_outlier"].eq(True))
    drift = measure_drift(compute_relative_rates(choose_inputs(runs)))
    if drift is not None and drift.is_trend:
        unit, per_hour = choose_unit(drift.hours)
        facts = {"change": drift.change, "time": drift.hours * per_hour, "unit": unit, "test": describe_drift(drift)}
        yield "drift", facts


def _doubt_lacking(case: Case) -> Doubts:
    """Runs without a result, and what they may hide."""
    runs = case.runs
    unfinished = runs["status"].isin(UNFINISHED)
    if unfinished.any() and case.is_any_done:
        facts: Facts = {"num_open": int(unfinished.sum()), "num_runs": len(runs)}
        yield "unfinished", facts | _find_recommended(case, unfinished)
    is_done = runs.groupby("framework", sort=False)["status"].transform(lambda own: own.eq("completed").any())
    for framework, own in runs[~is_done].groupby("framework", sort=False):
        tried = own[own["status"] != "missing"]
        if len(tried):
            statuses = tried["status"].value_counts().to_dict()
            yield "absent_framework", {"framework": framework, "statuses": statuses, "reason": _find_reason(tried)}
    failed = runs[(has_failed(runs["status"]) | runs["status"].isin(NOT_DONE_AGAIN)) & is_done]
    if len(failed):
        places = failed[OF_STUDY].drop_duplicates().sort_values("num_gpus", kind="stable").to_dict("records")
        statuses = failed["status"].value_counts().to_dict()
        facts = {"num_runs": len(failed), "statuses": statuses, "faster": _list_faster(case, failed)}
        named = [name_configuration(names | {"series": name_series(names, runs)}) for names in places]
        yield "failed", facts | {"configurations": list(dict.fromkeys(named))}


def _find_reason(runs: pd.DataFrame) -> str | None:
    """Return the most frequent reason; None if none is known."""
    reasons = runs["reason"].dropna()
    counts = reasons[reasons != ""].value_counts()
    return str(counts.index[0]) if len(counts) else None


def _list_faster(case: Case, failed: pd.DataFrame) -> list[str]:
    """Return the configurations with failed repeats whose other repeats have a higher rate than all candidates."""
    best = max((np.median(each.rates) for each in case.found if each.rates), default=np.inf)
    names = failed[OF_STUDY].drop_duplicates()
    done = case.runs[case.runs["status"] == "completed"].merge(names)
    rates = done.groupby(OF_STUDY)["images_per_s"].median()
    faster = [dict(zip(OF_STUDY, key, strict=True)) for key in rates[rates.astype(float) > best].index]
    return [name_configuration(each | {"series": name_series(each, case.runs)}) for each in faster]


def _doubt_edges(case: Case) -> Doubts:
    """What would have to be measured to know more."""
    chosen, runs = case.chosen, case.runs
    batches = {each.names["global_batch_size"] for each in case.found}
    if chosen and not case.goal.is_target and len(batches) > 1 and not any(each.qualities for each in case.found):
        yield "rate_alone", {"is_program": is_program(runs), "smallest": min(batches), "largest": max(batches)}
    if rates := name_own_rates(runs):
        yield "own_rates", {"rates": rates}
    measured = sorted(case.by_count)
    if case.last and len(measured) > 1 and case.last.num_gpus == measured[-1] == runs["num_gpus"].max():
        yield "edge_of_counts", {}, f"num_gpus: {[*measured, 2 * measured[-1]]}"
    if not chosen:
        return
    # Under strong scaling other counts have other batches per device.
    same = runs[runs["num_gpus"] == chosen.num_gpus]
    sizes = sorted(int(size) for size in same["per_device_batch_size"].unique())
    if chosen.names["per_device_batch_size"] == sizes[-1] and len(sizes) > 1:
        yield "edge_of_batches", {}, f"per_device_batch_size: {[*sizes, 2 * sizes[-1]]}"

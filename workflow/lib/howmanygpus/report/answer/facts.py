"""
The decision of a study as facts: which configuration to use, what else there is, how sure that is, what to run next.

The rules are in docs/answer.md. The templates in workflow/report/ make texts of the facts, and answer.json has them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import log2
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from howmanygpus.report.answer.candidates import Candidate, Goal, Value, choose_goal, list_candidates
from howmanygpus.report.answer.doubts import describe_trend
from howmanygpus.report.answer.names import CONFIGURATION
from howmanygpus.report.answer.study import REPEAT
from howmanygpus.report.equivalence import NO, compare_means
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.outcomes import IDENTITY, has_failed
from howmanygpus.report.published import is_control, is_fair
from howmanygpus.report.rows import choose_inputs, is_program, name_count

WORTH_DOUBLING = 1.5
"""Gain that a doubling of the devices must bring: 75 % efficiency, which centres ask for (CSC, LCRC)."""
FACTS_VERSION = 1
LINEAR = 1.05
"""Efficiency above which a speed-up counts as more than linear."""
ENOUGH_REPEATS = 3
UNFINISHED = ("missing", "running", "interrupted", "preempted", "node_failed", "cancelled")
"""Statuses of runs that the next call does."""

Facts = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """What the user asked for besides the grid; see the keys of a study.

    best_variants: names of the variants in the tier best, which are only recommended if the study has no others.
    """

    worth_doubling: float = WORTH_DOUBLING
    deadline_h: float | None = None
    budget: float | None = None
    margin: float = 0.01
    best_variants: frozenset[str] = frozenset()

    @classmethod
    def of(cls, config: dict[str, Any]) -> "Question":
        """Read the question from a study's complete config."""
        best = (name for name, settings in config["variants"].items() if settings.get("tier") == "best")
        asked = {key: config[key] for key in ("worth_doubling", "deadline_h", "budget")}
        return cls(**asked, margin=config["quality"]["margin"], best_variants=frozenset(best))


def decide(
    planned: pd.DataFrame, times: pd.DataFrame, question: Question, explanations: pd.DataFrame | None = None
) -> Facts:
    """Return the facts of a study.

    planned: the table of all its runs; times: the table time_to_accuracy; explanations: the table of that name, if it
    was made.
    """
    runs = planned[is_fair(planned)]
    planned = planned[~is_control(planned)]
    # Independent runs train as many networks as there are devices.
    one_network = runs[~runs["independent"].eq(True)]
    runs = one_network if len(one_network) else runs
    decisions = [
        _decide_part(part, times.merge(part[list(IDENTITY)]), question, explanations) | {"of": ", ".join(names)}
        for names, part in _split(runs)
    ]
    asked = {"worth_doubling": question.worth_doubling, "deadline_h": question.deadline_h, "budget": question.budget}
    return {"version": FACTS_VERSION, **_describe_study(planned, runs), "asked": asked, "decisions": decisions}


def _split(runs: pd.DataFrame) -> list[tuple[list[str], pd.DataFrame]]:
    """Return the parts of a study that are decided by themselves, each with what distinguishes it.

    Each combination of a program's axes may do different work. Devices of different types, or of one name with
    different models, are different machines, and runs that have not started may belong to any of one name.
    """
    parts: list[tuple[list[str], pd.DataFrame]] = [([], runs)]
    if is_program(runs) and runs["variant"].nunique() > 1:
        parts = [([str(name)], own) for name, own in runs.groupby("variant", sort=False)]
    if runs["device"].nunique() > 1:
        parts = [([*names, str(device)], own) for names, part in parts for device, own in part.groupby("device")]
    split = []
    for names, part in parts:
        models = sorted(part["device_model"].dropna().unique())
        if len(models) > 1:
            split += [
                ([*names, model], part[part["device_model"].isna() | (part["device_model"] == model)])
                for model in models
            ]
        else:
            split.append((names, part))
    return split


def _describe_study(planned: pd.DataFrame, runs: pd.DataFrame) -> Facts:
    started = planned["started_at"].dropna().sort_values()
    first = planned.iloc[0]
    return {
        "study": first["study"],
        "network": first["model"],
        "dataset": None if is_program(runs) else first["dataset"],
        "is_program": is_program(runs),
        "unit": "samples" if is_program(runs) else "images",
        "machines": sorted(set(planned["device_model"].dropna())),
        "first_day": started.iloc[0][:10] if len(started) else None,
        "last_day": started.iloc[-1][:10] if len(started) else None,
        "num_planned": len(planned),
        "statuses": {status: int(count) for status, count in planned["status"].value_counts().items()},
    }


def _decide_part(
    runs: pd.DataFrame, times: pd.DataFrame, question: Question, explanations: pd.DataFrame | None
) -> Facts:
    counted = choose_inputs(runs)
    stock = counted[~counted["variant"].isin(question.best_variants)]
    runs = stock if len(stock) else counted
    times = times[times["variant"].isin(set(runs["variant"]))]
    goal = choose_goal(runs, times)
    found = list_candidates(runs, times, goal)
    equal, unequal = _split_by_quality(found, goal, question.margin)
    trusted = [candidate for candidate in equal if candidate.is_trusted]
    refusal = _refuse(runs, found, equal)
    shown = trusted or equal
    by_count = _choose_by_count(shown)
    chosen = None
    if refusal is None:
        chosen, refusal = _choose(by_count, trusted, question)
    alternatives = _list_alternatives(chosen, shown, by_count) if chosen else []
    return {
        "goal": {"metric": name_metric(goal.metric) if goal.metric else None, "threshold": goal.threshold},
        "refusal": refusal,
        "recommended": _describe(chosen, by_count) if chosen else None,
        "alternatives": [
            {"roles": roles} | _describe(other, by_count) | _compare(other, chosen)
            for roles, other in alternatives
            if chosen is not None
        ],
        "ties": [
            _name(other) | {"is_named": any(other is each for _, each in alternatives)}
            for other in (_list_ties(chosen, shown) if chosen else [])
        ],
        "counts": [_describe(best, by_count) | {"is_recommended": best is chosen} for best in by_count.values()],
        "configurations": [_describe(best, by_count) for best in _choose_by_series(shown)],
        "why": _explain(chosen, explanations) if chosen and explanations is not None else None,
        "doubts": _list_doubts(runs, times, goal, found, unequal, chosen, by_count, question),
    }


def _split_by_quality(found: list[Candidate], goal: Goal, margin: float) -> tuple[list[Candidate], list[Candidate]]:
    """Return the configurations of equal quality, and those that are worse by more than the margin."""
    judged = [candidate for candidate in found if candidate.qualities]
    if not judged:
        return found, []
    sign = 1 if goal.better == "higher" else -1
    best = max(judged, key=lambda candidate: sign * fmean(candidate.qualities))
    spread, freedom = _pool([candidate.qualities for candidate in judged])
    worse = []
    for candidate in judged:
        difference = sign * (fmean(candidate.qualities) - fmean(best.qualities))
        repeats = len(candidate.qualities), len(best.qualities)
        if freedom:
            is_worse = difference < 0 and compare_means(difference, spread, freedom, repeats, margin)[2] == NO
        else:
            is_worse = difference < -margin
        is_worse |= not np.isfinite(difference)
        worse += [candidate] if is_worse else []
    return [candidate for candidate in found if candidate not in worse], worse


def _pool(groups: Iterable[list[float]]) -> tuple[float, int]:
    """Return the pooled standard deviation within groups of finite values, and its degrees of freedom."""
    squares, freedom = 0.0, 0
    for values in groups:
        if not np.isfinite(values).all():
            continue
        squares += float(np.sum((np.array(values) - np.mean(values)) ** 2))
        freedom += len(values) - 1
    return (squares / freedom) ** 0.5 if freedom else 0.0, freedom


def _refuse(runs: pd.DataFrame, found: list[Candidate], equal: list[Candidate]) -> str | None:
    """Say why nothing can be recommended; None if something can. equal: those of equal quality."""
    if not (runs["status"] == "completed").any():
        return "no run that counts has completed"
    if not found:
        return "no configuration completed all its repeats with a rate and reached the same target in all of them"
    if not any(candidate.is_trusted for candidate in equal):
        return "other work on the machine disturbed every run to choose from, so that their order may be chance"
    smallest = min(candidate.num_gpus for candidate in equal)
    if not any(candidate.is_trusted for candidate in equal if candidate.num_gpus == smallest):
        devices = name_count(smallest, "device")
        return f"nothing sound was measured on {devices}, with which more devices are to be compared"
    return None


def _choose_by_count(candidates: list[Candidate]) -> dict[int, Candidate]:
    """Return the fastest configuration of each device count, by rising count."""
    best: dict[int, Candidate] = {}
    for candidate in sorted(candidates, key=lambda each: each.duration):
        best.setdefault(candidate.num_gpus, candidate)
    return dict(sorted(best.items()))


def _choose_by_series(candidates: list[Candidate]) -> list[Candidate]:
    """Return the fastest configuration of each series on each device count, by series and rising count."""
    best: dict[tuple[str, int], Candidate] = {}
    for candidate in sorted(candidates, key=lambda each: each.duration):
        best.setdefault((candidate.names["series"], candidate.num_gpus), candidate)
    return [best[key] for key in sorted(best)]


def _choose(
    by_count: dict[int, Candidate], trusted: list[Candidate], question: Question
) -> tuple[Candidate | None, str | None]:
    """Return the configuration to use, or why there is none."""
    pool = trusted
    if question.budget is not None:
        if not all(candidate.costs for candidate in pool):
            return None, "the budget cannot be compared, because not all costs are known in one currency"
        pool = [candidate for candidate in pool if candidate.price <= question.budget]
        if not pool:
            cheapest = min(trusted, key=lambda candidate: candidate.price)
            return None, (
                f"nothing costs at most {question.budget:g} {cheapest.currency}; the cheapest, {_word(cheapest)}, "
                f"costs {cheapest.price:.3g}"
            )
    if question.deadline_h is not None:
        in_time = [each for each in pool if each.walls and np.median(each.walls) / 3600 <= question.deadline_h]
        if not in_time:
            known = [candidate for candidate in pool if candidate.walls]
            if not known:
                return None, "the wall time of the runs is not known"
            fastest = min(known, key=lambda candidate: np.median(candidate.walls))
            return None, (
                f"nothing{' within the budget' * (question.budget is not None)} is done within "
                f"{question.deadline_h:g} h; the fastest, {_word(fastest)}, takes "
                f"{np.median(fastest.walls) / 3600:.3g} h"
            )
        return min(in_time, key=lambda candidate: (candidate.price, candidate.num_gpus)), None
    return _walk(_choose_by_count(pool), question.worth_doubling), None


def _walk(by_count: dict[int, Candidate], worth_doubling: float) -> Candidate:
    """Return the configuration from which on a doubling of the devices gains less than it must."""
    first, *others = by_count.values()
    chosen = first
    for candidate in others:
        doublings = log2(candidate.num_gpus / chosen.num_gpus)
        if chosen.duration / candidate.duration < worth_doubling**doublings:
            break
        chosen = candidate
    return chosen


def _list_ties(chosen: Candidate, candidates: list[Candidate]) -> list[Candidate]:
    """Return the configurations on as many devices that the repeats cannot tell from the chosen one."""
    same = [each for each in candidates if each is not chosen and each.num_gpus == chosen.num_gpus]
    return [each for each in sorted(same, key=lambda each: each.duration) if each.is_tied_with(chosen)]


def _list_alternatives(
    chosen: Candidate, candidates: list[Candidate], by_count: dict[int, Candidate]
) -> list[tuple[list[str], Candidate]]:
    """Return what a reader will ask about, with its roles: cheapest, fastest, next framework, next doubling.

    Each alternative stands once; the recommended configuration is none of its own.
    """
    same_price = [each for each in candidates if each.currency == chosen.currency]
    others = [each for each in candidates if each.num_gpus == chosen.num_gpus and each.series[0] != chosen.series[0]]
    found = {
        "cheapest": min(same_price, key=lambda each: each.price),
        "fastest": min(candidates, key=lambda each: each.duration),
        "next framework": min(others, key=lambda each: each.duration, default=None),
        "next doubling": next((each for count, each in by_count.items() if count >= 2 * chosen.num_gpus), None),
    }
    named: list[tuple[list[str], Candidate]] = []
    for role, other in found.items():
        if other is None or other is chosen:
            continue
        same = [roles for roles, each in named if each is other]
        if same:
            same[0].append(role)
        else:
            named.append(([role], other))
    return named


def _compare(other: Candidate, chosen: Candidate) -> Facts:
    """Compare an alternative with the recommended configuration."""
    difference = fmean(other.qualities) - fmean(chosen.qualities) if other.qualities and chosen.qualities else np.nan
    return {
        "times_faster": other.gain_over(chosen).as_fact(),
        "is_tied": other.is_tied_with(chosen),
        "times_price": other.price / chosen.price if other.currency == chosen.currency else None,
        "quality_difference": difference if np.isfinite(difference) else None,
    }


def _explain(chosen: Candidate, explanations: pd.DataFrame) -> str | None:
    """Return why more devices do not serve the recommended curve as much; None if nothing larger was explained."""
    framework, variant, precision = chosen.series
    own = explanations[
        (explanations["framework"] == framework)
        & (explanations["variant"] == variant)
        & (explanations["precision"] == precision)
        & (explanations["device"] == chosen.names["device"])
        & (explanations["num_gpus"] > chosen.num_gpus)
        & explanations["sentence"].notna()
    ]
    if own.empty:
        return None
    is_other_batch = own["per_device_batch_size"] != chosen.names["per_device_batch_size"]
    nearest = own.assign(is_other_batch=is_other_batch).sort_values(["num_gpus", "is_other_batch"], kind="stable")
    return str(nearest["sentence"].iloc[0])


def _name(candidate: Candidate) -> Facts:
    names = candidate.names
    framework, variant, precision = candidate.series
    size = int(names["per_device_batch_size"])
    return {
        "num_gpus": candidate.num_gpus,
        "num_nodes": int(names["num_nodes"]),
        "device": names["device"],
        "device_models": sorted(candidate.models),
        "framework": framework,
        "variant": variant,
        "precision": precision,
        "input": names["input"],
        "series": names["series"],
        "per_device_batch_size": size,
        "accumulate": names["global_batch_size"] // (size * candidate.num_gpus),
    }


def _describe(candidate: Candidate, by_count: dict[int, Candidate]) -> Facts:
    """Return all numbers of a configuration. Its efficiency is that against the fastest on the fewest devices."""
    first = next(iter(by_count.values()))
    speedup = candidate.gain_over(first)
    is_base = candidate is first
    quality = Value.of(candidate.qualities)
    rate, wall, price = Value.of(candidate.rates), Value.of(candidate.walls), Value.of(candidate.costs)
    ratio = candidate.num_gpus / first.num_gpus
    return {
        **_name(candidate),
        "duration_s": Value.of(candidate.durations).as_fact(),  # type: ignore[union-attr]
        "wall_s": wall.as_fact() if wall else None,
        "images_per_s": rate.as_fact() if rate else None,
        "cost": price.as_fact() if price else None,
        "currency": candidate.currency,
        "device_seconds": candidate.duration * candidate.num_gpus,
        "speedup": None if is_base else speedup.as_fact(),
        "efficiency": None if is_base else speedup.median / ratio,
        "quality": quality.as_fact() if quality else None,
        "num_planned": candidate.names["num_planned"],
        "num_repeats": candidate.num_repeats,
        "num_disturbed": candidate.num_disturbed,
        "run_dirs": candidate.run_dirs,
    }


def _word(candidate: Candidate) -> str:
    names = candidate.names
    nodes = f" on {names['num_nodes']} nodes" if names["num_nodes"] > 1 else ""
    return f"{candidate.num_gpus} x {names['device']}{nodes} {names['series']} x {names['per_device_batch_size']}"


def _list_doubts(
    runs: pd.DataFrame,
    times: pd.DataFrame,
    goal: Goal,
    found: list[Candidate],
    unequal: list[Candidate],
    chosen: Candidate | None,
    by_count: dict[int, Candidate],
    question: Question,
) -> list[Facts]:
    """Return what is not sure, each with what to run next, as lines of config or a command. The gravest come first."""
    doubts: list[Facts] = []

    def doubt(kind: str, text: str, *run_next: str) -> None:
        doubts.append({"kind": kind, "text": text, "run_next": list(run_next)})

    repeat = f"{REPEAT} --study {runs['study'].iloc[0]}"
    stale = runs["status"].eq("stale") | runs["stale_because"].notna()
    if stale.any():
        named = {run_dir for each in (chosen, *by_count.values()) if each for run_dir in each.run_dirs}
        scope = ", also of configurations named here" if runs.loc[stale, "run_dir"].isin(named).any() else ""
        text = f"Stale, made with other settings, code or data: {name_count(int(stale.sum()), 'run')}{scope}."
        doubt("stale", text, "the call without `available`")
    disturbed = [each for each in (chosen, *by_count.values()) if each and each.num_disturbed]
    num_disturbed = int(runs["disturbed"].eq(True).sum())
    if disturbed or num_disturbed:
        scope = ", also of configurations named here" if disturbed else ", none of them named here"
        text = f"Disturbed by other work: {num_disturbed} of {name_count(len(runs), 'run')}{scope}."
        doubt("disturbed", text, repeat)
    outliers = runs[runs["is_outlier"].eq(True)]
    if len(outliers):
        names = ", ".join(sorted(set(outliers["framework"])))
        doubt("outliers", f"Far from the rates of the other repeats: {name_count(len(outliers), 'run')} of {names}.")
    if trend := describe_trend(runs):
        doubt("drift", trend)
    unhealthy = runs[runs["health"].notna()]
    if len(unhealthy):
        text = (
            f"Devices or hosts of {name_count(len(unhealthy), 'run')} were not in order: {unhealthy['health'].iloc[0]}"
        )
        doubt("health", text)
    if unequal:
        names = ", ".join(dict.fromkeys(_word(each) for each in unequal))
        doubt("unequal_quality", f"Set apart, worse by more than {question.margin:g} at the end: {names}.")
    for framework, own in runs.groupby("framework", sort=False):
        tried = own[own["status"] != "missing"]
        if len(tried) and not (own["status"] == "completed").any():
            counts = ", ".join(
                f"{n} {status.replace('_', ' ')}" for status, n in tried["status"].value_counts().items()
            )
            doubt("absent_framework", f"{framework} has no completed run: {counts}.")
    failed = runs[
        has_failed(runs["status"]) & runs["framework"].isin(runs.loc[runs["status"] == "completed", "framework"])
    ]
    if len(failed):
        counts = ", ".join(f"{n} {status.replace('_', ' ')}" for status, n in failed["status"].value_counts().items())
        doubt("failed", f"{name_count(len(failed), 'run')} failed ({counts}); their configurations are not ranked.")
    if (runs["status"] == "completed").any() and (runs["parity"] == "not_checked").any() and not is_program(runs):
        doubt("unchecked", "The parity gate did not check all runs.", "parity: required")
    metric = str(goal.metric)
    if found and len(times) and not goal.is_target:
        doubt(
            "no_target",
            f"No configuration reached a threshold of {name_metric(metric)} in all its repeats; the rate decides.",
        )
    if goal.is_target and (missed := _word_missed(times, goal)):
        text = f"Left out, {name_metric(metric)} {goal.threshold:g} not reached in all repeats: {missed}."
        doubt("missed_target", text)
    unfinished = runs["status"].isin(UNFINISHED)
    if unfinished.any() and (runs["status"] == "completed").any():
        text = f"Not done yet: {int(unfinished.sum())} of {name_count(len(runs), 'run')}."
        doubt("unfinished", text, "the same call")
    for each in by_count.values():
        efficiency = _describe(each, by_count)["efficiency"]
        if efficiency is not None and efficiency > LINEAR:
            more_repeats = f"repeats: {2 * max(ENOUGH_REPEATS, each.names['num_planned'])}"
            doubt("superlinear", f"{_word(each)} is more than linearly faster: doubt its baseline.", more_repeats)
            break
    if chosen:
        _doubt_repeats(doubt, chosen)
        measured = sorted(by_count)
        if len(measured) > 1 and chosen.num_gpus == measured[-1] == runs["num_gpus"].max():
            more = [*measured, 2 * measured[-1]]
            doubt("edge_of_counts", "More devices than measured may pay.", f"num_gpus: {more}")
        # Under strong scaling other counts have other batches per device.
        same = runs[runs["num_gpus"] == chosen.num_gpus]
        sizes = sorted(int(size) for size in same["per_device_batch_size"].unique())
        if chosen.names["per_device_batch_size"] == sizes[-1] and len(sizes) > 1:
            doubt(
                "edge_of_batches",
                "A larger batch than measured may be faster.",
                f"per_device_batch_size: {[*sizes, 2 * sizes[-1]]}",
            )
    return doubts


def _doubt_repeats(doubt, chosen: Candidate) -> None:
    run_next = [f"repeats: {ENOUGH_REPEATS}"] if chosen.names["num_planned"] < ENOUGH_REPEATS else []
    if chosen.num_repeats == 1:
        doubt("one_repeat", "One repeat of the recommended configuration counts: chance may decide.", *run_next)
    elif chosen.num_repeats < ENOUGH_REPEATS:
        doubt("few_repeats", f"{chosen.num_repeats} repeats give no narrow interval.", *run_next)


def _word_missed(times: pd.DataFrame, goal: Goal) -> str:
    """Name the configurations whose completed repeats did not all reach the goal; empty without any."""
    short = times[(times["threshold"] == goal.threshold) & times["status"].eq("completed") & ~times["reached"].eq(True)]
    configurations = short.drop_duplicates(CONFIGURATION)
    names = ", ".join(configurations["framework"].unique())
    return f"{name_count(len(configurations), 'configuration')} of {names}" if names else ""

"""
The decision of a study as facts: which configuration to use, what else there is, how sure that is, what to run next.

The rules are in docs/answer.md. The templates in workflow/report/ make texts of the facts, and answer.json has them.
"""

from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from howmanygpus.report.answer.candidates import (
    TRAINING,
    WALL,
    Candidate,
    Goal,
    choose_goal,
    list_candidates,
    summarize,
    use_clock,
    walk,
)
from howmanygpus.report.answer.doubts import UNEQUAL_FRAC, Case, find_next, list_doubts, list_unreached
from howmanygpus.report.answer.limits import find_limit
from howmanygpus.report.answer.names import OF_STUDY
from howmanygpus.report.answer.same_work import explain_other_quality, explain_other_work, group_places
from howmanygpus.report.columns import IDENTITY, SERIES, list_columns
from howmanygpus.report.equivalence import NO, compare_means, exceeds, pool
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.published import is_control, is_fair
from howmanygpus.report.rows import PROGRAM, choose_inputs, find_unit, is_program
from howmanygpus.report.words import word

WORTH_DOUBLING = 1.5
"""Gain that a doubling of the devices must bring: 75 % efficiency, which centres ask for (CSC, LCRC)."""
FACTS_VERSION = 1
INFEASIBLE = ("unsupported", "out_of_memory", "host_out_of_memory", "time_limit", "not_run", "diverged")
"""Statuses of runs on a device count that is too small, too slow or not asked for, so that more are the baseline."""

LOSSES = ("last_step", "loss", "difference", "difference_limit")
"""Columns of the table of losses that show whether work was equal."""

Facts = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """What the user asked for besides the grid; see the keys of a study.

    best_variants: names of the variants in the tier best, which are only recommended if the study has no others. works:
    name of the work that each variant of a program does, which is one of its own unless `same_work` says otherwise.
    """

    worth_doubling: float = WORTH_DOUBLING
    deadline_h: float | None = None
    budget: float | None = None
    margin: float = 0.01
    best_variants: frozenset[str] = frozenset()
    works: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, config: dict[str, Any]) -> "Question":
        """Read the question from a study's complete config."""
        best = (name for name, settings in config["variants"].items() if settings.get("tier") == "best")
        asked = {key: config[key] for key in ("worth_doubling", "deadline_h", "budget")}
        works = {name: settings["work"] for name, settings in config["variants"].items() if "work" in settings}
        return cls(**asked, margin=config["quality"]["margin"], best_variants=frozenset(best), works=works)


def decide(
    planned: pd.DataFrame,
    times: pd.DataFrame,
    question: Question,
    explanations: pd.DataFrame | None = None,
    losses: pd.DataFrame | None = None,
    utilisation: pd.DataFrame | None = None,
    allreduce: pd.DataFrame | None = None,
) -> Facts:
    """Return the facts of the decision of a study.

    planned: the table of all its runs; times: the table time_to_accuracy; explanations, losses, utilisation, allreduce:
    the tables of these names, if they were made.
    """
    memory = None if utilisation is None else utilisation[[*IDENTITY, "memory_gib_highest"]]
    planned = planned.assign(memory_gib_highest=np.nan) if memory is None else planned.merge(memory, "left", IDENTITY)
    runs = planned[is_fair(planned)]
    planned = planned[~is_control(planned)]
    # Independent runs train as many networks as there are devices.
    one_network = runs[~runs["independent"].eq(True)]
    runs = one_network if len(one_network) else runs
    # Counted before the study is split, because a scheduler may give the repeats of a configuration different devices.
    repeats = runs.groupby(OF_STUDY, dropna=False)["repeat"]
    runs = runs.assign(repeats_planned=repeats.transform("size"))
    is_priced = bool(runs["cost"].notna().any())
    decisions = [
        _decide_part(
            part,
            times.merge(part[IDENTITY]),
            question,
            explanations,
            _list_models_of_one_price(part, runs),
            is_priced,
            losses,
            allreduce,
        )
        | {"of": ", ".join(names)}
        for names, part in _split(runs, question.works)
    ]
    is_same_work = not is_program(runs) or _name_works(runs, question.works).nunique() == 1
    across = _compare_machines(decisions) if is_same_work else None
    asked = {"worth_doubling": question.worth_doubling, "deadline_h": question.deadline_h, "budget": question.budget}
    facts = {
        "version": FACTS_VERSION,
        **_describe_study(planned, runs),
        "asked": asked,
        "across": across,
        "decisions": decisions,
    }
    return facts | {"batch_script": None, "details": None}


def _name_works(runs: pd.DataFrame, works: dict[str, str]) -> pd.Series:
    """Return the name of the work of each run of a program. works: see Question."""
    return runs["variant"].map(lambda variant: works.get(variant, variant))


def _split(runs: pd.DataFrame, works: dict[str, str]) -> list[tuple[list[str], pd.DataFrame]]:
    """Return the parts of a study that are decided by themselves, each with what distinguishes it.

    Combinations of a program's axes may do different work, which works names; see Question. Devices of different types,
    or of one name with different models, are different machines, and runs that have not started may belong to any of
    one name.
    """
    parts: list[tuple[list[str], pd.DataFrame]] = [([], runs)]
    if is_program(runs) and (named := _name_works(runs, works)).nunique() > 1:
        parts = [([str(name)], own) for name, own in runs.groupby(named, sort=False)]
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


def _list_models_of_one_price(part: pd.DataFrame, runs: pd.DataFrame) -> list[str]:
    """Return the models of the devices that have one price, because they have one name; nothing without a price."""
    priced = runs[runs["device"].isin(part["device"]) & runs["cost"].notna()]
    return sorted(priced["device_model"].dropna().unique())


def _compare_machines(decisions: list[Facts]) -> Facts | None:
    """Compare the recommendations for several machines; None for fewer than two.

    The result has the goal of each if they differ, or else those that are the fastest and, if all prices are known in
    one currency, the cheapest; several if their intervals overlap. `others` are the remaining ones, by rising time,
    with time and price as multiples of those of the first that is the fastest.
    """
    best = {each["of"]: each["recommended"] for each in decisions if each["recommended"]}
    decided = [each for each in decisions if each["recommended"]]
    if len(decided) < 2:
        return None
    goals = {each["of"]: each["goal"] for each in decided}
    thresholds, (clock, *others) = {goal["threshold"] for goal in goals.values()}, {each["clock"] for each in decided}
    if len(thresholds) > 1:
        return {"goals": goals, "fastest": [], "cheapest": [], "others": []}
    # Wall times of whole runs may be those of different work.
    if others or (clock == WALL and thresholds == {None}):
        return None
    times = {of: one[clock] for of, one in best.items()}
    prices = {of: one["cost_per_million"] or one["cost"] for of, one in best.items()}
    is_priced = all(prices.values()) and len({one["currency"] for one in best.values()}) == 1
    is_priced &= not any(doubt["kind"] == "one_price" for each in decided for doubt in each["doubts"])
    fastest = _list_lowest(times)
    first = min(fastest, key=lambda of: times[of]["median"])
    others = [
        {
            "of": of,
            "times_as_long": times[of]["median"] / times[first]["median"],
            "times_price": prices[of]["median"] / prices[first]["median"] if is_priced else None,
        }
        for of in sorted(times.keys() - fastest, key=lambda of: times[of]["median"])
    ]
    cheapest = _list_lowest(prices) if is_priced else []
    return {"goals": None, "fastest": fastest, "cheapest": cheapest, "others": others}


def _list_lowest(values: dict[str, Facts]) -> list[str]:
    """Return the names of the lowest value, and of those whose interval overlaps with its."""
    lowest = min(values.values(), key=lambda value: value["median"])
    highest = lowest["median"] if lowest["high"] is None else lowest["high"]
    lows = {name: value["median"] if value["low"] is None else value["low"] for name, value in values.items()}
    return [name for name, low in lows.items() if low <= highest]


def _describe_study(planned: pd.DataFrame, runs: pd.DataFrame) -> Facts:
    started = planned["started_at"].dropna().sort_values()
    first = planned.iloc[0]
    return {
        "study": first["study"],
        "network": first["model"],
        "model_options": first["model_options"] if pd.notna(first["model_options"]) else None,
        "dataset": None if is_program(runs) else first["dataset"],
        "is_program": is_program(runs),
        "unit": find_unit(runs),
        "machines": sorted(set(planned["device_model"].dropna())),
        "first_day": started.iloc[0][:10] if len(started) else None,
        "last_day": started.iloc[-1][:10] if len(started) else None,
        "num_planned": len(planned),
        "statuses": planned["status"].value_counts().to_dict(),
    }


def _decide_part(
    runs: pd.DataFrame,
    times: pd.DataFrame,
    question: Question,
    explanations: pd.DataFrame | None,
    models: list[str],
    is_priced: bool,
    losses: pd.DataFrame | None,
    allreduce: pd.DataFrame | None,
) -> Facts:
    """Return the decision about runs that are decided by themselves.

    models: of devices that have one price; is_priced: whether some run of the study has a price; losses, allreduce: the
    tables of these names.
    """
    counted = choose_inputs(runs)
    stock = counted[~counted["variant"].isin(question.best_variants)]
    runs = stock if len(stock) else counted
    # What failed the parity gate and was trained did other work, and is only compared among itself.
    is_other_work = runs["parity"].eq("failed") & runs["status"].eq("completed")
    unproven = _name_series(runs)[is_other_work].unique().tolist()
    runs = runs[~is_other_work] if (runs["status"].eq("completed") & ~is_other_work).any() else runs
    times = times.merge(runs[IDENTITY])
    goal = choose_goal(runs, times)
    found = list_candidates(runs, times, goal)
    clock = _choose_clock(found, goal, question, is_priced)
    found = use_clock(found, clock)
    equal, unequal = _split_by_quality(found, goal, question.margin)
    trusted = [candidate for candidate in equal if candidate.is_trusted]
    refusal = None
    if is_program(runs):
        known = pd.DataFrame(columns=[*IDENTITY, *LOSSES]) if losses is None else losses
        refusal = explain_other_work(runs, found, known) or _compare_qualities(found, goal, question.margin)
    refusal = refusal or _refuse(runs, found, equal, is_baseline_needed=question.deadline_h is None)
    shown = trusted or equal
    by_count = _choose_by_count(shown, question.worth_doubling)
    chosen = None
    if refusal is None:
        chosen, refusal = _choose(trusted, question)
    # Without a recommendation, all that was measured is shown, if possible what can be compared.
    listed = found if refusal is not None else shown
    by_place = dict(sorted((_choose_by_place(listed) | _choose_by_place(shown)).items()))
    if chosen:
        by_count[chosen.num_gpus] = by_place[chosen.num_gpus, chosen.names["num_nodes"]] = chosen
    alternatives = _list_alternatives(chosen, shown, by_count) if chosen else []
    ties = _list_ties(chosen, shown) if chosen else []
    named = [*([chosen] if chosen else []), *(other for _, other in alternatives), *ties]
    last = chosen
    if refusal is not None and question.deadline_h is not None and clock == WALL:
        last = min(trusted, key=lambda each: each.time, default=None)
    guesses = runs["quality_of_guess"].dropna().astype(float)
    networks = _list_networks(runs, chosen, next(iter(by_count.values()), None), explanations, allreduce)
    case = Case(
        runs=runs,
        times=times,
        goal=goal,
        found=found,
        unequal=unequal,
        chosen=chosen,
        alternatives=[other for _, other in alternatives],
        by_count=by_count,
        unproven=unproven,
        guess=guesses.iloc[0] if len(guesses) else np.nan,
        margin=question.margin,
        worth_doubling=question.worth_doubling if question.deadline_h is None else None,
        deadline_h=question.deadline_h,
        budget=question.budget,
        last=last,
        models_of_one_price=models if len(models) > 1 else [],
        networks=[each for each in networks if each["finding"]],
    )
    why, doubts = find_limit(case, explanations), list_doubts(case)

    def describe_shown(candidate: Candidate) -> Facts:
        """Return the numbers of a configuration, without an efficiency if it cannot be compared."""
        return _describe(candidate, by_count if any(candidate is each for each in shown) else {})

    return {
        "goal": {
            "metric": name_metric(goal.metric) if goal.metric else None,
            "threshold": goal.threshold,
            "unreached": list_unreached(times),
        },
        "guess": case.guess if np.isfinite(case.guess) else None,
        "refusal": refusal,
        "recommended": _describe(chosen, by_count) if chosen else None,
        "alternatives": [
            {"roles": roles} | _describe(other, by_count) | _compare(other, chosen)
            for roles, other in alternatives
            if chosen is not None
        ],
        "ties": [_name(other) | {"is_named": any(other is each for _, each in alternatives)} for other in ties],
        "clock": clock,
        "other_clock": _decide_by_other_clock(chosen, trusted, goal, question, by_count) if chosen else None,
        "counts": [describe_shown(best) | {"is_recommended": best is chosen} for best in by_place.values()],
        "configurations": [
            describe_shown(each) for each in _list_configurations(listed, [*named, *_list_configurations(shown, named)])
        ],
        "networks": networks,
        "why": why,
        "doubts": doubts,
        "next": find_next(case, any(each["run_next"] for each in (*doubts, *([why] if why else [])))),
    }


def _list_networks(
    runs: pd.DataFrame,
    chosen: Candidate | None,
    first: Candidate | None,
    explanations: pd.DataFrame | None,
    allreduce: pd.DataFrame | None,
) -> list[Facts]:
    """Return what carries the gradients at each number of devices and nodes, what is wrong with it and what that costs.

    The place of the recommended configuration is the first, then that of the baseline, then the largest. first: the
    configuration over which gains are. explanations, allreduce: the tables of these names.
    """
    place = ["device", "num_gpus", "num_nodes"]
    named = [*place, "transport", "finding", "lost_frac"]
    is_alone = bool(runs["independent"].eq(True).all())
    tables = [pd.DataFrame(columns=named)]
    if explanations is not None and not is_alone:
        # A finding that is explained says what it costs a framework.
        explained = explanations[explanations["network"].notna()]
        is_other = explained["framework"].ne(chosen.names["framework"] if chosen else None)
        explained = explained.assign(is_other=is_other).sort_values("is_other", kind="stable")
        tables += [explained.rename(columns={"network": "finding", "network_frac": "lost_frac"})[named]]
    if allreduce is not None and not is_alone:
        known = allreduce[allreduce["transport"].notna() | allreduce["finding"].notna()]
        tables += [known.sort_values("finding", kind="stable").assign(lost_frac=None)[named]]
    rows = pd.concat([each.astype(object) for each in tables]).drop_duplicates(place)
    found = rows.merge(runs[place].drop_duplicates().astype(object))
    networks: list[Facts] = found.where(found.notna(), None).to_dict("records")
    own, base = (each and (each.num_gpus, each.names["num_nodes"]) for each in (chosen, first))

    for each in networks:
        where = each["num_gpus"], each["num_nodes"]
        each |= {"is_own": where == own, "is_baseline": where == base != own}
    return sorted(networks, key=lambda each: (not each["is_own"], not each["is_baseline"], -each["num_gpus"]))


def _name_series(runs: pd.DataFrame) -> pd.Series:
    """Return the framework of each run, with variant and precision if they vary."""
    varying = list_columns(SERIES, but=["framework", "input", "device"])
    names = ["framework", *(name for name in varying if runs[name].nunique() > 1)]
    return runs[names].agg(" ".join, axis=1)


def _choose_clock(found: list[Candidate], goal: Goal, question: Question, is_priced: bool) -> str:
    """Return the clock that decides: the wall time if it is paid for or limited, else the training time.

    A run without a target is a sample of a longer training, of which a limit alone makes the whole. A price of one
    machine counts for all, whose times would not be comparable otherwise.
    """
    is_limited = question.deadline_h is not None or question.budget is not None
    is_paid = is_limited or is_priced if goal.is_target else is_limited and _did_same_work(found)
    return WALL if found and is_paid and _have_walls(found) else TRAINING


def _did_same_work(candidates: list[Candidate]) -> bool:
    """Whether whole runs trained as many images, or as many are not known."""
    images = [each.images_of_run for each in candidates]
    return not any(number > min(images) * (1 + UNEQUAL_FRAC) for number in images)


def _have_walls(candidates: list[Candidate]) -> bool:
    return all(len(each.walls) == each.num_repeats for each in candidates)


def _decide_by_other_clock(
    chosen: Candidate, trusted: list[Candidate], goal: Goal, question: Question, by_count: dict[int, Candidate]
) -> Facts | None:
    """Return what the other clock would recommend; None if it is the same, a tie with it, or not known."""
    clock = TRAINING if chosen.clock == WALL else WALL
    # Wall times of whole runs can be compared if these did the same work.
    is_same_work = goal.is_target or _did_same_work(trusted)
    if not _have_walls(trusted) or not is_same_work:
        return None
    timed = use_clock(trusted, clock)
    other, _ = _choose(timed, question)
    own = next(each for each in timed if each.names == chosen.names)
    if other is None or other is own:
        return None
    # On as many devices, single repeats differ by chance.
    if other.num_gpus == own.num_gpus and (other.is_tied_with(own) or not own.has_scatter):
        return None
    return {"clock": clock} | _describe(other, by_count)


def _compare_qualities(found: list[Candidate], goal: Goal, margin: float) -> str | None:
    """Say which variants of a program end at another quality on the same devices; None if none does."""
    groups = [group for group in group_places(found) if _split_by_quality(group, goal, margin)[1]]
    return explain_other_quality(groups[0], goal.metric, margin) if groups else None


def _split_by_quality(found: list[Candidate], goal: Goal, margin: float) -> tuple[list[Candidate], list[Candidate]]:
    """Return the configurations of equal quality, and those that are worse by more than the margin or not judged."""
    judged = [candidate for candidate in found if candidate.qualities]
    if not judged:
        return found, []
    sign = 1 if goal.better == "higher" else -1
    best = max(judged, key=lambda candidate: sign * fmean(candidate.qualities))
    spread, freedom = pool(candidate.qualities for candidate in judged)
    worse = [candidate for candidate in found if not candidate.qualities]
    for candidate in judged:
        difference = sign * (fmean(candidate.qualities) - fmean(best.qualities))
        repeats = len(candidate.qualities), len(best.qualities)
        if freedom:
            is_worse = difference < 0 and compare_means(difference, spread, freedom, repeats, margin)[2] == NO
        else:
            is_worse = exceeds(-difference, margin)
        is_worse |= not np.isfinite(difference)
        worse += [candidate] if is_worse else []
    return [candidate for candidate in found if candidate not in worse], worse


def _refuse(runs: pd.DataFrame, found: list[Candidate], equal: list[Candidate], is_baseline_needed: bool) -> str | None:
    """Say why nothing can be recommended; None if something can. equal: those of equal quality."""
    done = runs[runs["status"] == "completed"]
    if done.empty:
        return word("doubts", "nothing_completed")
    if not found and done["images_per_s"].isna().all():
        return word("doubts", "no_rate", num_runs=len(done))
    if not found:
        return word("doubts", "no_common_goal")
    if not equal:
        return word("doubts", "no_finite_quality", num_configurations=len(found))
    if not any(candidate.is_trusted for candidate in equal):
        return word("doubts", "all_disturbed")
    smallest = min(candidate.num_gpus for candidate in equal)
    is_smallest_trusted = any(candidate.is_trusted for candidate in equal if candidate.num_gpus == smallest)
    if is_baseline_needed and not is_smallest_trusted:
        return word("doubts", "baseline_disturbed", num_gpus=smallest)
    fewer = runs[(runs["num_gpus"] < smallest) & ~runs["status"].isin(("completed", *INFEASIBLE))]
    if is_baseline_needed and len(fewer):
        lacking = int(fewer["num_gpus"].min())
        statuses = runs.loc[runs["num_gpus"] == lacking, "status"].value_counts().to_dict()
        return word("doubts", "baseline_missing", num_gpus=lacking, statuses=statuses)
    return None


def _choose_by_place(candidates: list[Candidate]) -> dict[tuple[int, int], Candidate]:
    """Return the fastest configuration of each number of devices and of nodes, by rising numbers."""
    best: dict[tuple[int, int], Candidate] = {}
    for candidate in sorted(candidates, key=lambda each: each.time):
        best.setdefault((candidate.num_gpus, candidate.names["num_nodes"]), candidate)
    return dict(sorted(best.items()))


def _choose_by_count(candidates: list[Candidate], worth_doubling: float) -> dict[int, Candidate]:
    """Return the best configuration of each device count, by rising count.

    It is the fastest on the fewest nodes, unless more nodes gain what the devices must bring that are billed there.
    """
    places: dict[int, dict[int, Candidate]] = {}
    for (num_gpus, num_nodes), candidate in _choose_by_place(candidates).items():
        places.setdefault(num_gpus, {})[num_nodes] = candidate
    return {num_gpus: walk(by_nodes, worth_doubling) for num_gpus, by_nodes in places.items()}


def _list_configurations(candidates: list[Candidate], named: list[Candidate]) -> list[Candidate]:
    """Return the fastest configuration of each series on each number of devices and nodes, and those that are named.

    They are in the order of series, devices, nodes and time.
    """
    listed: dict[tuple[str, int, int], list[Candidate]] = {}
    for candidate in sorted(candidates, key=lambda each: each.time):
        where = candidate.names["series"], candidate.num_gpus, candidate.names["num_nodes"]
        place = listed.setdefault(where, [])
        if not place or any(candidate is each for each in named):
            place.append(candidate)
    return [candidate for place in sorted(listed) for candidate in listed[place]]


def _choose(trusted: list[Candidate], question: Question) -> tuple[Candidate | None, str | None]:
    """Return the configuration to use, or why there is none."""
    pool = trusted
    is_limited = question.budget is not None or question.deadline_h is not None
    if is_limited and not any(each.images for each in pool) and not _did_same_work(pool):
        fewest, most = (extreme(each.images_of_run for each in pool) for extreme in (min, max))
        return None, word("doubts", "unequal_runs", fewest=fewest, most=most)
    if question.budget is not None:
        if not all(candidate.costs for candidate in pool):
            return None, word("doubts", "costs_unknown")
        pool = [candidate for candidate in pool if candidate.cost <= question.budget]
        if not pool:
            cheapest = min(trusted, key=lambda candidate: candidate.cost)
            prices = {"currency": cheapest.currency, "cheapest": str(cheapest), "cost": cheapest.cost}
            return None, word("doubts", "over_budget", budget=question.budget, **prices)
    if question.deadline_h is not None:
        in_time = [each for each in pool if each.walls and np.median(each.walls) / 3600 <= question.deadline_h]
        if not in_time:
            known = [candidate for candidate in pool if candidate.walls]
            if not known:
                return None, word("doubts", "wall_unknown")
            fastest = min(known, key=lambda candidate: np.median(candidate.walls))
            hours, is_within_budget = np.median(fastest.walls) / 3600, question.budget is not None
            times = {"deadline_h": question.deadline_h, "fastest": str(fastest), "hours": hours}
            return None, word("doubts", "too_late", is_within_budget=is_within_budget, **times)
        return min(in_time, key=lambda candidate: (candidate.price, candidate.num_gpus)), None
    by_count = _choose_by_count(pool, question.worth_doubling)
    chosen = walk(by_count, question.worth_doubling)
    # Idle devices of a node may make fewer devices dearer, and several nodes dearer than one.
    better = _choose_better(chosen, pool)
    if better.num_gpus != chosen.num_gpus:
        further = {count: each for count, each in by_count.items() if count > better.num_gpus}
        better = _choose_better(walk({better.num_gpus: better} | further, question.worth_doubling), pool)
    return better, None


def _choose_better(chosen: Candidate, pool: list[Candidate]) -> Candidate:
    """Return the cheapest that is faster and cheaper, or a cheaper tie on as many devices; else the chosen one."""
    cheaper = [each for each in pool if each.is_cheaper_than(chosen)]
    better = [each for each in cheaper if each.is_told_faster_than(chosen) or _is_tie_of_as_many(each, chosen)]
    return min(better, key=lambda each: each.price, default=chosen)


def _is_tie_of_as_many(one: Candidate, other: Candidate) -> bool:
    """Whether two configurations on as many devices have repeats that cannot tell them apart."""
    return one.num_gpus == other.num_gpus and one.is_tied_by_repeats_with(other)


def _list_ties(chosen: Candidate, candidates: list[Candidate]) -> list[Candidate]:
    """Return the configurations on as many devices that the repeats cannot tell from the chosen one."""
    same = [each for each in candidates if each is not chosen and each.num_gpus == chosen.num_gpus]
    return [each for each in sorted(same, key=lambda each: each.time) if each.is_tied_with(chosen)]


def _list_alternatives(
    chosen: Candidate, candidates: list[Candidate], by_count: dict[int, Candidate]
) -> list[tuple[list[str], Candidate]]:
    """Return what a reader will ask about, with its roles: the cheapest, the fastest, the next doubling, others.

    Of the others, one is of another framework, and one of the same with another variant, input or precision.
    Of a program, whose variants do the same work, each other one is named. Each alternative stands once; the
    recommended configuration is none of its own.
    """
    cheapest = min(candidates, key=lambda each: each.price)
    same_count = [each for each in candidates if each.num_gpus == chosen.num_gpus]
    others = [each for each in same_count if each.framework != chosen.framework]
    own = [each for each in same_count if each.framework == chosen.framework and each.series != chosen.series]
    other_own = min(own, key=lambda each: each.time, default=None)
    kinds = [name for name in list_columns(SERIES) if other_own and other_own.names[name] != chosen.names[name]]
    found = [
        ("cheapest", cheapest if cheapest.is_cheaper_than(chosen) else None),
        ("fastest", min(candidates, key=lambda each: each.time)),
        ("other framework", min(others, key=lambda each: each.time, default=None)),
        (f"other {' and '.join(kinds)}", other_own),
        *(("other variant", other) for other in _list_variants(chosen, candidates)),
        ("next doubling", next((each for count, each in by_count.items() if count >= 2 * chosen.num_gpus), None)),
    ]
    named: list[tuple[list[str], Candidate]] = []
    for role, other in found:
        if other is None or other is chosen:
            continue
        same = [roles for roles, each in named if each is other]
        if same:
            same[0].extend([role] if role not in same[0] else [])
        else:
            named.append(([role], other))
    return named


def _list_variants(chosen: Candidate, candidates: list[Candidate]) -> list[Candidate]:
    """Return the fastest configuration of each other variant of a program, if possible on as many devices."""
    if chosen.names["input"] != PROGRAM:
        return []
    best: dict[str, Candidate] = {}
    for each in sorted(candidates, key=lambda each: (each.num_gpus != chosen.num_gpus, each.time)):
        best.setdefault(each.names["variant"], each)
    return [each for variant, each in best.items() if variant != chosen.names["variant"]]


def _compare(other: Candidate, chosen: Candidate) -> Facts:
    """Compare an alternative with the recommended configuration."""
    difference = fmean(other.qualities) - fmean(chosen.qualities) if other.qualities and chosen.qualities else np.nan
    return {
        "times_faster": other.gain_over(chosen).as_fact(),
        "is_tied": other.is_tied_with(chosen),
        "times_price": other.price / chosen.price if other.currency == chosen.currency and chosen.price else None,
        "quality_difference": difference if np.isfinite(difference) else None,
    }


def _name(candidate: Candidate) -> Facts:
    names = candidate.names
    size = int(names["per_device_batch_size"])
    return {
        "num_gpus": candidate.num_gpus,
        "num_nodes": int(names["num_nodes"]),
        "placement": names["placement"],
        **{name: names[name] for name in list_columns(SERIES)},
        "device_models": sorted(candidate.models),
        "series": names["series"],
        "per_device_batch_size": size,
        "accumulate": names["global_batch_size"] // (size * candidate.num_gpus),
    }


def _describe(candidate: Candidate, by_count: dict[int, Candidate]) -> Facts:
    """Return all numbers of a configuration. Its efficiency is that against the baseline, the fastest on the fewest.

    by_count: empty for what is compared with nothing.
    """
    first = next(iter(by_count.values()), None)
    is_base = candidate is first
    speedup = None if first is None or is_base else candidate.gain_over(first)
    return {
        **_name(candidate),
        "duration_s": summarize(candidate.durations),
        "wall_s": summarize(candidate.walls),
        "images_per_s": summarize(candidate.rates),
        "cost": summarize(candidate.costs),
        "cost_per_million": summarize(candidate.costs_per_million),
        "currency": candidate.currency,
        "device_seconds": candidate.time * candidate.num_billed,
        "is_baseline": is_base,
        "speedup": speedup.as_fact() if speedup else None,
        "efficiency": speedup.median * first.num_gpus / candidate.num_gpus if speedup and first else None,
        "quality": summarize(candidate.qualities),
        "roc_auc": summarize(candidate.areas),
        "loss": summarize(candidate.losses),
        "memory_gib": max(candidate.memories, default=None),
        "num_planned": candidate.names["num_planned"],
        "num_repeats": candidate.num_repeats,
        "num_disturbed": candidate.num_disturbed,
        "run_dirs": candidate.run_dirs,
    }

"""
Effects of unfair protocols of published studies: each framework under the protocol, and its own comparable runs.

A row can be compared only with its own fair value. Values are medians over the repeats. `effect` is the ratio of a rate
or time under the protocol to the fair one of the same repeat, or the difference of a quality. Frameworks that a
protocol does not change keep their fair values in the order of frameworks under it.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.metrics import load_metric
from howmanygpus.report.outcomes import read_outcomes
from howmanygpus.report.predictions import read_predictions
from howmanygpus.report.published import (
    AUGMENTATION,
    BATCH_STATISTICS,
    COMPARED,
    EVERY_LOSS,
    FIRST_EPOCH,
    FIRST_STATISTICS,
    FROZEN_BATCHES,
    NO,
    ONCE,
    OTHER_IMAGES,
    UNSURE,
    YES,
    describe_protocol,
    is_fair,
)
from howmanygpus.report.tables.batch_sizes import choose_target
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy
from howmanygpus.report.words import word

READS = ("results", "runs", "evaluations")
USES_METRIC = True
IS_MERGED = True
CATEGORY = "More"
RATE, TIME, QUALITY = "images_per_s", "time_to_accuracy_s", "quality_last"
MEASURES = {
    FIRST_EPOCH: (RATE, TIME),
    OTHER_IMAGES: (QUALITY,),
    BATCH_STATISTICS: (QUALITY, TIME),
    AUGMENTATION: (RATE, QUALITY, TIME),
    FIRST_STATISTICS: (QUALITY, TIME),
    FROZEN_BATCHES: (RATE, QUALITY, TIME),
    EVERY_LOSS: (RATE, TIME),
}
"""Measures that each protocol can change. No rate includes evaluation."""
REPEATING = [name for name in MEASURES if name not in (FIRST_EPOCH, OTHER_IMAGES)]
"""Protocols that have runs of their own."""
ENDS = ("median", "min", "max")
COLUMNS = (
    *("protocol", "comparable", *COMPARED, "framework", "measure", "metric", "target", "num_images"),
    *(f"{name}_{end}" for name in ("fair", "unfair") for end in ENDS),
    *("effect", *(f"effect_{end}" for end in ENDS), "num_repeats", "num_disturbed"),
    *("fair_rank", "unfair_rank", "fair_order", "unfair_order", "order_changes"),
)
Repeats = dict[str, dict[int, float]]
"""Values by framework and repeat."""


def tabulate(plan: dict, runs: pd.DataFrame, evaluations: pd.DataFrame, results: Path = Path()) -> pd.DataFrame:
    """One row per protocol, measure, configuration and framework that follows the protocol.

    runs, evaluations: the tables of these names; results: the folder that holds `results/`.
    """
    others = evaluate_other_images(plan, results) if plan["config"]["protocols"][OTHER_IMAGES] else {}
    return compute_protocols(runs, evaluations, plan["config"], others)


def evaluate_other_images(plan: dict, results: Path) -> dict[tuple, tuple[float | None, int]]:
    """Return the last quality on the first images of the test split, and their number, by the values of IDENTITY."""
    metric, found = load_metric(plan["config"]["quality"]["metric"]), {}
    for outcome in read_outcomes(plan, results):
        count = plan["protocols"].get(outcome.path, {}).get("evaluates")
        if count is None or outcome.status != "completed":
            continue
        evaluations = list(read_predictions(outcome.folder / "predictions.npz"))
        if evaluations:
            quality = metric.compute(evaluations[-1].first(count))
            found[tuple(outcome.identity.values())] = (quality, count)
    return found


def compute_protocols(
    runs: pd.DataFrame, evaluations: pd.DataFrame, config: dict, others: dict[tuple, tuple[float | None, int]]
) -> pd.DataFrame:
    """Return the table's rows. config: the study's. others: result of evaluate_other_images."""
    given, first = config["protocols"], next(iter(config["variants"]))
    runs = runs[runs["status"] == "completed"]
    fair = runs[is_fair(runs) & (runs["variant"] == first)]
    target = choose_common_target(fair, evaluations, config["quality"])
    fair, runs = (add_times(table, evaluations, config["quality"], target) for table in (fair, runs))
    unfair = {
        FIRST_EPOCH: include_first_epoch(fair) if given[FIRST_EPOCH] else fair.iloc[:0],
        OTHER_IMAGES: replace_quality(fair, others),
    } | {name: runs[runs["variant"].eq(name) & ~is_fair(runs)] for name in REPEATING}
    rows = []
    for protocol, measures in MEASURES.items():
        for measure in measures:
            facts: dict = {"protocol": protocol, "comparable": describe_protocol(protocol), "measure": measure}
            facts |= {"metric": config["quality"]["metric"]} if measure in (QUALITY, TIME) else {}
            facts |= {"target": target} if measure == TIME else {}
            better = max if is_higher_better(measure, config["quality"]["metric"]) else min
            rows += [facts | row for row in compare(fair, unfair[protocol], measure, better)]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"num_images": "Int64"})


def is_higher_better(measure: str, metric: str) -> bool:
    return measure == RATE or (measure == QUALITY and load_metric(metric).BETTER == "higher")


def choose_common_target(fair: pd.DataFrame, evaluations: pd.DataFrame, quality: dict) -> float | None:
    """Return the threshold to which times count, which is also the target of the table of batch sizes."""
    times = compute_time_to_accuracy(fair, evaluations, quality)
    return choose_target(times) if len(times) else None


def add_times(runs: pd.DataFrame, evaluations: pd.DataFrame, quality: dict, target: float | None) -> pd.DataFrame:
    """Add the training time to the target; empty if a run did not reach it."""
    thresholds = [] if target is None else [target]
    times = compute_time_to_accuracy(runs, evaluations, quality | {"thresholds": thresholds})
    known = times.set_index(IDENTITY)[TIME] if len(times) else pd.Series(dtype=float)
    keys = runs[IDENTITY].itertuples(index=False, name=None)
    return runs.assign(**{TIME: [known.get(key, np.nan) for key in keys]}).astype({TIME: float})


def include_first_epoch(fair: pd.DataFrame) -> pd.DataFrame:
    """Return the runs with all images over all seconds of training, the first step with its compilation included.

    train_s and the time to accuracy leave out the first step, which is compile_s; rates leave out the warm-up as well.
    """
    columns = ["compile_s", "train_s", "images_seen"]
    compile_s, train_s, images = (fair[name].astype(float) for name in columns)
    rate = (images / (compile_s + train_s)).where(fair[RATE].notna())
    return fair.assign(**{RATE: rate, TIME: fair[TIME] + compile_s})


def replace_quality(fair: pd.DataFrame, others: dict[tuple, tuple[float | None, int]]) -> pd.DataFrame:
    """Return the runs that were evaluated on other images, with the quality on these and their number."""
    keys = list(fair[IDENTITY].itertuples(index=False, name=None))
    chosen = fair[np.array([key in others for key in keys], bool)]
    found = [others[key] for key in keys if key in others]
    return chosen.assign(**{QUALITY: [quality for quality, _ in found], "num_images": [count for _, count in found]})


def compare(
    fair: pd.DataFrame, unfair: pd.DataFrame, measure: str, better: Callable[[float, float], float]
) -> list[dict]:
    """Return a row for each configuration and framework with a value under the protocol. better: `max` or `min`."""
    configurations = dict(list(unfair[unfair[measure].notna()].groupby(COMPARED, sort=False)))
    rows = []
    for configuration, own in fair[fair[measure].notna()].groupby(COMPARED, sort=False):
        if configuration not in configurations:
            continue
        before, after = collect(own, measure), collect(configurations[configuration], measure)
        paired = {name: values for name, values in after.items() if before.get(name, {}).keys() & values.keys()}
        orders = describe_orders(before, before | paired, better)
        facts = dict(zip(COMPARED, configuration, strict=True)) | orders.pop("both")
        both = pd.concat([own, configurations[configuration]])
        for name in paired:
            used = both[both["framework"] == name]
            row = facts | {"framework": name}
            row |= {"num_images": used["num_images"].dropna().iloc[0]} if "num_images" in used else {}
            row |= {key: ranks[name] for key, ranks in orders.items()}
            row |= {"num_disturbed": int(used.drop_duplicates(["variant", "repeat"])["disturbed"].eq(True).sum())}
            rows.append(row | describe_effect(before[name], paired[name], is_ratio=measure != QUALITY))
    return rows


def collect(runs: pd.DataFrame, measure: str) -> Repeats:
    return {
        str(name): dict(zip(own["repeat"], own[measure].astype(float), strict=True))
        for name, own in runs.groupby("framework", sort=False)
    }


def describe_effect(before: dict[int, float], after: dict[int, float], is_ratio: bool) -> dict:
    """Return the columns about one framework. Effects are those of the same repeat."""
    repeats = [repeat for repeat in after if repeat in before]
    pairs = [(after[repeat], before[repeat]) for repeat in repeats]
    effects = [now / then if is_ratio else now - then for now, then in pairs]
    columns: dict = {"effect": "ratio" if is_ratio else "difference", "num_repeats": len(repeats)}
    for name, values in (("fair", list(before.values())), ("unfair", list(after.values())), ("effect", effects)):
        found = (float(np.median(values)), min(values), max(values))
        columns |= {f"{name}_{end}": value for end, value in zip(ENDS, found, strict=True)}
    return columns


def describe_orders(before: Repeats, after: Repeats, better: Callable[[float, float], float]) -> dict[str, dict]:
    """Return the ranks of all frameworks before and after, and (`both`) the orders and whether they differ.

    before, after: values of the same frameworks. A change of places within the spread of repeats does not count.
    """
    medians = [{name: np.median(list(own.values())) for name, own in values.items()} for values in (before, after)]
    orders = [sorted(medians[0], key=lambda name: medians[0][name], reverse=better is max)]
    # Frameworks with the same value keep their order.
    orders.append(sorted(orders[0], key=lambda name: medians[1][name], reverse=better is max))
    ranks = [{name: position for position, name in enumerate(order, start=1)} for order in orders]
    changed = NO
    for position, one in enumerate(orders[0]):
        for other in orders[0][position + 1 :]:
            if ranks[1][one] > ranks[1][other]:
                changed = max(changed, describe_swap(before, after, one, other), key=[NO, UNSURE, ONCE, YES].index)
    texts = [" > ".join(order) for order in orders]
    changes = word("tables", "order_changes", code=changed) if len(before) > 1 else None
    both = {"fair_order": texts[0], "unfair_order": texts[1], "order_changes": changes}
    return {"fair_rank": ranks[0], "unfair_rank": ranks[1], "both": both}


def describe_swap(before: Repeats, after: Repeats, one: str, other: str) -> str:
    """Say how certain it is that two frameworks change places: their ranges must not overlap before and after."""
    ranges = [[list(values[name].values()) for name in (one, other)] for values in (before, after)]
    if any(max(min(a), min(b)) <= min(max(a), max(b)) for a, b in ranges):
        return UNSURE
    return ONCE if min(len(values) for pair in ranges for values in pair) == 1 else YES

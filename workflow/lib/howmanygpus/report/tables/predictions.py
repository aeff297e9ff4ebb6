"""
Rate, time and price on device counts beyond those that were measured, as brackets; `predict` of the study names them.

`step_s` and `images_per_s` are bracketed by every way to complete the model of a step that agrees with the measured
counts, see helpers/rate_brackets.py, and the steps until the target by the batches that were measured, see
helpers/learning_brackets.py. `steps` times `step_s` is the training time; start-up and evaluation are those of the
largest measured count. The price is that of a device-hour there.

Each curve has a row for its largest measured count, too, predicted from the smaller ones: `measured_images_per_s` is
beside it, and `error_frac` says by how much the middle of the bracket is above it. If it is outside the bracket,
nothing is predicted for the curve. `widened` is the factor by which the worst miss of the other curves, of this study
and of others in the same results, widens the bracket. `bound` is what limits the rate. The noise scale is that of the
measured gradients, which checks the critical batch and changes nothing. `lacks` says why there is no number. A
prediction is never a recommendation.
"""

from collections.abc import Iterator
from math import inf
from typing import Any

import numpy as np
import pandas as pd

from howmanygpus.report.answer.candidates import Goal, choose_goal
from howmanygpus.report.columns import CURVE, IDENTITY, LINE, PLACE, list_columns
from howmanygpus.report.published import is_fair
from howmanygpus.report.rows import choose_inputs
from howmanygpus.report.tables.ceilings import measure_loader, read_workers
from howmanygpus.report.tables.helpers.controls import Repeats, is_independent
from howmanygpus.report.tables.helpers.learning_brackets import (
    Learning,
    Reached,
    bracket_noise_scale,
    bracket_steps,
)
from howmanygpus.report.tables.helpers.rate_brackets import (
    TOLERANCE,
    Bracket,
    Evidence,
    NoBracket,
    Place,
    Point,
    bracket_step,
    check_largest,
)
from howmanygpus.report.words import word

READS = ("runs", "scaling", "run_phases", "time_to_accuracy", "gradient_noise", "allreduces", "past_checks")
USES_METRIC = True
NEEDS = "predict"
IN_REPORT = True
CATEGORY = "Time and price"
ENDS = ("low", "high")
COLUMNS = [
    *(*LINE, "curve", *list_columns(PLACE, but=["placement"]), "global_batch_size"),
    *("images_per_s_low", "images_per_s", "images_per_s_high", "bound", "widened"),
    *("measured_images_per_s", "error_frac", "checked_num_gpus", "checked_error_frac"),
    *("threshold", "steps_low", "steps_high", "critical_batch_low", "critical_batch_high"),
    *("noise_scale_low", "noise_scale_high"),
    *("time_to_accuracy_s_low", "time_to_accuracy_s_high", "wall_time_s_low", "wall_time_s_high"),
    *("cost_low", "cost_high", "currency", "lacks", "lacks_target"),
]
HOUR_S = 3600.0


def tabulate(
    plan: dict,
    runs: pd.DataFrame,
    scaling: pd.DataFrame,
    run_phases: pd.DataFrame,
    time_to_accuracy: pd.DataFrame,
    gradient_noise: pd.DataFrame,
    allreduces: list[dict],
    past_checks: pd.DataFrame,
) -> pd.DataFrame:
    """One row per curve and device count: the largest that was measured, and those that are predicted.

    runs, scaling, run_phases, time_to_accuracy, gradient_noise: the tables of these names. allreduces: the records of
    all-reduces. past_checks: rows of the tables `prediction_checks` of other studies.
    """
    fair = runs[is_fair(runs)]
    goal = choose_goal(choose_inputs(fair), time_to_accuracy)
    known = list_evidence(plan, runs, scaling, run_phases, allreduces)
    checks = [check(evidence) for _, evidence in known]
    elsewhere = list(past_checks["miss"]) if len(past_checks) else []
    rows: list[dict[str, Any]] = []
    for (line, evidence), checked in zip(known, checks, strict=True):
        # Its own miss refuses a curve.
        others = [each[1].miss(each[0].step_s) for each in checks if isinstance(each, tuple) and each is not checked]
        training = Training(line, fair, time_to_accuracy, goal, gradient_noise)
        rows += list_rows(line, evidence, checked, max([1.0, *others, *elsewhere]), plan["predict"], training)
    return pd.DataFrame(rows, columns=COLUMNS)


def list_evidence(
    plan: dict, runs: pd.DataFrame, scaling: pd.DataFrame, run_phases: pd.DataFrame, allreduces: list[dict]
) -> list[tuple[pd.DataFrame, Evidence]]:
    """Return the rows of each curve with a rate, of the table `scaling`, and what is known of it."""
    repeats = Repeats(plan, runs, run_phases)
    kinds = {each["spec"]["device"]: each["spec"]["device_kind"] for each in plan["runs"].values()}
    rates = scaling[scaling["images_per_s_median"].notna()]
    lines = [rows for _, rows in rates.groupby(LINE, sort=False) if not is_independent(rows.iloc[0])]
    return [(line, collect_evidence(line, rates, repeats, allreduces, kinds)) for line in lines]


def collect_evidence(
    line: pd.DataFrame, scaling: pd.DataFrame, repeats: Repeats, allreduces: list[dict], kinds: dict[str, str]
) -> Evidence:
    """Return what is known of a curve. scaling: the rows of all curves with a rate; kinds: of the devices, by name."""
    device = line["device"].iloc[0]
    points = [read_point(row) for _, row in line.sort_values(["num_gpus", "num_nodes"]).iterrows()]
    alone = scaling[(scaling[CURVE] == line.iloc[0][CURVE]).all(axis=1) & (scaling["num_gpus"] == 1)]
    reduces: dict[Place, dict[float, float]] = {}
    own = [record for record in allreduces if record["device"] == device and record["sizes"]]
    gradients = [record for record in own if "weights" in record]
    sizes = [record["sizes"][0]["size_mib"] * 2**20 for record in gradients]
    # A program that shards its parameters does other operations than the all-reduces of fixed sizes.
    for record in gradients if any(record.get("is_sharded") for record in gradients) else own:
        place = Place(record["num_gpus"], record["num_nodes"])
        known = {size["size_mib"] * 2**20: size["median_s"] for size in record["sizes"]}
        reduces[place] = reduces.get(place, {}) | known
    measured = [repeats.find(row) for _, row in line.iterrows()]
    loader = {
        Place(int(row["num_gpus"]), int(row["num_nodes"])).on_fullest: seconds
        for (_, row), runs in zip(line.iterrows(), measured, strict=True)
        if np.isfinite(seconds := measure_loader(runs))
    }
    workers = max((read_workers(runs) for runs in measured), default=np.nan)
    return Evidence(
        points=points,
        alone={float(row["global_batch_size"]): read_point(row).step_s for _, row in alone.iterrows()},
        reduces=reduces,
        gradient_bytes=max(sizes, default=0.0),
        overlaps=kinds.get(device, "cpu") != "cpu",
        loader=loader,
        workers=float(workers) if np.isfinite(workers) else 0.0,
    )


def read_point(row: pd.Series) -> Point:
    rate, batch, count = float(row["images_per_s_median"]), float(row["global_batch_size"]), int(row["num_gpus"])
    half = (row["images_per_s_high"] - row["images_per_s_low"]) / 2 / rate
    place = Place(count, int(row["num_nodes"]))
    return Point(place, batch / count, batch / rate, float(half) if np.isfinite(half) else 0.0)


def check(evidence: Evidence) -> tuple[Point, Bracket] | NoBracket | None:
    """Return the largest measured count beside its prediction from the others, or why there is none."""
    try:
        return check_largest(evidence)
    except NoBracket as lack:
        return lack


class Training:
    """Steps until the target of a curve's framework, and what a run takes beside its training."""

    def __init__(
        self, line: pd.DataFrame, runs: pd.DataFrame, times: pd.DataFrame, goal: Goal, gradient_noise: pd.DataFrame
    ):
        """runs: the table of fair ones; times: the table time_to_accuracy."""
        keys = dict(line.iloc[0][CURVE])
        own = runs[(runs[CURVE] == pd.Series(keys)).all(axis=1) & (runs["status"] == "completed")]
        reached = times[times["threshold"] == goal.threshold] if goal.is_target else times[:0]
        reached = reached[(reached[CURVE] == pd.Series(keys)).all(axis=1)]
        noise = gradient_noise[(gradient_noise[CURVE] == pd.Series(keys)).all(axis=1)]
        self.noise_scale = bracket_noise_scale(noise["gradient_squared"], noise["variance_trace"])
        self.threshold = goal.threshold
        self.measured = [_read_reached(batch, rows) for batch, rows in reached.groupby("global_batch_size")]
        largest = own[own["num_gpus"] == own["num_gpus"].max()]
        both = reached[reached["reached"].eq(True)].merge(largest[IDENTITY], on=IDENTITY)
        starts = both["time_with_start_s"] - both["time_to_accuracy_s"]
        self.start_s = float(starts.median())
        self.evaluation_s = float((both["wall_time_s"] - both["time_with_start_s"]).clip(lower=0).median())
        self.num_gpus = int(largest["num_gpus"].iloc[0]) if len(largest) else 0
        priced = own[own["cost"].notna() & (own["billed_device_hours"] > 0)]
        prices = (priced["cost"] / priced["billed_device_hours"]).astype(float)
        self.price = float(prices.median()) if priced["currency"].nunique() == 1 else np.nan
        self.currency = priced["currency"].iloc[0] if np.isfinite(self.price) else None
        self.billed = float((largest["billed_device_hours"] / largest["device_hours"]).astype(float).median())

    def bracket(self, batch: int) -> Learning:
        return bracket_steps(self.measured, batch)

    def describe(self, count: int, batch: int, steps_s: tuple[float, float]) -> dict[str, Any]:
        """Return steps, times and price of a batch on as many devices. steps_s: bracket of the seconds of a step."""
        if self.threshold is None:
            return {}
        try:
            learning = self.bracket(batch)
        except NoBracket as lack:
            return {"threshold": self.threshold, "lacks_target": explain(str(lack))}
        found: dict[str, Any] = {"threshold": self.threshold}
        found |= {"critical_batch_low": learning.critical_low, "critical_batch_high": learning.critical_high}
        found |= {f"noise_scale_{end}": value for end, value in zip(ENDS, self.noise_scale or (), strict=False)}
        # More devices evaluate in less time at best, and in the same at worst.
        evaluations = self.evaluation_s * self.num_gpus / count, self.evaluation_s
        ends = zip(ENDS, (learning.low, learning.high), steps_s, evaluations, strict=True)
        for end, steps, step_s, evaluation_s in ends:
            train_s = steps * step_s
            wall_s = self.start_s + train_s + evaluation_s
            found |= {f"steps_{end}": steps, f"time_to_accuracy_s_{end}": train_s, f"wall_time_s_{end}": wall_s}
            found |= {f"cost_{end}": wall_s / HOUR_S * count * self.billed * self.price}
        return found | {"currency": self.currency}


def _read_reached(batch: Any, rows: pd.DataFrame) -> Reached:
    """Return the steps until the target of a global batch. rows: of its repeats in the table time_to_accuracy."""
    if not rows["reached"].eq(True).all():
        return Reached(float(batch), inf, inf)
    missed, seen = (rows[name].astype(float) / batch for name in ("missed_images", "images_seen"))
    return Reached(float(batch), float(missed.min()), float(seen.max()))


def list_rows(
    line: pd.DataFrame,
    evidence: Evidence,
    checked: tuple[Point, Bracket] | NoBracket | None,
    widened: float,
    places: list[dict],
    training: Training,
) -> Iterator[dict[str, Any]]:
    """Return the rows of one curve. places: the predicted ones of all devices, as in the plan."""
    first = line.iloc[0]
    common = name_line(line)
    refusal = str(checked) if isinstance(checked, NoBracket) else None
    errors: dict[str, Any] = {}
    if isinstance(checked, tuple):
        point, bracket = checked
        refusal = "outside_its_band" if bracket.miss(point.step_s) > 1 + max(TOLERANCE, point.error_frac) else None
        own = describe_check(line, point, bracket)
        errors = {"checked_num_gpus": own["num_gpus"], "checked_error_frac": own["error_frac"]}
        yield own
    largest = int(line["num_gpus"].max())
    for each in places:
        count = each["num_gpus"]
        if each["device"] != first["device"] or count <= largest:
            continue
        place = Place(count, each["num_nodes"])
        per_device = int(first["global_batch_size"]) // int(first["num_gpus"])
        batch = per_device * count if first["scaling_mode"] == "weak" else int(first["global_batch_size"])
        row = common | describe_place(place, batch) | errors
        if batch % count:
            yield row | {"lacks": explain("indivisible_batch")}
            continue
        try:
            if refusal:
                raise NoBracket(refusal)
            bracket = bracket_step(evidence, place, batch / count)
        except NoBracket as lack:
            yield row | {"lacks": explain(str(lack))}
            continue
        ends = bracket.low / widened, bracket.high * widened
        yield row | describe_rate(bracket, batch, widened) | training.describe(count, batch, ends)


def name_line(line: pd.DataFrame) -> dict[str, Any]:
    return {name: line.iloc[0][name] for name in (*LINE, "curve")}


def describe_check(line: pd.DataFrame, point: Point, bracket: Bracket) -> dict[str, Any]:
    """Return the largest measured count of a curve beside its bracket from the smaller ones."""
    batch = round(point.images * point.place.num_gpus)
    own = name_line(line) | describe_place(point.place, batch) | describe_rate(bracket, batch, 1.0)
    return own | {"measured_images_per_s": batch / point.step_s, "error_frac": point.step_s / bracket.middle - 1}


def explain(code: str) -> str:
    """Say why there is no number. code: see NoBracket."""
    return word("tables", "no_prediction", code=code)


def describe_place(place: Place, batch: int) -> dict[str, Any]:
    return vars(place) | {"global_batch_size": batch}


def describe_rate(bracket: Bracket, batch: int, widened: float) -> dict[str, Any]:
    return {
        "images_per_s_low": batch / (bracket.high * widened),
        "images_per_s": batch / bracket.middle,
        "images_per_s_high": batch / (bracket.low / widened),
        "bound": bracket.bound,
        "widened": widened,
    }

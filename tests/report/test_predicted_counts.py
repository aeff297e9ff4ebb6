"""Brackets beyond the measured counts hold the truth of simulated clusters, and what nothing shows is refused."""

from dataclasses import dataclass, replace
from math import ceil, log2

import numpy as np
import pandas as pd
import pytest

from helpers.constructed_studies import Grid, Truth, make_tables, store
from howmanygpus.report.answer.predicted import describe_predicted
from howmanygpus.report.columns import IDENTITY, SERIES, list_columns
from howmanygpus.report.tables import gradient_noise, prediction_checks, predictions, time_to_accuracy
from howmanygpus.report.tables.helpers.learning_brackets import Reached, bracket_noise_scale, bracket_steps
from howmanygpus.report.tables.helpers.rate_brackets import (
    Evidence,
    NoBracket,
    Place,
    Point,
    bracket_step,
    check_largest,
    expect_normal_maximum,
)
from howmanygpus.report.words import word

SEEDS = range(20)
GRADIENTS = 100e6
"""Bytes of the gradients of the simulated network."""
MIB = 2.0**20
HELD = 0.9
"""Part of the brackets that must hold the truth."""


@dataclass(frozen=True)
class Cluster:
    """A cluster with 64 devices a node whose steps take known times.

    spread: relative standard deviation of a device's time, which `shape` distributes. loader_s: of a worker for an
    image, which grows by loader_growth of it with each further device of a node. slow_down: of each device by each
    other one of its node. decline: bandwidth after each doubling of the devices over that before. narrow_from: number
    of nodes from which on the bandwidth between them is a third.
    """

    random: np.random.Generator
    compute_s: float
    latency_s: float = 1e-5
    bandwidth: float = 5e10
    between_nodes: float = 5e9
    is_ring: bool = True
    overlap: float = 0.5
    contention: float = 1.2
    spread: float = 0.005
    shape: str = "normal"
    loader_s: float = 0.0
    loader_growth: float = 0.0
    slow_down: float = 0.0
    decline: float = 1.0
    devices_per_node: int = 64
    narrow_from: int = 1000

    def reduce(self, place: Place, size: float) -> float:
        if place.num_gpus == 1:
            return 0.0
        count = place.num_nodes if place.num_nodes > 1 else place.num_gpus
        hops = 2 * (count - 1) if self.is_ring else 2 * log2(count)
        bandwidth = self.between_nodes if place.num_nodes > 1 else self.bandwidth
        bandwidth *= self.decline ** log2(count) / (3 if place.num_nodes >= self.narrow_from else 1)
        return hops * self.latency_s + 2 * (place.num_gpus - 1) / place.num_gpus * size / bandwidth

    def place(self, count: int) -> Place:
        return Place(count, ceil(count / self.devices_per_node))

    def time_step(self, count: int, images: float) -> float:
        place = self.place(count)
        on_node = place.on_fullest
        times = {
            "normal": lambda size: self.random.normal(0, self.spread, size),
            "exponential": lambda size: self.random.exponential(self.spread, size) - self.spread,
            "lognormal": lambda size: np.exp(self.random.normal(0, self.spread, size)) - np.exp(self.spread**2 / 2),
        }[self.shape]((3000, count))
        compute_s = self.compute_s * (1 + times.max(axis=1).mean()) * (1 + self.slow_down * (on_node - 1))
        exposed_s = max(0.0, self.contention * self.reduce(place, GRADIENTS) - self.overlap * 2 / 3 * self.compute_s)
        return max(compute_s + exposed_s, self.time_image(on_node) * images / 4)

    def time_image(self, on_node: int) -> float:
        return self.loader_s * (1 + self.loader_growth * (on_node - 1))

    def measure(self, counts: tuple[int, ...], images: float = 64.0, knows_exchange: bool = True) -> Evidence:
        """Return what three repeats of each count, with 1 % of scatter, and the preflight tell."""
        points, reduces, loader = [], {}, {}
        for count in counts:
            place = self.place(count)
            repeats = self.time_step(count, images) * (1 + self.random.normal(0, 0.01, 3))
            median = float(np.median(repeats))
            points.append(Point(place, images, median, float(np.ptp(repeats)) / 2 / median))
            if count > 1:
                sizes = (MIB, 16 * MIB, 128 * MIB)
                reduces[place] = {size: self.reduce(place, size) * (1 + self.random.normal(0, 0.03)) for size in sizes}
            if self.loader_s:
                loader[place.on_fullest] = self.time_image(place.on_fullest) * (1 + self.random.normal(0, 0.02))
        alone = {images: points[0].step_s} if counts[0] == 1 else {}
        known = reduces if knows_exchange else {}
        return Evidence(points, alone, known, GRADIENTS, True, loader, 4.0 if loader else 0.0)


def draw_cluster(kind: str, seed: int) -> Cluster:
    random = np.random.default_rng([seed, *kind.encode()])
    compute_s = random.uniform(0.05, 0.4)
    cluster = Cluster(
        random,
        compute_s,
        latency_s=random.uniform(5e-6, 3e-5),
        bandwidth=random.uniform(8e9, 2e11),
        between_nodes=random.uniform(6e8, 1.2e10),
        is_ring=bool(random.random() < 0.5),
        overlap=random.uniform(0, 1),
        contention=random.uniform(0.8, 1.8),
    )
    return {
        "linear": lambda: cluster,
        "latency": lambda: replace(cluster, latency_s=compute_s * random.uniform(0.002, 0.02)),
        "bandwidth between nodes": lambda: replace(cluster, devices_per_node=4),
        "declining bandwidth": lambda: replace(
            cluster, bandwidth=GRADIENTS / compute_s, decline=random.uniform(0.5, 0.7), latency_s=1e-6
        ),
        "input": lambda: replace(
            cluster, loader_s=random.uniform(0.5, 1.1) * compute_s / 16, loader_growth=random.uniform(0, 0.15)
        ),
        "stragglers": lambda: replace(
            cluster,
            spread=random.uniform(0.01, 0.15),
            shape=random.choice(["normal", "exponential", "lognormal"]),
        ),
        "shared node": lambda: replace(cluster, slow_down=random.uniform(0.005, 0.05)),
        "second switch": lambda: replace(cluster, devices_per_node=4, between_nodes=1.5e9, narrow_from=5),
    }[kind]()


def hold(kind: str, **known) -> tuple[list[bool], list[float]]:
    """Return for each seed with a number whether the bracket at four times the largest count holds, and its width."""
    held, widths = [], []
    for seed in SEEDS:
        cluster = draw_cluster(kind, seed)
        counts = (4, 8) if cluster.devices_per_node == 4 else (1, 2, 4)
        evidence = cluster.measure(counts, **known)
        count = 4 * counts[-1]
        try:
            bracket, checked = bracket_step(evidence, cluster.place(count), 64.0), check_largest(evidence)
        except NoBracket:
            continue
        assert checked is not None
        if checked[1].miss(checked[0].step_s) > 1.02:
            continue
        truth = cluster.time_step(count, 64.0)
        held.append(bracket.low <= truth <= bracket.high)
        widths.append(bracket.high / bracket.low)
    return held, widths


@pytest.mark.parametrize(
    ("kind", "width"),
    [
        ("linear", 1.4),
        ("latency", 2.6),
        ("bandwidth between nodes", 1.8),
        ("declining bandwidth", 3.5),
        ("input", 2.0),
        ("stragglers", 1.7),
        ("shared node", 1.7),
    ],
)
def test_brackets_hold_the_truth_at_four_times_the_largest_count(kind, width):
    held, widths = hold(kind)
    assert len(held) >= 15 and np.mean(held) >= HELD
    # A bracket that holds everything says nothing.
    assert np.median(widths) < width


def test_without_an_allreduce_the_bracket_is_wider_and_holds():
    held, widths = hold("linear", knows_exchange=False)
    assert np.mean(held) >= HELD and np.median(widths) > 2


def test_a_network_that_changes_at_the_second_switch_is_not_foreseen():
    """Nothing that was measured shows it. The caption of the table says so."""
    held, _ = hold("second switch")
    assert np.mean(held) < HELD


def test_exchange_between_more_nodes_than_were_measured_is_not_guessed():
    evidence = draw_cluster("linear", 0).measure((1, 2, 4))
    with pytest.raises(NoBracket, match="no_allreduce_of_nodes"):
        bracket_step(evidence, Place(128, 2), 64.0)
    unknown = draw_cluster("linear", 0).measure((1, 2, 4), knows_exchange=False)
    with pytest.raises(NoBracket, match="no_allreduce_of_nodes"):
        bracket_step(unknown, Place(128, 2), 64.0)


def test_the_preflight_predicts_two_nodes_from_one():
    """The all-reduce was measured on the second node, and nothing was trained there."""
    cluster = draw_cluster("bandwidth between nodes", 3)
    evidence = cluster.measure((1, 2, 4, 8))
    one_node = replace(evidence, points=evidence.points[:3])
    bracket = bracket_step(one_node, Place(8, 2), 64.0)
    assert bracket.low <= cluster.time_step(8, 64.0) <= bracket.high
    assert bracket.high / bracket.low < 1.8


def test_a_curve_that_no_model_describes_has_no_number():
    points = [Point(Place(count, 1), 64.0, step_s) for count, step_s in ((1, 1.0), (2, 3.0), (4, 1.0))]
    with pytest.raises(NoBracket, match="no_fit"):
        bracket_step(Evidence(points), Place(8, 1), 64.0)


def test_strong_scaling_takes_smaller_batches_from_one_device():
    """A step of 8 images takes as long as one of 16, which a line through larger batches does not show alone."""
    alone = {batch: 0.02 + 0.001 * batch for batch in (16.0, 32.0, 64.0)}
    points = [Point(Place(1, 1), 64.0, alone[64.0]), Point(Place(2, 1), 32.0, alone[32.0])]
    bracket = bracket_step(Evidence(points, alone), Place(4, 1), 16.0)
    assert bracket.low <= alone[16.0] <= bracket.high
    halved = bracket_step(Evidence(points, alone), Place(8, 1), 8.0)
    assert halved.low <= 0.02 + 0.008 <= halved.high and halved.high > 0.03


def test_the_expected_maximum_of_normal_values():
    """Tippett 1925, Biometrika 17, table of the mean extreme: 0.56419 for two values, 1.42360 for eight."""
    assert expect_normal_maximum(1) == pytest.approx(0, abs=1e-6)
    assert expect_normal_maximum(2) == pytest.approx(0.56419, abs=1e-3)
    assert expect_normal_maximum(8) == pytest.approx(1.42360, abs=1e-3)


def measure_learning(seed: int, batches: list[int], repeats: int = 3) -> tuple[list[Reached], float]:
    """Return the steps to a target of some batches, between two evaluations, and those of twice the largest batch."""
    random = np.random.default_rng(seed)
    fewest, critical = random.uniform(200, 3000), random.uniform(32, 4000)
    measured = []
    for batch in batches:
        steps = fewest * (1 + critical / batch) * (1 + random.normal(0, 0.03, repeats))
        epoch = 10_000 / batch
        reached = np.ceil(steps / epoch) * epoch
        measured.append(Reached(batch, float((reached - epoch).min()), float(reached.max())))
    return measured, fewest * (1 + critical / (2 * batches[-1]))


@pytest.mark.parametrize("batches", [[64], [64, 128], [64, 256], [64, 128, 256]])
def test_steps_of_twice_the_largest_batch(batches):
    held = []
    for seed in SEEDS:
        measured, truth = measure_learning(seed, batches)
        found = bracket_steps(measured, 2 * batches[-1])
        held.append(found.low <= truth <= found.high)
        assert found.high / found.low < 2.6
    assert np.mean(held) >= HELD


def test_learning_is_not_predicted_where_nothing_supports_it():
    measured, _ = measure_learning(0, [64, 128])
    with pytest.raises(NoBracket, match="batch_too_large"):
        bracket_steps(measured, 512)
    missed = [*measured, Reached(256, np.inf, np.inf)]
    with pytest.raises(NoBracket, match="misses_target"):
        bracket_steps(missed, 256)
    assert bracket_steps(missed, 192).low > 0
    rising = [Reached(64, 90, 100), Reached(128, 190, 200)]
    with pytest.raises(NoBracket, match="no_learning_fit"):
        bracket_steps(rising, 256)


def make_times(runs: pd.DataFrame, reach: dict[int, tuple[int, int]]) -> pd.DataFrame:
    """Return a table time_to_accuracy. reach: steps between which a global batch reaches 0.9; none if it never does."""
    own = runs[[*IDENTITY, "status", "disturbed", "init_s", "compile_s", "images_per_s"]]
    rows = []
    for run in own.to_dict("records"):
        batch = run["global_batch_size"]
        row = {**run, "metric": "accuracy", "better": "higher", "threshold": 0.9, "reached": batch in reach}
        if row["reached"]:
            missed, seen = (steps * batch for steps in reach[batch])
            train_s = seen / run["images_per_s"]
            row |= {"missed_images": missed, "images_seen": seen, "time_to_accuracy_s": train_s}
            row |= {"time_with_start_s": train_s + 1.5, "wall_time_s": train_s + 1.5 + 4.0}
        rows.append(row)
    return pd.DataFrame(rows, columns=time_to_accuracy.COLUMNS)


NO_NOISE = pd.DataFrame(columns=gradient_noise.COLUMNS)


def measure_noise(runs: pd.DataFrame, scale: float, seed: int = 0) -> pd.DataFrame:
    """Return a table gradient_noise with four measurements of each run, which scatter by 20 % around a noise scale."""
    random, rows = np.random.default_rng(seed), []
    for run in runs[IDENTITY].to_dict("records"):
        for step in range(4):
            square, trace = 1 + 0.2 * random.standard_normal(), scale * (1 + 0.2 * random.standard_normal())
            rows.append(run | {"step": step, "gradient_squared": square, "variance_trace": trace})
    return pd.DataFrame(rows, columns=gradient_noise.COLUMNS)


def tabulate(folder, truth, grid, places, allreduces=(), reach=None, price=None, noise_scale=None, past=()):
    tables = make_tables(folder, truth, grid, allreduces)
    plan = store(folder / "again", truth, grid) | {"predict": places}
    times = make_times(tables["runs"], reach) if reach else pd.DataFrame(columns=time_to_accuracy.COLUMNS)
    given = {name: tables[name] for name in ("runs", "scaling", "run_phases")}
    if price:
        hours = {"device_hours": 1.0, "billed_device_hours": 2.0, "cost": 2 * price, "currency": "EUR"}
        given["runs"] = given["runs"].assign(**hours)
    given["gradient_noise"] = measure_noise(tables["runs"], noise_scale) if noise_scale else NO_NOISE
    past_checks = pd.DataFrame({"miss": list(past)}) if past else pd.DataFrame()
    measured = {"time_to_accuracy": times, "allreduces": list(allreduces), "past_checks": past_checks}
    return predictions.tabulate(plan, **given, **measured)


GRID = Grid(counts=(1, 2, 4), diagnoses=False)


def places(*counts, num_nodes=1):
    return [{"device": "cpu", "num_gpus": count, "num_nodes": num_nodes} for count in counts]


def test_the_table_has_the_check_and_the_predicted_counts(tmp_path):
    table = tabulate(tmp_path, Truth(noise=0.005, exchange_s=lambda run: 0.002), GRID, places(8, 16))
    assert list(table["num_gpus"]) == [4, 8, 16] and list(table["global_batch_size"]) == [128, 256, 512]
    checked, *predicted = table.to_dict("records")
    assert checked["measured_images_per_s"] == pytest.approx(128 / 0.034, rel=0.02)
    assert checked["images_per_s_low"] < checked["measured_images_per_s"] < checked["images_per_s_high"]
    assert checked["error_frac"] == pytest.approx(
        checked["images_per_s"] / checked["measured_images_per_s"] - 1, abs=1e-6
    )
    for row in predicted:
        assert row["images_per_s_low"] < row["global_batch_size"] / 0.034 < row["images_per_s_high"]
        assert row["checked_num_gpus"] == 4 and row["checked_error_frac"] == checked["error_frac"]
        assert pd.isna(row["measured_images_per_s"]) and pd.isna(row["lacks"])


def test_a_curve_that_missed_its_largest_count_predicts_nothing(tmp_path):
    """Four devices are slower than one, as after a fault of the network."""
    truth = Truth(noise=0.005, exchange_s=lambda run: 0.5 if run.num_gpus == 4 else 0.0)
    (row,) = tabulate(tmp_path, truth, GRID, places(8)).query("num_gpus == 8").to_dict("records")
    assert pd.isna(row["images_per_s"]) and row["lacks"] == word("tables", "no_prediction", code="outside_its_band")


def test_a_program_without_losses_has_a_rate_and_no_time(tmp_path):
    grid = Grid(counts=(1, 2, 4), diagnoses=False, inputs=("program",))
    table = tabulate(tmp_path, Truth(noise=0.005), grid, places(8), price=3.0)
    (row,) = table.query("num_gpus == 8").to_dict("records")
    assert row["images_per_s_low"] < 256 / 0.032 < row["images_per_s_high"]
    known = {name for name in table.columns if pd.notna(row[name])}
    assert not known & {"threshold", "steps_low", "time_to_accuracy_s_low", "wall_time_s_low", "cost_low", "lacks"}
    (one,) = describe(table)
    text = word("predicted", "predicted", one=one, unit="tokens")
    assert "tokens/s" in text and "to the target" not in text and "EUR" not in text


def test_measured_counts_are_not_predicted_and_other_nodes_say_what_lacks(tmp_path):
    table = tabulate(tmp_path, Truth(noise=0.005), GRID, [*places(2), *places(8, num_nodes=2)])
    assert list(table["num_gpus"]) == [4, 8]
    assert "diagnose: true" in table["lacks"].iloc[1]


def test_time_and_price_are_those_of_the_steps_and_the_rate(tmp_path):
    """Twice the batch needs half the steps below the critical batch. Half of what is billed does not compute."""
    truth, reach = Truth(noise=0.002), {32: (790, 810), 64: (395, 405), 128: (197, 203)}
    table = tabulate(tmp_path, truth, GRID, places(8, 16), reach=reach, price=3.0)
    row, too_large = table[table["num_gpus"] > 4].to_dict("records")
    assert row["steps_low"] < 100 < row["steps_high"] and row["steps_high"] / row["steps_low"] < 1.3
    for end in ("low", "high"):
        other = {"low": "high", "high": "low"}[end]
        train_s = row[f"steps_{end}"] * 256 / row[f"images_per_s_{other}"]
        assert row[f"time_to_accuracy_s_{end}"] == pytest.approx(train_s)
        evaluation_s = {"low": 2.0, "high": 4.0}[end]
        assert row[f"wall_time_s_{end}"] == pytest.approx(train_s + 1.5 + evaluation_s)
        assert row[f"cost_{end}"] == pytest.approx(row[f"wall_time_s_{end}"] / 3600 * 8 * 2 * 3.0)
    assert row["currency"] == "EUR"
    assert too_large["images_per_s"] > 0 and pd.isna(too_large["time_to_accuracy_s_low"]) and too_large["lacks_target"]


def test_a_batch_that_misses_the_target_has_no_time(tmp_path):
    reach = {32: (790, 810), 64: (395, 405)}
    (row,) = (
        tabulate(tmp_path, Truth(noise=0.002), GRID, places(8), reach=reach).query("num_gpus == 8").to_dict("records")
    )
    assert row["images_per_s"] > 0 and pd.isna(row["wall_time_s_low"]) and "did not reach" in row["lacks_target"]


ASKED = {"deadline_h": None, "budget": None, "worth_doubling": 1.5}


def describe(table, asked=ASKED, **changes):
    """Return what the answer says beyond a recommendation on two devices with 32 images each."""
    chosen = {name: table[name].iloc[0] for name in list_columns(SERIES)}
    chosen |= {"num_gpus": 2, "per_device_batch_size": 32, "accumulate": 1} | changes
    none = {"of": "x", "recommended": None, "counts": []}
    return describe_predicted(table, [{"of": "", "recommended": chosen}, none], asked)


def test_the_answer_names_the_predictions_of_the_recommended_curve(tmp_path):
    truth, reach = Truth(noise=0.002), {32: (790, 810), 64: (395, 405), 128: (197, 203)}
    table = tabulate(tmp_path, truth, GRID, places(8, 16), reach=reach, price=3.0)
    (one,) = describe(table)
    assert [each["num_gpus"] for each in one["counts"]] == [8, 16]
    assert one["counts"][0]["keeps"] == {} and one["counts"][0]["cost"]["low"] > 0
    assert describe(table, framework="keras_mirrored") == []
    text = word("predicted", "predicted", one=one, unit="images")
    assert "8 x cpu" in text and "EUR" in text and "4 devices" in text and "16 x cpu" in text


@pytest.mark.parametrize(("factor", "kept"), [(2.0, "yes"), (0.5, "no")])
def test_limits_are_kept_by_the_whole_bracket_or_by_none(tmp_path, factor, kept):
    truth, reach = Truth(noise=0.002), {32: (790, 810), 64: (395, 405), 128: (197, 203)}
    table = tabulate(tmp_path, truth, GRID, places(8), reach=reach, price=3.0)
    row = table[table["num_gpus"] == 8].iloc[0]
    asked = ASKED | {"deadline_h": factor * row["wall_time_s_high"] / 3600, "budget": row["cost_low"] * 1.001}
    (one,) = describe(table, asked)
    assert one["counts"][0]["keeps"] == {"deadline": kept, "budget": "perhaps"}


@pytest.mark.parametrize("is_sharded", [True, False])
def test_all_reduces_of_fixed_sizes_tell_nothing_of_a_sharded_program(tmp_path, is_sharded):
    """Such a program does a reduce-scatter and two all-gathers in place of an all-reduce."""

    def measure(count, sizes, **more):
        rows = [{"size_mib": size, "median_s": seconds} for size, seconds in sizes.items()]
        return {"device": "cpu", "num_gpus": count, "num_nodes": 1, "sizes": rows, **more}

    truth = Truth(noise=0.002, exchange_s=lambda run: 0.003)
    gradients = [measure(count, {16.0: 0.003}, weights="w", is_sharded=is_sharded) for count in (2, 4)]
    # Slow for small arrays, as latency is, which those of the gradients alone do not tell.
    fixed = [measure(count, {1.0: 0.0029, 128.0: 0.0038}) for count in (2, 4)]
    alone = tabulate(tmp_path / "alone", truth, GRID, places(16), gradients)
    both = tabulate(tmp_path / "both", truth, GRID, places(16), [*gradients, *fixed])
    assert alone.equals(both) == is_sharded


REACH = {32: (790, 810), 64: (395, 405), 128: (197, 203)}


def test_limits_that_nothing_measured_keeps_are_answered_by_predictions(tmp_path):
    """A refusal for another reason, with a configuration that keeps them, predicts nothing."""
    table = tabulate(tmp_path, Truth(noise=0.002), GRID, places(8), reach=REACH, price=3.0)
    nearest = {name: table[name].iloc[0] for name in list_columns(SERIES)}
    nearest |= {"num_gpus": 4, "per_device_batch_size": 32, "accumulate": 1}
    deadline, budget = {"deadline_h": 0.1}, {"budget": 1.0}
    for limits in (deadline, budget, deadline | budget):
        for factor in (0.9, 1.1):
            own = nearest | {"wall_s": {"median": factor * 360.0}, "cost": {"median": factor * 1.0}}
            other = own | {"num_gpus": 1, "wall_s": {"median": 4000.0}, "cost": {"median": 5.0}}
            decision = {"of": "", "recommended": None, "counts": [other, own]}
            found = describe_predicted(table, [decision], ASKED | limits)
            assert len(found) == (factor > 1)
            for one in found:
                assert [each["num_gpus"] for each in one["counts"]] == [8]
                assert set(one["counts"][0]["keeps"]) == {name.removesuffix("_h") for name in limits}
                text = word("predicted", "predicted", one=one, unit="images")
                assert "Predicted, not measured" in text and "within the" in text


def test_a_miss_of_another_study_widens_the_bracket_by_its_factor(tmp_path):
    alone, beside = (
        tabulate(tmp_path / name, Truth(noise=0.005), GRID, places(8), past=past).query("num_gpus == 8").iloc[0]
        for name, past in (("alone", ()), ("beside", (1.0, 1.3)))
    )
    assert (alone["widened"], beside["widened"]) == (1.0, 1.3)
    assert beside["images_per_s_high"] == pytest.approx(1.3 * alone["images_per_s_high"])
    assert beside["images_per_s_low"] == pytest.approx(alone["images_per_s_low"] / 1.3)


def test_the_checks_of_a_study_are_those_of_its_predictions(tmp_path):
    truth = Truth(noise=0.005, exchange_s=lambda run: 0.5 if run.num_gpus == 4 else 0.0)
    tables, plan = make_tables(tmp_path, truth, GRID), store(tmp_path / "again", truth, GRID)
    given = {name: tables[name] for name in ("runs", "scaling", "run_phases")}
    (row,) = prediction_checks.tabulate(plan, **given, allreduces=[]).to_dict("records")
    (beside,) = tabulate(tmp_path / "beside", truth, GRID, []).to_dict("records")
    shared = [name for name in prediction_checks.COLUMNS if name in beside]
    assert {name: row[name] for name in shared} == {name: beside[name] for name in shared}
    assert row["miss"] == pytest.approx(row["images_per_s_low"] / row["measured_images_per_s"]) and row["miss"] > 1


def test_the_noise_scale_is_known_to_two_standard_errors():
    held = []
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        squares, traces = 1 + 0.3 * random.standard_normal(12), 500 * (1 + 0.3 * random.standard_normal(12))
        low, high = bracket_noise_scale(squares, traces) or (0.0, 0.0)
        held.append(low <= 500 <= high)
    assert np.mean(held) >= HELD
    assert bracket_noise_scale([1.0], [500.0]) is None and bracket_noise_scale([1.0, -2.0], [5.0, 5.0]) is None


def test_the_noise_scale_stands_beside_the_critical_batch_and_a_contradiction_is_said(tmp_path):
    """As many steps for any batch mean that all measured ones are beyond the critical batch."""
    reach, columns = dict.fromkeys((32, 64, 128), (395, 405)), ["noise_scale_low", "noise_scale_high"]
    plain = tabulate(tmp_path / "none", Truth(noise=0.002), GRID, places(8), reach=reach)
    assert plain[columns].isna().all(axis=None) and describe(plain)[0]["contradiction"] is None
    for scale, is_apart in ((100_000.0, True), (1.0, False)):
        folder = tmp_path / f"{scale:g}"
        table = tabulate(folder, Truth(noise=0.002), GRID, places(8), reach=reach, noise_scale=scale)
        row = table.query("num_gpus == 8").iloc[0]
        assert row["noise_scale_low"] < scale < row["noise_scale_high"]
        assert table.drop(columns=columns).equals(plain.drop(columns=columns))
        (one,) = describe(table)
        assert (one["contradiction"] is not None) == is_apart
        assert ("noise scale" in word("predicted", "predicted", one=one, unit="images")) == is_apart

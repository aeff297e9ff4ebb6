"""
Bounds of each curve's throughput, computed from smaller device counts, beside what was measured.

`linear_images_per_s` is the baseline's rate per device times the devices. `input_images_per_s` is the rate of the
loader's workers on all devices; the time of a worker per image (`loader_s_per_image`) is a line through the smaller
device counts, so that a resource that they share shows. `exchange_images_per_s` is the rate at which steps of the
baseline's duration, each with an all-reduce of the gradients, could follow each other. On a CPU the all-reduce takes
the cores of the training and is added to the step. On other devices it may overlap with the backward pass, two thirds
of a step. The lowest bound is the prediction, and `error_frac` is by how much it is above the measured median.

`input_bounds_from` is the smallest device count at which the loader has less than a tenth in reserve, and
`exchange_bounds_from` the smallest at which exchange takes more than a tenth of the rate; counts above those that were
measured are extrapolated. `not_known` says which measurement a bound lacks.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from howmanygpus.report.columns import LINE, POINT
from howmanygpus.report.rows import is_program
from howmanygpus.report.tables.helpers.controls import (
    NO_EXCHANGE,
    Repeats,
    is_independent,
    time_images,
)
from howmanygpus.report.tables.helpers.rate_brackets import BACKWARD_FRAC
from howmanygpus.report.tables.scaling import is_baseline
from howmanygpus.report.words import word

READS = ("runs", "scaling", "run_phases", "allreduces")
IS_MERGED = True
CATEGORY = "More"
LINEAR, INPUT, EXCHANGE = "linear", "input", "exchange"
BOUNDS = (LINEAR, INPUT, EXCHANGE)
RESERVE = 1.1
"""A loader that could give less than this many times the linear rate bounds it; so does an exchange that leaves less
than the inverse of it."""
MOST_DEVICES = 1024
"""Largest device count to which bounds are extrapolated."""
COLUMNS = [
    *(*LINE, "curve", *POINT),
    *(f"{bound}_images_per_s" for bound in BOUNDS),
    *("lowest_bound", "predicted_images_per_s", "images_per_s_median", "error_frac"),
    *("loader_s_per_image", "step_s_without_exchange", "allreduce_s", "gradients_mib"),
    *("input_bounds_from", "exchange_bounds_from", "not_known"),
]


@dataclass(frozen=True)
class Gradients:
    """Seconds of the exchange of a study's gradients by (device, devices, nodes), and their size in MiB.

    is_size_known: whether no program kept its number of parameters to itself.
    """

    seconds: dict[tuple[str, int, int], float]
    sizes_mib: dict[tuple[str, int, int], float]
    is_size_known: bool


def tabulate(
    plan: dict, runs: pd.DataFrame, scaling: pd.DataFrame, run_phases: pd.DataFrame, allreduces: list[dict]
) -> pd.DataFrame:
    """One row per configuration of each curve with a rate at its baseline.

    runs, scaling, run_phases: the tables of these names. allreduces: the records of all-reduce measurements.
    """
    repeats = Repeats(plan, runs, run_phases)
    gradients = read_gradients(allreduces)
    kinds = {each["spec"]["device"]: each["spec"]["device_kind"] for each in plan["runs"].values()}
    rows = []
    for _, line in scaling.groupby([*LINE, "placement"], sort=False):
        base = find_base(line, scaling)
        if base is not None and np.isfinite(base["images_per_s_median"]):
            # Other variants of a program may have other parameters, and no control runs that report them.
            is_measured = base["variant"] == repeats.first_variant or not is_program(line)
            own = gradients if is_measured else Gradients({}, {}, is_size_known=True)
            rows += bound_line(line, base, repeats, own, kinds.get(base["device"], "cpu") != "cpu")
    return pd.DataFrame(rows, columns=COLUMNS)


def find_base(line: pd.DataFrame, scaling: pd.DataFrame) -> pd.Series | None:
    """Return the baseline of a curve; that of several placements is on one of them."""
    same = scaling[(scaling[LINE] == line.iloc[0][LINE]).all(axis=1) & is_baseline(scaling)]
    return None if same.empty else same.iloc[0]


def read_gradients(allreduces: list[dict]) -> Gradients:
    """Return what all-reduce measurements say about the gradients of a study's network."""
    seconds, sizes = {}, {}
    for record in allreduces:
        if "weights" in record and record["sizes"]:
            key = record["device"], record["num_gpus"], record["num_nodes"]
            seconds[key], sizes[key] = record["sizes"][0]["median_s"], record["sizes"][0]["size_mib"]
    return Gradients(seconds, sizes, all(record["sizes"] for record in allreduces))


def bound_line(
    line: pd.DataFrame, base: pd.Series, repeats: Repeats, gradients: Gradients, overlaps: bool
) -> list[dict]:
    """Return the rows of one curve. overlaps: whether exchange can overlap with the backward pass."""
    line = line.sort_values("num_gpus")
    base_s = base["num_gpus"] / base["images_per_s_median"]
    alone = time_images(repeats.find(base, NO_EXCHANGE))
    compute_s = base_s if base["num_gpus"] == 1 else float(np.median(alone)) if len(alone) else np.nan
    loader = {
        row["num_gpus"]: measure_loader(repeats.find(row)) for _, row in pd.concat([base.to_frame().T, line]).iterrows()
    }
    workers = read_workers(repeats.find(base))
    starts = {"input": find_input_start(loader, workers, base_s)}
    starts["exchange"] = find_exchange_start(line, base_s, compute_s, gradients, overlaps)
    rows = []
    for _, row in line.iterrows():
        count, size = row["num_gpus"], row["global_batch_size"]
        own = {name: row[name] for name in (*LINE, "curve", *POINT, "images_per_s_median")}
        bounds = {LINEAR: count / base_s}
        per_image = predict_loader(loader, count)
        bounds[INPUT] = count * workers / per_image
        key = row["device"], count, row["num_nodes"]
        reduce_s = 0.0 if count == 1 or is_independent(row) else gradients.seconds.get(key, np.nan)
        step_s = compute_s * size / count
        bounds[EXCHANGE] = size / add_exchange(step_s, reduce_s, overlaps)
        known = {name: rate for name, rate in bounds.items() if np.isfinite(rate)}
        lowest = find_lowest(known)
        own |= {f"{name}_images_per_s": rate for name, rate in bounds.items()}
        own |= {"lowest_bound": lowest, "predicted_images_per_s": min(known.values())}
        own["error_frac"] = min(known.values()) / row["images_per_s_median"] - 1
        own |= {"loader_s_per_image": per_image, "step_s_without_exchange": step_s}
        own |= {"allreduce_s": reduce_s, "gradients_mib": gradients.sizes_mib.get(key)}
        own |= {f"{name}_bounds_from": start for name, start in starts.items()}
        rows.append(own | {"not_known": name_lacking(bounds, compute_s, reduce_s, gradients)})
    return rows


def find_lowest(bounds: dict[str, float]) -> str:
    """Return the lowest bound. A loader without reserve is it too, because it may set the baseline's rate."""
    lowest = min(bounds, key=lambda name: bounds[name])
    is_tight = bounds.get(INPUT, np.inf) < RESERVE * bounds[LINEAR]
    return INPUT if lowest == LINEAR and is_tight else lowest


def measure_loader(runs: pd.DataFrame) -> float:
    """Return the median seconds that a worker of the loader takes for an image; nan if no repeat has measured it."""
    return float(runs["loader_s_per_image"].astype(float).median())


def read_workers(runs: pd.DataFrame) -> float:
    workers = runs["loader_workers"].dropna()
    return float(workers.iloc[0]) if len(workers) else np.nan


def fit_loader(loader: dict[int, float]) -> tuple[float, float]:
    """Return offset and slope of a worker's seconds per image over device counts, by least squares.

    loader: seconds by device count. One count has no slope.
    """
    known = {count: seconds for count, seconds in loader.items() if np.isfinite(seconds)}
    if not known:
        return np.nan, np.nan
    if len(known) == 1:
        return next(iter(known.values())), 0.0
    slope, offset = np.polyfit(list(known), list(known.values()), 1)
    return float(offset), float(slope)


def predict_loader(loader: dict[int, float], count: int) -> float:
    """Predict a worker's seconds per image from smaller device counts; the smallest count has its own."""
    smaller = {each: seconds for each, seconds in loader.items() if each < count}
    offset, slope = fit_loader(smaller or {count: loader[count]})
    return max(offset + slope * count, 0.0) or np.nan


def find_input_start(loader: dict[int, float], workers: float, base_s: float) -> float:
    """Return the smallest device count at which the loader has too little in reserve; nan if there is none.

    base_s: device-seconds per image at the baseline.
    """
    offset, slope = fit_loader(loader)
    return find_start(lambda count: (offset + slope * count) / workers > base_s / RESERVE, min(loader))


def find_exchange_start(
    line: pd.DataFrame, base_s: float, compute_s: float, gradients: Gradients, overlaps: bool
) -> float:
    """Return the smallest device count at which exchange takes too much of the rate; nan if there is none.

    Beyond the measured counts, an all-reduce takes the time of the largest one by the bytes that each device sends,
    2 (n - 1) / n times the array under a ring. base_s, compute_s: device-seconds per image at the baseline, and without
    exchange.
    """
    known = {
        row["num_gpus"]: gradients.seconds[key]
        for _, row in line.iterrows()
        if (key := (row["device"], row["num_gpus"], row["num_nodes"])) in gradients.seconds
    }
    if not known or not np.isfinite(compute_s) or is_independent(line.iloc[0]):
        return np.nan
    largest = max(known)
    is_weak = line["scaling_mode"].iloc[0] == "weak"
    last = line.iloc[-1]
    per_device = last["global_batch_size"] / last["num_gpus"]

    def is_bound(count: int) -> bool:
        images = per_device if is_weak else last["global_batch_size"] / count
        if count in known:
            reduce_s = known[count]
        elif count > largest:
            reduce_s = known[largest] * ((count - 1) / count) / ((largest - 1) / largest)
        else:
            return False
        return bool(add_exchange(compute_s * images, reduce_s, overlaps) > RESERVE * base_s * images)

    return find_start(is_bound, 2)


def find_start(is_bound: Callable[[int], bool], first: int) -> float:
    """Return the smallest count from `first` to MOST_DEVICES at which something bounds; nan if there is none."""
    return next((float(count) for count in range(int(first), MOST_DEVICES + 1) if is_bound(count)), np.nan)


def add_exchange(step_s: float, reduce_s: float, overlaps: bool) -> float:
    """Return the seconds of a step with its all-reduce."""
    if not overlaps:
        return step_s + reduce_s
    return (1 - BACKWARD_FRAC) * step_s + float(np.maximum(BACKWARD_FRAC * step_s, reduce_s))


def name_lacking(bounds: dict[str, float], compute_s: float, reduce_s: float, gradients: Gradients) -> str | None:
    """Name the measurements that a configuration's bounds lack."""
    lacking = []
    if not np.isfinite(bounds[INPUT]):
        lacking.append("no_loader_time")
    if not np.isfinite(reduce_s):
        lacking.append("no_allreduce" if gradients.is_size_known else "no_parameters")
    elif not np.isfinite(compute_s):
        lacking.append("no_rate_without_exchange")
    return "; ".join(word("tables", code) for code in lacking) or None

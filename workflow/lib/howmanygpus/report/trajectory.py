"""
Compare the losses of a run's first epoch with those of all runs that do the same work.

The parity gate checks a few steps in advance. This module checks the runs themselves, also with device counts and
variants that the gate never saw. Runs do the same work if their specifications differ only in the keys that the plan
lists as `how`. Variants of a user's program, which the gate never sees either, do the same work if they differ only in
axes of `same_work`.
"""

import json
from decimal import Decimal

import numpy as np
import pandas as pd

from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.outcomes import identify
from howmanygpus.report.rows import PROGRAM

ROUNDOFF = {"fp32": 2.0**-24, "tf32": 2.0**-11, "bf16": 2.0**-9, "fp16": 2.0**-11}
COMPRESSED = 2.0**-11
"""Unit roundoff of gradients that were compressed to fp16."""
START = 256.0
"""Units of roundoff by which a loss may differ before the first update. Measured: up to 6, in eight frameworks."""
GROWTH = 1.5
"""Factor per step, for shallow networks. Measured with START: at most 1/7 of this limit, in a short DenseNet
trained by Adam, in one run of six, which passed the gate; the other five were at 1/1000 of it by then."""
FACTOR = 100.0
"""Largest ratio of a run's difference to the median difference of the others. Measured in resnet44: up to 39."""
CEILING = 0.2
"""Largest limit of a stable training. In an unstable one, rounding alone made losses differ by 0.57."""
LARGEST = 0.5
"""Limit from which on the losses are not compared: two losses differ from their median by 1 at most."""
AMPLIFIED = 1e4
"""Factor per update by which rounding grows at most. Measured: 10,000 over the first updates of a deep network."""
RESOLVED = 1e-3
"""Difference up to which growth is measured. A fault of the optimizer or of the exchange begins with more."""
STEADY = 3.0
"""Ratio of the exponents of steady growth: how far windows may differ in the logarithm of their growth per step."""
UNSURE = 10.0
"""Factor by which extrapolated growth may miss the true one."""
COLUMNS = ("trajectory", "trajectory_limit", "unstable_after_step")
KERNELS = {"keras": "tensorflow"}
"""Families of frameworks that compute with the kernels of another family, which rounds as they do."""


def add_differences(losses: pd.DataFrame, plan: dict, trained: set[tuple]) -> pd.DataFrame:
    """Add to each window the relative difference of its loss from the median of all runs that do the same work.

    losses: one row per window, with IDENTITY, last_step and loss. plan: content of results/plans/{study}.json. trained:
    identities of the runs to compare. Adds `difference` and `difference_limit`; both are empty if nothing else does the
    same work, and the limit alone where rounding explains any difference. With two runs, each differs from the median
    by half of their difference.
    """
    works, kernels, tasks = {}, {}, {}
    for planned in plan["runs"].values():
        spec = planned["spec"]
        identity = tuple(identify(plan, spec).values())
        if identity in trained:
            works[identity] = json.dumps(select_work(spec, plan["how"]))
            kernels[identity] = KERNELS.get(spec["family"], spec["family"])
            if spec["input"] == PROGRAM:
                kernels[identity] = spec["variant"]
                tasks[identity] = plan["config"]["variants"].get(spec["variant"], {}).get("work", "")
    identities = list(losses[IDENTITY].itertuples(index=False, name=None))
    work = pd.Series([works.get(identity) for identity in identities], index=losses.index, dtype=object)
    same = losses.groupby([work, "last_step"])["loss"]
    median = same.transform("median").where(same.transform("count") > 1)
    roundoff = work.map({text: compute_roundoff(json.loads(text)) for text in work.dropna().unique()}).astype(float)
    losses = losses.assign(difference=(losses["loss"] - median).abs() / median.abs(), difference_limit=np.nan)
    kernels_of = [kernels.get(identity) for identity in identities]
    run = losses.groupby(IDENTITY).ngroup()
    task = [tasks.get(identity, "") for identity in identities]
    compared = losses.assign(work=work, kernels=kernels_of, roundoff=roundoff, run=run, task=task)
    compared = compared[compared["difference"].notna()]
    for _, pool in compared.groupby(["precision", "input", "roundoff", "task"]):
        is_of_variants = pool["input"].iloc[0] == PROGRAM and pool["variant"].nunique() > 1
        losses.loc[pool.index, "difference_limit"] = limit_variants(pool) if is_of_variants else compute_limits(pool)
    return losses


def select_work(spec: dict, how: list[str]) -> dict:
    """Return the part of a specification that says which work a run does.

    how: the other keys. A key below another one is preceded by its name, as in `optimizer.name`.
    """
    kept = {key: value for key, value in spec.items() if key not in how}
    for key, value in kept.items():
        if isinstance(value, dict):
            inner = [name.removeprefix(f"{key}.") for name in how if name.startswith(f"{key}.")]
            kept[key] = select_work(value, inner)
    return kept


def compute_limits(pool: pd.DataFrame) -> list[float]:
    """Return the largest relative difference of each window that rounding explains.

    pool: windows of runs of one network with the same precision, roundoff and input, with `run`, `work`, `kernels`,
    `roundoff` and `loss`. How fast rounding grows depends on the network: a deep one multiplies it by thousands in
    one step. The limit is the larger of the growth in a shallow network, and FACTOR times the difference of the
    other runs so far, at most CEILING. That difference is the median over the kernels of the median of their runs.
    Runs without any difference are ignored, because they are copies of each other, and so are runs that
    find_informative_runs leaves out. If no run is left, the limit after the first step is CEILING.

    An unstable training has a higher ceiling: as much as the loss has risen in the calmest run of the same work, or as
    the run's own difference would be if it kept growing as it has grown from rounding. Beyond LARGEST there is no limit
    (nan), from that window on. Neither counts until rounding can have grown to CEILING.
    """
    furthest = pool.pivot(index="run", columns="last_step", values="difference").cummax(axis=1).ffill(axis=1)
    rises = measure_rises(pool)[furthest.columns].to_numpy()
    runs = pool.drop_duplicates("run").set_index("run")[["work", "kernels"]].loc[furthest.index]
    # Arrays, because there is a selection for each window of each run.
    differences, steps = furthest.to_numpy(), furthest.columns.to_numpy()
    row_of, column_of = ({label: place for place, label in enumerate(axis)} for axis in furthest.axes)
    works, kernels = (pd.factorize(runs[name])[0] for name in ("work", "kernels"))
    informative = [find_informative_runs(row, works, kernels) for row in range(len(runs))]
    limits = []
    for window in pool.itertuples():
        row, column = row_of[window.run], column_of[window.last_step]
        others = informative[row][differences[informative[row], column] > 0]
        medians = [np.median(differences[own, column]) for own in split_by(kernels, others)]
        carried = np.median(medians) if medians else np.nan
        limit = START * window.roundoff * GROWTH ** min(window.last_step - 1, 200)
        if window.last_step > 1:
            limit = max(limit, np.inf if np.isnan(carried) else FACTOR * carried)
        ceiling = CEILING
        if START * window.roundoff * AMPLIFIED ** min(window.last_step - 1, 20) > CEILING:
            rise = rises[works == works[row], column].min()
            ceiling = max(CEILING, rise, extrapolate(steps, differences[row], window.last_step))
        limit = min(limit, ceiling)
        limits.append(limit if limit <= LARGEST else np.nan)
    return limits


def limit_variants(pool: pd.DataFrame) -> list[float]:
    """Return the largest relative difference of each window that rounding explains between variants of a program.

    pool: as for compute_limits; `kernels` are variants. These have the same kernels, and add up in another order. What
    a variant does wrong, it does in all its runs, so that only runs of other variants show how fast rounding grows; of
    two variants, neither shows it. If nothing shows it, rounding grows as in a shallow network.

    Rounding makes single runs jump. A variant that differs from at least two others by more than START, and by more
    than FACTOR times their own differences, in each of its works is therefore given no growth. It needs two works or
    more, such as device counts or repeats. The precision with which losses are printed is part of each limit.
    """
    differences, sizes = (
        pool.assign(loss=pool["loss"].abs()).pivot(index="run", columns="last_step", values=name).ffill(axis=1)
        for name in ("difference", "loss")
    )
    furthest = differences.cummax(axis=1)
    runs = pool.drop_duplicates("run").set_index("run")[["work", "kernels"]].loc[furthest.index]
    is_of_several = runs.groupby("work")["kernels"].transform("nunique") > 2
    start = START * pool["roundoff"].iloc[0]
    steady, printed = [], 10.0 ** -max(map(count_decimals, pool["loss"])) / sizes
    for variant in runs["kernels"]:
        others = furthest[(runs["kernels"] != variant) & is_of_several]
        steady.append(np.fmax(start, FACTOR * others.where(others > 0).median()))
    limits = pd.DataFrame(steady, index=furthest.index).where(is_of_several, start) + printed
    is_beyond = (furthest > limits).any(axis=1) & is_of_several
    by_variant = runs["kernels"]
    is_systematic = is_beyond.groupby(by_variant).transform("all")
    is_systematic &= runs["work"].groupby(by_variant).transform("nunique") > 1
    grown = start * GROWTH ** np.minimum(furthest.columns.to_numpy() - 1, 200) + printed
    limits = limits.where(is_systematic, np.maximum(limits, grown)).clip(upper=CEILING)
    return [float(limits.at[place]) for place in zip(pool["run"], pool["last_step"], strict=True)]


def count_decimals(number: float) -> int:
    """Return the number of decimal places of the shortest text that means a number."""
    return -int(Decimal(repr(float(number))).as_tuple().exponent)


def measure_rises(pool: pd.DataFrame) -> pd.DataFrame:
    """Return by run and last step by how much the loss has exceeded its lowest earlier value so far, relative to it."""
    losses = pool.pivot(index="run", columns="last_step", values="loss").ffill(axis=1)
    lowest = losses.cummin(axis=1).shift(1, axis=1)
    return ((losses - lowest) / lowest.abs()).cummax(axis=1).ffill(axis=1).fillna(0.0)


def split_by(kernels: np.ndarray, chosen: np.ndarray) -> list[np.ndarray]:
    """Return the places of runs, apart for each kernel. kernels: a number for each run."""
    return [chosen[kernels[chosen] == kernel] for kernel in np.unique(kernels[chosen])]


def extrapolate(steps: np.ndarray, differences: np.ndarray, step: int) -> float:
    """Return the difference at a step that steady growth from rounding leads to; 0 if none was seen before.

    differences: the largest of one run so far, after each of the steps. Three windows up to RESOLVED must show the
    growth. A fault grows by a jump from the first window to the second one, and by little afterwards.
    """
    is_seen = (steps < step) & (differences > 0) & (differences <= RESOLVED)
    seen, at = differences[is_seen], steps[is_seen]
    if len(seen) < 3:
        return 0.0
    growths = np.diff(np.log(seen)) / np.diff(at)
    if growths.min() <= 0 or growths.max() > STEADY * growths.min():
        return 0.0
    growth = np.log(seen[-1] / seen[0]) / (at[-1] - at[0])
    return float(UNSURE * seen[-1] * np.exp(min(growth * (step - at[-1]), 100.0)))


def find_informative_runs(row: int, works: np.ndarray, kernels: np.ndarray) -> np.ndarray:
    """Return the places of the other runs whose differences show how fast rounding grows in one run.

    row: the place of the run. works, kernels: a number for each run. Of the same work, two runs or two kernels show
    nothing: the median is halfway, so both differ equally; with a majority, the majority differs by zero. In a short
    inception_v3, the losses of TensorFlow and Keras were equal to the last bit, and PyTorch differed from them by 0.003
    after four steps. With weights changed by their last bit, PyTorch differed from itself by 0.0003 after four steps
    and by 0.03 after forty.
    """
    same = works == works[row]
    is_left_out = np.zeros(len(works), bool)
    if same.sum() == 2:
        is_left_out = same
    elif len(np.unique(kernels[same])) == 2:
        is_left_out = same & (kernels != kernels[row])
    return np.flatnonzero(~is_left_out & (np.arange(len(works)) != row))


def summarize_trajectories(losses: pd.DataFrame) -> dict[tuple, dict]:
    """Return COLUMNS of each run that was compared, by the values of its identity.

    losses: the table of that name. The values are those of the window whose difference is largest relative to its
    limit. unstable_after_step is the last step of the windows that were compared; empty if all were.
    """
    known = losses[losses["difference"].notna()]
    compared = known[known["difference_limit"].notna()]
    compared = compared.assign(ratio=compared["difference"] / compared["difference_limit"])
    worst = compared.sort_values("ratio", kind="stable").drop_duplicates(IDENTITY, keep="last")
    found = worst.set_index(IDENTITY)[["difference", "difference_limit"]]
    last_steps = compared.groupby(IDENTITY)["last_step"].max()
    is_cut = known["difference_limit"].isna().groupby([known[name] for name in IDENTITY]).any()
    found["unstable_after_step"] = last_steps.where(is_cut).reindex(found.index)
    return found.set_axis(list(COLUMNS), axis="columns").to_dict("index")


def compute_roundoff(work: dict) -> float:
    """Return the unit roundoff of the coarsest numbers in a training step. work: as select_work returns it."""
    own = ROUNDOFF.get(work["precision"], ROUNDOFF["bf16"])
    return own if work.get("gradient_compression", "none") == "none" else max(own, COMPRESSED)


def has_unexplained_losses(runs: pd.DataFrame) -> pd.Series:
    """Return whether the losses of each run differ from those of the others by more than rounding explains."""
    return runs["trajectory"].astype(float) > runs["trajectory_limit"].astype(float)

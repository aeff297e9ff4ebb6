"""Sentences that say why a curve bends, and remedies. The numbers come from tables.explanations."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from howmanygpus.report.columns import BATCH, PLACE, SERIES, list_columns
from howmanygpus.report.drift import Drift
from howmanygpus.report.outcomes import FEWEST
from howmanygpus.report.rows import PROGRAM, count_units, name_count
from howmanygpus.report.shares import LOSS, NAMED_FRAC, UNEXPLAINED, Share

WALL_FRAC = 0.25
"""Part of the wall time from which evaluation, or start-up with the first step, gets a sentence."""
RESERVE = 1.1
"""A loader whose workers could give this many times the rate that the devices want is not what they wait for."""
PART_OF_WORKER = 0.05
"""Part of a worker that no further worker is recommended for, because rates scatter."""
IMAGE_FILES = ("png", "jpeg")
THROTTLED_FRAC = 0.1
"""Share of the measured time from which a throttled device is named."""
LEVEL_FRAC = 0.1
"""Part of a device's time from which a part that does not bend the curve is named."""
LEVELS = {"input": "input_of_time", "exchange": "exchange_of_time"}
WORDS = {
    "input": "input",
    "exchange": "exchange",
    "waiting": "waiting for whoever is slow in a step",
    "imbalance": "a slow process",
    "batch": "smaller batches on each device",
}
"""Words for the causes that may have a share."""
HIDDEN_FRAC = 0.05
"""Unexplained share from which the sentence says what is lost without each cause; causes may hide each other."""
DIAGNOSE = "diagnose: true"
"""Line of a study's config that adds the runs with resident input and without exchange."""


@dataclass(frozen=True)
class Place:
    """What a sentence is about.

    line: name of the curve. end, base: rows of `scaling`. asks: whether control runs are to be recommended. drift: of
    the study's rates.
    """

    line: str
    end: pd.Series
    base: pd.Series
    asks: bool
    drift: Drift | None

    @property
    def at(self) -> str:
        return name_devices(self.end)


def name_devices(row: pd.Series) -> str:
    """Name the devices of a configuration, and their nodes if the study has chosen them."""
    devices = name_count(int(row["num_gpus"]), "device")
    return devices if row["placement"] == FEWEST else f"{devices} of {row['placement']}"


def write_share(share: Share) -> str:
    """Write a share in percent, with the larger half of its interval if there is one, such as `22 ± 4 %`."""
    if np.isnan(share.low):
        return f"{_round(100 * share.value)} %"
    half = 100 * max(share.high - share.value, share.value - share.low)
    digits = 1 if half < 1 else 0
    return f"{_round(100 * share.value, digits)} ± {_round(half, digits)} %"


def _round(value: float, digits: int = 0) -> str:
    """Round without a minus sign before zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def name_missing(place: Place, runs: pd.DataFrame, is_of_base: bool) -> str:
    """Say that a configuration or its baseline has no rate, and why. runs: the planned repeats that have none."""
    statuses = runs["status"].replace("completed", "completed without a rate").str.replace("_", " ")
    how = ", ".join(f"{count} {status}" for status, count in statuses.value_counts().items())
    ended = f"of {name_count(len(runs), 'run')}: {how}"
    if is_of_base:
        base = name_devices(place.base)
        return f"{place.line}: the loss at {place.at} is not known; its baseline, {base}, has no rate ({ended})."
    return f"{place.line} has no rate at {place.at} ({ended})."


def explain(
    place: Place,
    row: dict,
    shares: Mapping[str, Share],
    shown: list[str],
    not_known: Mapping[str, str],
    runs: tuple[pd.DataFrame, pd.DataFrame],
) -> str:
    """Say in a sentence what a configuration loses and to what; further sentences have doubts.

    row: the row of `explanations` so far. shown: causes that the repeats tell from zero, the largest first. not_known:
    why other causes have no share. runs: the repeats of the configuration and those of its baseline.
    """
    loss = shares[LOSS]
    one = ", in one repeat and so without an interval" if np.isnan(loss.low) else ""
    if not loss.is_shown:
        nothing = "no more than repeats usually differ by" if one else "nothing measurable"
        text = f"{place.line} loses {nothing} at {place.at} ({write_share(loss)}{one})."
        if not one and abs(loss.value) >= LEVEL_FRAC:
            text = f"The repeats do not tell what {place.line} loses at {place.at} ({write_share(loss)})."
        return text + _describe_levels(place, row, shares, shown) + _describe_doubts(place, row, runs)
    if loss.value > 0:
        head = f"{place.line} loses {write_share(loss)} at {place.at}{one}"
    else:
        gain = Share(-loss.value, -loss.high, -loss.low)
        head = (
            f"{place.line} gains {write_share(gain)} at {place.at}{one}: each device is faster than at the baseline, "
            f"{name_devices(place.base)} (superlinear)"
        )
    causes = _list_causes(place, row, shares, shown, not_known) + _describe_levels(place, row, shares, shown)
    return f"{head}{causes}{_describe_doubts(place, row, runs)}"


def find_levels(shares: Mapping[str, Share], shown: list[str]) -> list[str]:
    """Return the parts that take much of a device's time and are no cause of a loss.

    A part that takes less than at the baseline is shown, and takes its time all the same.
    """
    causes = {name for name in shown if shares[name].value > 0} if shares[LOSS].is_shown else set()
    levels = {cause: shares[name] for cause, name in LEVELS.items() if name in shares and cause not in causes}
    return [cause for cause, level in levels.items() if level.is_shown and level.value >= LEVEL_FRAC]


def _describe_levels(place: Place, row: dict, shares: Mapping[str, Share], shown: list[str]) -> str:
    text = ""
    for cause in find_levels(shares, shown):
        loader = _describe_loader(row) if cause == "input" else ""
        part = f"{write_share(shares[LEVELS[cause]])} of the time at {place.at}{loader}"
        change = shares[cause].value if cause in shown else 0.0
        than = "more" if change < 0 else "less" if change > 0 else "as much"
        bends = "" if change else ", which bends no curve"
        text += f" {cause[0].upper()}{cause[1:]} takes {part}, and {than} at the baseline{bends}."
    return text


def _list_causes(
    place: Place, row: dict, shares: Mapping[str, Share], shown: list[str], not_known: Mapping[str, str]
) -> str:
    """List the causes with their shares, then the rest and what is not known about it."""
    if UNEXPLAINED not in shares:
        is_program = place.end["input"] == PROGRAM
        why = " A user's program does not report the parts of its steps." if is_program else ""
        return f". The cause is not known.{why}"
    loss, rest = (write_share(shares[name]) for name in (LOSS, UNEXPLAINED))
    lacking = f" ({'; '.join(not_known.values())})" if not_known else ""
    if not shown:
        *others, last = (WORDS[name] for name in WORDS if name in shares)
        causes = f"{', '.join(others)} or {last}" if others else last
        left = "All of it" if rest == loss else f"{rest} of the loss of {loss}"
        text = f". The runs show no effect of {causes}. {left} is unexplained{lacking}."
    else:
        parts = [f"{write_share(shares[name])} {_describe_cause(name, row, shares[name])}" for name in shown]
        head = ": " if shares[LOSS].value > 0 else f". As parts of a loss of {loss}: "
        text = f"{head}{', '.join(parts)}, {rest} unexplained{lacking}."
    return f"{text}{_describe_hidden(row, shares)}"


def _describe_hidden(row: dict, shares: Mapping[str, Share]) -> str:
    """Say what is lost without each cause, if much is unexplained."""
    rest = shares[UNEXPLAINED]
    left = {"with resident input": "loss_with_resident_input_frac", "without exchange": "loss_without_exchange_frac"}
    known = [f"{name} it still loses {100 * row[key]:.0f} %" for name, key in left.items() if key in row]
    if not known or not rest.is_shown or rest.value < HIDDEN_FRAC:
        return ""
    text = ", ".join(known)
    return f" {text[0].upper()}{text[1:]}; causes that overlap hide each other."


def recommend_controls(place: Place, shares: Mapping[str, Share], not_known: Mapping[str, str]) -> str | None:
    """Return the line of config that would tell more of a loss; None if nothing is missing or nothing would help."""
    is_missing = UNEXPLAINED not in shares or bool(not_known)
    is_possible = place.asks and place.end["input"] != PROGRAM
    return DIAGNOSE if shares[LOSS].is_shown and is_missing and is_possible else None


def _describe_cause(name: str, row: dict, share: Share) -> str:
    if share.value < 0:
        return f"{name} (less than at the baseline)"
    if name == "input":
        return f"input{_describe_loader(row)}"
    if name == "imbalance":
        kind = "node" if is_node(row) else "process"
        return f"a slow {kind} ({name_process(row)} takes {100 * row['slow_frac']:.0f} % longer than the faster half)"
    if name == "waiting":
        return "waiting for whoever is slow in a step (steps without exchange scatter as much)"
    if name == "exchange" and row.get("may_wait"):
        return "exchange or waiting for whoever is slow in a step, which the runs do not tell apart"
    if name == "batch":
        return f"smaller batches on each device ({count_units(row['per_device_batch_size'], row['unit'])})"
    return name


def is_throttled(row: dict) -> bool:
    return row.get("throttled_frac", 0.0) >= THROTTLED_FRAC


def is_node(row: dict) -> bool:
    """Whether all processes of the slowest node are slow."""
    return str(row["slow_process"]).startswith("all@")


def name_process(row: dict) -> str:
    """Name the slowest process, such as `rank 3 on n2`, or the slowest node, such as `n2`."""
    rank, host = str(row["slow_process"]).split("@", 1)
    if is_node(row):
        return host
    return f"rank {rank} on {host}"


def _describe_loader(row: dict) -> str:
    """Compare what the loader gives with what a device wants, as far as it is known; say so if it gives enough."""
    wanted, gives = row.get("wanted_images_per_s_per_device"), row.get("loader_images_per_s_per_worker")
    if wanted is None:
        return ""
    if gives is None:
        return f" (a device wants {wanted:,.0f} images/s)"
    workers = name_count(int(row["loader_workers"]), "worker")
    given = f"the loader gives {gives:,.0f} images/s per worker and has {workers} per device"
    if has_enough_workers(row):
        return f" (although {given}, and a device wants only {wanted:,.0f}: not for lack of workers)"
    return f" ({given}, a device wants {wanted:,.0f})"


def has_enough_workers(row: dict) -> bool:
    """Whether the loader's workers could give more than the devices want, where both are known."""
    wanted, gives = row.get("wanted_images_per_s_per_device"), row.get("loader_images_per_s_per_worker")
    return wanted is not None and gives is not None and gives * int(row["loader_workers"]) >= RESERVE * wanted


def suggest(
    row: dict, shares: Mapping[str, Share], shown: list[str], scaling: pd.DataFrame, end: pd.Series, cores: float | None
) -> str | None:
    """Return the remedy for the largest cause that the numbers support; None if they support none.

    scaling: the table of that name. cores: of each device.
    """
    if row.get("slow_baseline_frac"):
        disturbed = "disturbed " if row["baseline_num_disturbed"] else ""
        return f"repeat the {disturbed}runs of the baseline"
    if shares[LOSS].is_shown and shares[LOSS].value < 0:
        return "repeat the disturbed runs of the baseline" if row["baseline_num_disturbed"] else None
    bending = [name for name in shown if shares[name].value > 0] if shares[LOSS].is_shown else []
    causes = bending or find_levels(shares, shown)
    if not causes:
        return None
    cause = causes[0]
    if cause == "input":
        return _suggest_input(row, end, scaling, cores)
    if cause == "exchange":
        return None if row.get("may_wait") else _suggest_exchange(shares[LEVELS[cause]], end, scaling)
    if cause == "imbalance":
        cooling = " and cooling or power of the throttled device" if is_throttled(row) else ""
        what = "node in place of" if is_node(row) else "device or host for"
        return f"another {what} {name_process(row)}{cooling}"
    if cause == "waiting":
        return "find what delays single steps of a process, such as other programs on its cores"
    return "fewer devices, or a larger batch over all devices"


def _suggest_input(row: dict, end: pd.Series, scaling: pd.DataFrame, cores: float | None) -> str | None:
    wanted, gives = row.get("wanted_images_per_s_per_device"), row.get("loader_images_per_s_per_worker")
    others = _find_others(scaling, end, ("input",))
    others = others[others["images_per_s_median"] > end["images_per_s_median"]]
    arrays = others[others["input"] == "arrays"]
    if len(arrays):
        gain = arrays["images_per_s_median"].max() / end["images_per_s_median"]
        return f"prepared arrays (input arrays), which give {gain:.2g} times the rate here"
    if wanted is None or gives is None:
        return None
    if has_enough_workers(row):
        return None
    needed, workers = math.ceil(wanted / gives - PART_OF_WORKER), int(row["loader_workers"])
    if needed <= workers:
        return None
    if cores is not None and needed <= cores:
        return f"loader_workers: {needed} instead of {workers}, for which each device has {cores:.0f} cores"
    if end["input"] in IMAGE_FILES:
        workers_needed = name_count(needed, "worker")
        return f"prepared arrays (input arrays), because {end['input']} files need {workers_needed} per device"
    return f"more cores for each device, of which the loader needs {needed}"


def _suggest_exchange(share: Share, end: pd.Series, scaling: pd.DataFrame) -> str | None:
    nodes = _find_others(scaling, end, ("placement", "num_nodes"))
    nodes = nodes[nodes["num_nodes"] < end["num_nodes"]].sort_values("images_per_s_median", ascending=False)
    if len(nodes) and nodes["images_per_s_median"].iloc[0] > end["images_per_s_median"]:
        gain = nodes["images_per_s_median"].iloc[0] / end["images_per_s_median"]
        return f"fewer nodes: {name_devices(nodes.iloc[0])} give {gain:.3g} times the rate"
    larger = _find_like(scaling, end, ("per_device_batch_size", "global_batch_size", "fixed_batch_size", "curve"))
    is_faster = larger["images_per_s_median"] > end["images_per_s_median"]
    batches = larger[is_faster & (larger["per_device_batch_size"] > end["per_device_batch_size"])]
    better = batches[batches["scaling_efficiency"] > end["scaling_efficiency"]].sort_values("scaling_efficiency")
    if len(better):
        best = better.iloc[-1]
        lost = 100 * (1 - best["scaling_efficiency"])
        return f"a larger batch: {best['per_device_batch_size']} {best['unit']} per device lose {lost:.0f} %"
    if (larger["per_device_batch_size"] > end["per_device_batch_size"]).any():
        return None
    # A step of twice the images computes twice as long, and exchanges as much.
    twice = share.value / (2 - share.value)
    return f"a larger batch: with twice the {end['unit']} per device, exchange takes about {100 * twice:.0f} %"


def _find_others(scaling: pd.DataFrame, end: pd.Series, but: tuple[str, ...]) -> pd.DataFrame:
    """Return the rows of _find_like with a rate."""
    like = _find_like(scaling, end, but)
    return like[like["images_per_s_median"].notna()]


def _find_like(scaling: pd.DataFrame, end: pd.Series, but: tuple[str, ...]) -> pd.DataFrame:
    """Return the rows of the same devices that differ from a row only in some columns."""
    names = [*list_columns(SERIES, PLACE, BATCH), "scaling_mode", "fixed_batch_size"]
    same = [name for name in names if name not in but]
    return scaling[(scaling[same] == end[same]).all(axis=1)]


def _describe_doubts(place: Place, row: dict, runs: tuple[pd.DataFrame, pd.DataFrame]) -> str:
    """Name what makes a loss doubtful: disturbed, missing and outlying repeats, at the device count or its baseline."""
    text = ""
    if is_throttled(row):
        share, reasons = 100 * row["throttled_frac"], row["throttle_reasons"].replace(" ", ", ")
        text += f" {row['throttled_device']} was throttled in {share:.0f} % of the time at {place.at} ({reasons})."
    if is_throttled(slow := row.get("baseline_throttling", {})):
        share, reasons = 100 * slow["throttled_frac"], slow["throttle_reasons"].replace(" ", ", ")
        base = f"of the baseline, {name_devices(place.base)}"
        text += f" {slow['throttled_device']} was throttled in {share:.0f} % of the time {base} ({reasons})."
    if slower := row.get("slow_baseline_frac"):
        waits = f"waits for batches in only {100 * row['baseline_wait_frac']:.0f} % of its time"
        text += f" The baseline, {name_devices(place.base)}, takes {100 * slower:.0f} % longer than with resident input"
        text += f" and {waits}: it was slow for another reason, or loading takes its cores."
    if row["num_disturbed_controls"]:
        count = name_count(row["num_disturbed_controls"], "control run")
        text += f" Other work disturbed {count}, which makes the shares of the causes doubtful."
    if place.drift is not None and place.drift.is_trend and abs(place.drift.change) >= NAMED_FRAC:
        text += f" The rates of the study drift by {100 * place.drift.change:+.0f} % while it is measured."
    effects = ("which makes the loss too large", "which makes the loss too small")
    places = (f"at {place.at}", f"of the baseline, {name_devices(place.base)},")
    for found, where, effect in zip(runs, places, effects, strict=True):
        rated = found[found["images_per_s"].notna()]
        if disturbed := int(rated["disturbed"].eq(True).sum()):
            were = "was" if disturbed == 1 else "were"
            text += (
                f" {disturbed} of {name_count(len(rated), 'repeat')} {where} {were} disturbed by other work, {effect}."
            )
        if len(rated) < len(found):
            lacking = found[found["images_per_s"].isna()]["status"].str.replace("_", " ").value_counts()
            how = ", ".join(f"{count} {status}" for status, count in lacking.items())
            text += f" Only {len(rated)} of {len(found)} repeats {where} have a rate ({how})."
        if "is_outlier" in rated and (outliers := int(rated["is_outlier"].eq(True).sum())):
            are = "is an outlier" if outliers == 1 else "are outliers"
            text += f" {outliers} of {name_count(len(rated), 'repeat')} {where} {are}."
    return text


def explain_wall_time(place: Place, row: dict) -> str | None:
    """Say which large parts of the wall time are in no rate; None if there are none."""
    parts = []
    evaluation, startup = row.get("evaluation_wall_frac"), row.get("startup_wall_frac")
    if evaluation is not None and evaluation >= WALL_FRAC:
        before = row.get("baseline_evaluation_wall_frac")
        compared = "" if before is None else f" ({100 * before:.0f} % at {name_devices(place.base)})"
        saved = row.get("saved_without_evaluation_frac")
        without = "" if saved is None else f"; runs without it take {100 * saved:.0f} % less"
        remedy = "which a larger eval_every_epochs makes shorter"
        parts.append(f"{100 * evaluation:.0f} % is evaluation{compared}, {remedy}{without}")
    if startup is not None and startup >= WALL_FRAC:
        parts.append(f"{100 * startup:.0f} % is start-up and first step, which a longer training pays once")
    if not parts:
        return None
    return f"Of the wall time of {place.line} at {place.at}, {' and '.join(parts)}; no rate includes it."

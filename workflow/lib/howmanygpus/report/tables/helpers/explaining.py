"""Why a curve bends, and remedies: codes and numbers, whose words are in the template explanations.jinja."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from howmanygpus.report.columns import BATCH, FEWEST_NODES, PLACE, SERIES, list_columns
from howmanygpus.report.drift import Drift
from howmanygpus.report.rows import name_count
from howmanygpus.report.shares import LOSS, NAMED_FRAC, UNEXPLAINED, Share
from howmanygpus.report.words import word

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
CAUSES = ("input", "exchange", "waiting", "imbalance", "batch")
"""Causes that may have a share."""
HIDDEN_FRAC = 0.05
"""Unexplained share from which the sentence says what is lost without each cause; causes may hide each other."""
DIAGNOSE = "diagnose: true"
"""Line of a study's config that adds the runs with resident input and without exchange."""
PAGE = "explanations"
Saying = tuple[str, dict[str, Any]]
"""The code of a sentence, and its facts."""


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
    def names(self) -> dict[str, str]:
        return {"line": self.line, "at": name_devices(self.end)}


def name_devices(row: pd.Series) -> str:
    """Name the devices of a configuration, and their nodes if the study has chosen them."""
    devices = name_count(int(row["num_gpus"]), "device")
    return devices if row["placement"] == FEWEST_NODES else f"{devices} of {row['placement']}"


def say(saying: Saying) -> str:
    code, facts = saying
    return word(PAGE, code, **facts)


def name_missing(place: Place, runs: pd.DataFrame, is_of_base: bool) -> str:
    """Say that a configuration or its baseline has no rate, and why. runs: the planned repeats that have none."""
    facts = place.names | {"statuses": count_statuses(runs)}
    return say(("no_baseline_rate", facts | {"base": name_devices(place.base)}) if is_of_base else ("no_rate", facts))


def count_statuses(runs: pd.DataFrame) -> dict[str, int]:
    """Return the number of runs by status, the most frequent first."""
    return runs["status"].value_counts().to_dict()


def explain(
    place: Place,
    row: dict,
    shares: Mapping[str, Share],
    shown: list[str],
    not_known: Sequence[str],
    runs: tuple[pd.DataFrame, pd.DataFrame],
) -> str:
    """Say in a sentence what a configuration loses and to what; further sentences have doubts.

    row: the row of `explanations` so far. shown: causes that the repeats tell from zero, the largest first. not_known:
    why other causes have no share. runs: the repeats of the configuration and those of its baseline.
    """
    sayings = [
        describe_loss(place, row, shares, shown, not_known),
        *list_overlaps(row, shares),
        *list_levels(place, row, shares, shown),
        *list_doubts(place, row),
        *doubt_repeats(place, runs),
    ]
    return " ".join(map(say, sayings))


def describe_loss(
    place: Place, row: dict, shares: Mapping[str, Share], shown: list[str], not_known: Sequence[str]
) -> Saying:
    loss = shares[LOSS]
    if not loss.is_shown:
        is_large = loss.has_interval and abs(loss.value) >= LEVEL_FRAC
        return "loss_not_told" if is_large else "no_loss", place.names | {"loss": loss}
    to = say(describe_causes(place, row, shares, shown, not_known))
    if loss.value > 0:
        return "loses", place.names | {"loss": loss, "to": to}
    gain = Share(-loss.value, -loss.high, -loss.low)
    return "gains", place.names | {"base": name_devices(place.base), "gain": gain, "to": to}


def describe_causes(
    place: Place, row: dict, shares: Mapping[str, Share], shown: list[str], not_known: Sequence[str]
) -> Saying:
    """Return the causes with their shares, the rest, and what is not known about it."""
    if UNEXPLAINED not in shares:
        return "to_unknown", {"not_known": [] if place.asks else list(not_known)}
    facts = {"loss": shares[LOSS], "unexplained": shares[UNEXPLAINED], "not_known": not_known}
    if not shown:
        return "to_none_shown", facts | {"causes": [name for name in CAUSES if name in shares]}
    of_causes = {
        "input": {"loader": find_loader(row)},
        "exchange": {"may_wait": row.get("may_wait", False)},
        "imbalance": {"process": find_process(row)},
        "batch": {name: row[name] for name in ("per_device_batch_size", "unit")},
    }
    causes = [{"code": name, "share": shares[name]} | of_causes.get(name, {}) for name in shown]
    return "to_causes", facts | {"causes": causes}


def list_overlaps(row: dict, shares: Mapping[str, Share]) -> Iterator[Saying]:
    """Yield what is lost without each cause, if much is unexplained."""
    rest = shares.get(UNEXPLAINED)
    left = {"resident_input": "loss_with_resident_input_frac", "no_exchange": "loss_without_exchange_frac"}
    known = [(control, row[key]) for control, key in left.items() if key in row]
    if shares[LOSS].is_shown and known and rest and rest.is_shown and rest.value >= HIDDEN_FRAC:
        yield "overlapping", {"left": known}


def find_levels(shares: Mapping[str, Share], shown: list[str]) -> list[str]:
    """Return the parts that take much of a device's time and are no cause of a loss.

    A part that takes less than at the baseline is shown, and takes its time all the same.
    """
    causes = {name for name in shown if shares[name].value > 0} if shares[LOSS].is_shown else set()
    levels = {cause: shares[name] for cause, name in LEVELS.items() if name in shares and cause not in causes}
    return [cause for cause, level in levels.items() if level.is_shown and level.value >= LEVEL_FRAC]


def list_levels(place: Place, row: dict, shares: Mapping[str, Share], shown: list[str]) -> Iterator[Saying]:
    for cause in find_levels(shares, shown):
        change = shares[cause].value if cause in shown else 0.0
        facts = {"code": cause, "part": shares[LEVELS[cause]], "at": place.names["at"], "change": change}
        yield "level", facts | {"of_loader": find_loader(row) if cause == "input" else None}


def recommend_controls(place: Place, shares: Mapping[str, Share], not_known: Sequence[str]) -> str | None:
    """Return the line of config that would tell more of a loss; None if nothing is missing or nothing would help."""
    is_missing = UNEXPLAINED not in shares or bool(not_known)
    return DIAGNOSE if shares[LOSS].is_shown and is_missing and place.asks else None


def is_throttled(row: dict) -> bool:
    return row.get("throttled_frac", 0.0) >= THROTTLED_FRAC


def find_process(row: dict) -> dict | None:
    """Return the slowest process, or the node all of whose processes are slow; None if none is known."""
    if "slow_process" not in row:
        return None
    rank, host = str(row["slow_process"]).split("@", 1)
    return {"rank": rank, "host": host, "is_node": rank == "all", "slow_frac": row["slow_frac"]}


def find_loader(row: dict) -> dict | None:
    """Return what the loader gives beside what a device wants, in images/s, as far as it is known; None if nothing is.

    is_enough: whether its workers could give more than the devices want.
    """
    wanted, gives = row.get("wanted_images_per_s_per_device"), row.get("loader_images_per_s_per_worker")
    if wanted is None:
        return None
    workers = 0 if gives is None else int(row["loader_workers"])
    is_enough = gives is not None and gives * workers >= RESERVE * wanted
    return {"wanted": wanted, "gives": gives, "workers": workers, "is_enough": is_enough}


def suggest(
    row: dict, shares: Mapping[str, Share], shown: list[str], scaling: pd.DataFrame, end: pd.Series, cores: float | None
) -> Saying | None:
    """Return the remedy for the largest cause that the numbers support; None if they support none.

    scaling: the table of that name. cores: of each device.
    """
    is_disturbed = bool(row["baseline_num_disturbed"])
    if row.get("slow_baseline_frac"):
        return "repeat_baseline", {"is_disturbed": is_disturbed}
    if shares[LOSS].is_shown and shares[LOSS].value < 0:
        return ("repeat_baseline", {"is_disturbed": True}) if is_disturbed else None
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
        return "replace_slow_process", {"process": find_process(row), "is_throttled": is_throttled(row)}
    return ("find_delays" if cause == "waiting" else "fewer_devices"), {}


def _suggest_input(row: dict, end: pd.Series, scaling: pd.DataFrame, cores: float | None) -> Saying | None:
    others = _find_others(scaling, end, ("input",))
    others = others[others["images_per_s_median"] > end["images_per_s_median"]]
    arrays = others[others["input"] == "arrays"]
    if len(arrays):
        return "faster_arrays", {"gain": arrays["images_per_s_median"].max() / end["images_per_s_median"]}
    loader = find_loader(row)
    if loader is None or loader["gives"] is None or loader["is_enough"]:
        return None
    needed, workers = math.ceil(loader["wanted"] / loader["gives"] - PART_OF_WORKER), loader["workers"]
    if needed <= workers:
        return None
    if cores is not None and needed <= cores:
        return "more_workers", {"needed": needed, "workers": workers, "cores": cores}
    if end["input"] in IMAGE_FILES:
        return "arrays_for_files", {"input": end["input"], "needed": needed}
    return "more_cores", {"needed": needed}


def _suggest_exchange(share: Share, end: pd.Series, scaling: pd.DataFrame) -> Saying | None:
    nodes = _find_others(scaling, end, ("placement", "num_nodes"))
    nodes = nodes[nodes["num_nodes"] < end["num_nodes"]].sort_values("images_per_s_median", ascending=False)
    if len(nodes) and nodes["images_per_s_median"].iloc[0] > end["images_per_s_median"]:
        gain = nodes["images_per_s_median"].iloc[0] / end["images_per_s_median"]
        return "fewer_nodes", {"devices": name_devices(nodes.iloc[0]), "gain": gain}
    larger = _find_like(scaling, end, ("per_device_batch_size", "global_batch_size", "fixed_batch_size", "curve"))
    is_faster = larger["images_per_s_median"] > end["images_per_s_median"]
    batches = larger[is_faster & (larger["per_device_batch_size"] > end["per_device_batch_size"])]
    better = batches[batches["scaling_efficiency"] > end["scaling_efficiency"]].sort_values("scaling_efficiency")
    if len(better):
        best = better.iloc[-1]
        facts = {"size": best["per_device_batch_size"], "unit": best["unit"]}
        return "larger_batch", facts | {"lost_frac": 1 - best["scaling_efficiency"]}
    if (larger["per_device_batch_size"] > end["per_device_batch_size"]).any():
        return None
    # A step of twice the images computes twice as long, and exchanges as much.
    return "twice_the_batch", {"unit": end["unit"], "exchange_frac": share.value / (2 - share.value)}


def _find_others(scaling: pd.DataFrame, end: pd.Series, but: tuple[str, ...]) -> pd.DataFrame:
    """Return the rows of _find_like with a rate."""
    like = _find_like(scaling, end, but)
    return like[like["images_per_s_median"].notna()]


def _find_like(scaling: pd.DataFrame, end: pd.Series, but: tuple[str, ...]) -> pd.DataFrame:
    """Return the rows of the same devices that differ from a row only in some columns."""
    names = [*list_columns(SERIES, PLACE, BATCH), "scaling_mode", "fixed_batch_size"]
    same = [name for name in names if name not in but]
    return scaling[(scaling[same] == end[same]).all(axis=1)]


def list_doubts(place: Place, row: dict) -> Iterator[Saying]:
    """Yield what makes a loss doubtful: throttled devices, a slow baseline, disturbed controls and a drift."""
    base = name_devices(place.base)
    ends = (row, False, place.names["at"]), (row.get("baseline_throttling", {}), True, base)
    for found, is_baseline, devices in ends:
        if is_throttled(found):
            facts = {"device": found["throttled_device"], "frac": found["throttled_frac"]}
            facts |= {"devices": devices, "is_baseline": is_baseline, "reasons": found["throttle_reasons"]}
            yield "throttled", facts
    if slower := row.get("slow_baseline_frac"):
        yield "slow_baseline", {"base": base, "slower_frac": slower, "wait_frac": row["baseline_wait_frac"]}
    if row["num_disturbed_controls"]:
        yield "disturbed_controls", {"number": row["num_disturbed_controls"]}
    if place.drift is not None and place.drift.is_trend and abs(place.drift.change) >= NAMED_FRAC:
        yield "drift", {"change": place.drift.change}


def doubt_repeats(place: Place, runs: tuple[pd.DataFrame, pd.DataFrame]) -> Iterator[Saying]:
    """Yield the disturbed, missing and outlying repeats of a configuration, and those of its baseline."""
    for found, is_baseline in zip(runs, (False, True), strict=True):
        where = {"devices": name_devices(place.base if is_baseline else place.end), "is_baseline": is_baseline}
        rated = found[found["images_per_s"].notna()]
        facts: dict[str, Any] = where | {"num_repeats": len(rated)}
        if disturbed := int(rated["disturbed"].eq(True).sum()):
            yield "disturbed", facts | {"number": disturbed}
        if len(rated) < len(found):
            lacking = count_statuses(found[found["images_per_s"].isna()])
            yield "without_rate", where | {"number": len(rated), "num_repeats": len(found), "statuses": lacking}
        if "is_outlier" in rated and (outliers := int(rated["is_outlier"].eq(True).sum())):
            yield "outliers", facts | {"number": outliers}


def explain_wall_time(place: Place, row: dict) -> str | None:
    """Say which large parts of the wall time are in no rate; None if there are none."""
    evaluation, startup = row.get("evaluation_wall_frac"), row.get("startup_wall_frac")
    parts: dict[str, Any] = {"evaluation": None, "startup": None}
    if evaluation is not None and evaluation >= WALL_FRAC:
        parts["evaluation"] = {
            "frac": evaluation,
            "of_baseline": row.get("baseline_evaluation_wall_frac"),
            "saved": row.get("saved_without_evaluation_frac"),
        }
    if startup is not None and startup >= WALL_FRAC:
        parts["startup"] = startup
    if not any(parts.values()):
        return None
    return word(PAGE, "wall_time", **place.names, base=name_devices(place.base), **parts)

"""
Why each curve bends: the loss of every configuration against the baseline of its curve, by cause, and one sentence.

`loss_frac` is 1 - scaling efficiency. The shares of the causes are differences to control runs at both ends, see
report.shares; they need not add up to the loss, and `unexplained_frac` is the rest. Without control runs with resident
input, the share of input is that of the waits for batches (`input_from`). `imbalance_frac` is the time that the slowest
process takes beyond the faster half of the processes while none waits for another. `waiting_frac` takes the place of
`exchange_frac` if steps without exchange scatter so much that waiting for the slowest in each step explains it, and the
all-reduce alone does not. `batch_frac` is known in strong
scaling if the baseline's devices have also run with the smaller batch. Evaluation and start-up are in no rate, and have
their part of the wall time instead. `causes` names the shares that the repeats tell from zero, the largest first.
`remedy` is against the largest cause, and `run_next` is the line of config that would tell more. `transport` is what
carries the gradients, as the all-reduce measurement found it, or that MPI does, by which nothing is measured. `network`
says that the all-reduce falls back to a slow transport or gets less than half of its link, and `network_frac` is the
part of the rate that this costs: the time of the gradients' all-reduce beyond what it would be at the rate of the link.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from howmanygpus.measure.spec import RESIDENT
from howmanygpus.report.columns import LINE, POINT
from howmanygpus.report.drift import Drift, compute_relative_rates, measure_drift
from howmanygpus.report.network import PAGE as NETWORK
from howmanygpus.report.network import compute_bus_bandwidth, describe_finding, judge, name_transport
from howmanygpus.report.published import is_fair
from howmanygpus.report.rows import PROGRAM, name_series
from howmanygpus.report.shares import BASE, END, LOSS, NAMED_FRAC, UNEXPLAINED, Signs, compute_shares
from howmanygpus.report.tables.ceilings import add_exchange
from howmanygpus.report.tables.helpers.controls import (
    NO_EVALUATION,
    NO_EXCHANGE,
    RESIDENT_INPUT,
    Repeats,
    find_slowest,
    is_independent,
    time_images,
)
from howmanygpus.report.tables.helpers.explaining import (
    CAUSES,
    PAGE,
    Place,
    explain,
    explain_wall_time,
    name_missing,
    recommend_controls,
    say,
    suggest,
)
from howmanygpus.report.tables.scaling import is_baseline
from howmanygpus.report.words import word

READS = ("runs", "scaling", "run_phases", "ceilings", "utilisation", "allreduces")
IS_MERGED = True
CATEGORY = "Scaling and why"
INPUT, EXCHANGE, WAITING, IMBALANCE, BATCH = CAUSES
LARGE_PART = 0.5
"""Part of a share that another measurement must explain for the share to be called after it."""
LEVELS = (INPUT_LEVEL, EXCHANGE_LEVEL) = "input_of_time", "exchange_of_time"
SHARES = (LOSS, *CAUSES, UNEXPLAINED, *LEVELS)
CONTROLS, WAITS = "control runs", "waits for batches"
ADAPTIVE = ("stop_below_efficiency", "budget_device_h", "train_best")
"""Keys of studies that cannot have control runs."""
COLUMNS = [
    *(*LINE, "curve", *POINT, "baseline_num_gpus", "baseline_num_nodes"),
    *("num_planned", "num_repeats", "baseline_num_repeats", "num_disturbed", "baseline_num_disturbed"),
    "num_disturbed_controls",
    *(f"{share}_frac{end}" for share in SHARES for end in ("", "_low", "_high")),
    *("input_from", "loader_images_per_s_per_worker", "loader_workers", "wanted_images_per_s_per_device"),
    *("loss_with_resident_input_frac", "loss_without_exchange_frac", "slow_process", "slow_frac"),
    *("throttled_device", "throttled_frac", "throttle_reasons"),
    *("evaluation_wall_frac", "startup_wall_frac", "baseline_evaluation_wall_frac"),
    "saved_without_evaluation_frac",
    *("causes", "not_known", "sentence", "remedy", "run_next", "wall_sentence"),
    *("transport", "network", "network_frac"),
]


@dataclass
class Evidence:
    """What the runs say about one configuration and its baseline.

    groups: device-seconds per image of each repeat, see report.shares. causes: how these make up the costs. levels: how
    they make up what a part takes of the time at the end, also if it does not bend the curve. not_known: why causes
    have no share. doubtful: causes that are not to be named although they have a share. facts:
    other columns of the row.
    """

    groups: dict[str, np.ndarray] = field(default_factory=dict)
    causes: dict[str, Signs] = field(default_factory=dict)
    levels: dict[str, Signs] = field(default_factory=dict)
    not_known: list[str] = field(default_factory=list)
    doubtful: set[str] = field(default_factory=set)
    facts: dict = field(default_factory=dict)

    def add(self, cause: str, signs: dict[str, int], **groups: np.ndarray) -> None:
        self.groups |= groups
        self.causes[cause] = signs

    def lack(self, code: str, **facts: Any) -> None:
        """Add why a cause has no share."""
        self.not_known.append(word(PAGE, code, **facts))


def tabulate(
    plan: dict,
    runs: pd.DataFrame,
    scaling: pd.DataFrame,
    run_phases: pd.DataFrame,
    ceilings: pd.DataFrame,
    utilisation: pd.DataFrame,
    allreduces: Sequence[dict] = (),
) -> pd.DataFrame:
    """One row per configuration that is compared with a baseline. The arguments are the tables of these names.

    allreduces: the records of the all-reduce measurements.
    """
    repeats = Repeats(plan, runs, run_phases, utilisation)
    drift = measure_drift(compute_relative_rates(runs[is_fair(runs)]))
    table = scaling.assign(series=name_series(scaling))
    bases = table[is_baseline(table)].drop_duplicates(LINE).set_index(LINE, drop=False)
    asks = can_diagnose(plan["config"])
    several = table["curve"].nunique() > 1
    specs = [each["spec"] for each in plan["runs"].values()] if allreduces else []
    overlapping = {spec["device"] for spec in specs if spec["device_kind"] != "cpu"}
    by_mpi = {(spec["framework"], spec["variant"], spec["device"]) for spec in specs if uses_mpi(spec)}
    rows = []
    for _, end in table[~is_baseline(table)].iterrows():
        key = tuple(end[LINE])
        if key in bases.index:
            row = describe(end, bases.loc[key], repeats, table, ceilings, asks, several, drift)
            own = select_allreduces(end, allreduces)
            if own and (end["framework"], end["variant"], end["device"]) in by_mpi:
                row["transport"] = word(NETWORK, "mpi")
            elif own:
                row |= describe_network(end, row, ceilings, own, end["device"] in overlapping)
            rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS)


def uses_mpi(spec: dict) -> bool:
    """Return whether MPI carries the gradients of a run, whose transport PyTorch's all-reduce does not tell.

    On GPUs NCCL does, also if mpirun has started the processes. What a program of the user does is not known.
    """
    is_started_by_mpi = spec["launcher"] == "mpirun" and "program" not in spec
    return spec["device_kind"] == "cpu" and (is_started_by_mpi or spec.get("horovod_controller") == "mpi")


def can_diagnose(config: dict) -> bool:
    """Return whether a study has no control runs and could have them. config: the study's."""
    is_adaptive = config.get("repeats") == "auto" or any(config.get(key) for key in ADAPTIVE)
    return not config.get("diagnose") and not is_adaptive


def describe(
    end: pd.Series,
    base: pd.Series,
    repeats: Repeats,
    scaling: pd.DataFrame,
    bounds: pd.DataFrame,
    asks: bool,
    several: bool,
    drift: Drift | None,
) -> dict:
    """Return the row of one configuration. base: the row of its baseline. scaling: with the column `series`.

    bounds: the table `ceilings`.

    asks: whether the study could have control runs and has none. several: whether it has several curves. drift: of
    the study's rates.
    """
    row = {name: end[name] for name in (*LINE, "curve", *POINT, "baseline_num_gpus", "baseline_num_nodes")}
    row["num_planned"] = end["num_planned"]
    for name in ("num_repeats", "num_disturbed"):
        row |= {name: end[name], f"baseline_{name}": base[name]}
    place = Place(name_line(end, several), end, base, asks, drift)
    runs = repeats.find(end), repeats.find(base)
    if not (end["num_repeats"] and base["num_repeats"]):
        is_of_base = not base["num_repeats"]
        return row | {"sentence": name_missing(place, runs[is_of_base], is_of_base)}
    evidence = gather(end, base, repeats, bounds)
    shares = compute_shares(evidence.groups, evidence.causes, evidence.levels)
    if not evidence.causes:
        del shares[UNEXPLAINED]
    for name, share in shares.items():
        row |= {f"{name}_frac": share.value, f"{name}_frac_low": share.low, f"{name}_frac_high": share.high}
    shown = [name for name in CAUSES if name in shares and shares[name].is_shown and name not in evidence.doubtful]
    shown.sort(key=lambda name: -abs(shares[name].value))
    controls = [repeats.find(each, name) for each in (end, base) for name in (RESIDENT_INPUT, NO_EXCHANGE)]
    row["num_disturbed_controls"] = sum(int(each["disturbed"].eq(True).sum()) for each in controls)
    row |= evidence.facts | describe_wall_time(*runs, repeats.find(end, NO_EVALUATION)) | describe_throttling(runs[0])
    row["baseline_throttling"] = describe_throttling(runs[1])
    row |= {"causes": ", ".join(shown) or None, "not_known": "; ".join(evidence.not_known) or None}
    cores = runs[0]["cores_per_device"].dropna()
    remedy = suggest(row, shares, shown, scaling, end, cores.iloc[0] if len(cores) else None)
    row["remedy"] = say(remedy) if remedy else None
    row["run_next"] = recommend_controls(place, shares, evidence.not_known)
    row["sentence"] = explain(place, row, shares, shown, evidence.not_known, runs)
    row["wall_sentence"] = explain_wall_time(place, row)
    return row


def name_line(row: pd.Series, several: bool) -> str:
    """Name a line of a figure. several: whether its study has several curves."""
    return f"{row['series']} ({row['curve']})" if several else row["series"]


def gather(end: pd.Series, base: pd.Series, repeats: Repeats, bounds: pd.DataFrame) -> Evidence:
    """Collect what the runs of a configuration, of its baseline and of their controls say about the loss.

    bounds: the table `ceilings`.
    """
    evidence = Evidence({END: time_images(repeats.find(end)), BASE: time_images(repeats.find(base))})
    gather_input(evidence, end, base, repeats)
    gather_exchange(evidence, end, base, repeats, find_allreduce(end, bounds))
    gather_imbalance(evidence, end, base, repeats)
    gather_batch(evidence, end, base, repeats)
    return evidence


def explain_lack(evidence: Evidence, control: str, where: pd.Series, repeats: Repeats) -> None:
    """Add why there is no rate of a control at a device count."""
    controls = repeats.find(where, control)
    facts = {"control": control, "num_gpus": where["num_gpus"]}
    if len(controls):
        reason, status = controls["reason"].dropna(), controls["status"].iloc[0].replace("_", " ")
        evidence.lack("no_control_rate", **facts, reason=(reason.iloc[0] if len(reason) else "") or status)
    elif where["variant"] != repeats.first_variant and repeats.has_controls:
        evidence.lack("no_control_of_variant", control=control, variant=repeats.first_variant)
    else:
        evidence.lack("no_control", **facts)


def gather_input(evidence: Evidence, end: pd.Series, base: pd.Series, repeats: Repeats) -> None:
    """Add the cost of input: by resident input at both ends, else by the waits for batches."""
    if end["input"] == RESIDENT:
        return
    times = {"end_resident": time_images(repeats.find(end, RESIDENT_INPUT))}
    times["base_resident"] = time_images(repeats.find(base, RESIDENT_INPUT))
    describe_loader(evidence, repeats.find(end), times["end_resident"])
    if all(len(each) for each in times.values()):
        signs = {END: 1, "end_resident": -1, BASE: -1, "base_resident": 1}
        evidence.add(INPUT, signs, **times)
        evidence.levels[INPUT_LEVEL] = {END: 1, "end_resident": -1}
        evidence.facts["input_from"] = CONTROLS
        evidence.facts["loss_with_resident_input_frac"] = 1 - compare_medians(*times.values())
        doubt_baseline(evidence, time_waits(repeats.find(base)))
        return
    lacking = end if not len(times["end_resident"]) else base
    waits = {"end_wait": time_waits(repeats.find(end)), "base_wait": time_waits(repeats.find(base))}
    if all(len(each) for each in waits.values()):
        evidence.add(INPUT, {"end_wait": 1, "base_wait": -1}, **waits)
        evidence.levels[INPUT_LEVEL] = {"end_wait": 1}
        evidence.facts["input_from"] = WAITS
        return
    explain_lack(evidence, RESIDENT_INPUT, lacking, repeats)


def doubt_baseline(evidence: Evidence, waits: np.ndarray) -> None:
    """Do not call it less input if the baseline is slower than with resident input without waiting for batches.

    waits: device-seconds per image in which its repeats waited.
    """
    groups = evidence.groups
    end_s, end_free_s, base_s, base_free_s = (
        float(np.median(groups[name])) for name in (END, "end_resident", BASE, "base_resident")
    )
    excess_s = base_s - base_free_s
    if len(waits) and excess_s > max(0.0, end_s - end_free_s) and np.median(waits) < LARGE_PART * excess_s:
        evidence.doubtful.add(INPUT)
        if excess_s >= NAMED_FRAC * end_s:
            evidence.facts |= {"slow_baseline_frac": excess_s / base_free_s}
            evidence.facts |= {"baseline_wait_frac": float(np.median(waits)) / base_s}


def compare_medians(end: np.ndarray, base: np.ndarray) -> float:
    """Return the median at the baseline over that at the end."""
    return float(np.median(base) / np.median(end))


def time_waits(runs: pd.DataFrame) -> np.ndarray:
    """Return the device-seconds per image in which each repeat waited for batches; empty if they are not known."""
    rated = runs[runs["images_per_s"].notna() & runs["data_wait_frac"].notna()]
    return (rated["data_wait_frac"] * rated["num_gpus"] / rated["images_per_s"]).to_numpy(float)


def describe_loader(evidence: Evidence, runs: pd.DataFrame, resident: np.ndarray) -> None:
    """Add the rates that a loader's worker gives and that a device wants. resident: times with resident input."""
    seconds = runs["loader_s_per_image"].dropna().astype(float)
    if len(seconds):
        evidence.facts["loader_images_per_s_per_worker"] = 1 / seconds.median()
        evidence.facts["loader_workers"] = runs["loader_workers"].dropna().iloc[0]
    free = resident if len(resident) else time_images(runs)
    if not len(resident):
        waits = time_waits(runs)
        free = free - waits if len(waits) == len(free) else np.array([])
    if len(free) and np.median(free) > 0:
        evidence.facts["wanted_images_per_s_per_device"] = 1 / float(np.median(free))


def gather_exchange(
    evidence: Evidence, end: pd.Series, base: pd.Series, repeats: Repeats, allreduce: float | None
) -> None:
    """Add the cost of exchanging gradients, by runs without. One device exchanges nothing, nor do independent runs.

    Runs without exchange do not wait for whoever is slow in a step either. If that explains as much, the cost is of the
    waiting; if the all-reduce alone explains it too, of either. allreduce: its part of a step, if it is known.
    """
    if is_independent(end):
        return
    alone = repeats.find(end, NO_EXCHANGE)
    times, signs = {"end_alone": time_images(alone)}, {END: 1, "end_alone": -1}
    lacking = None if len(times["end_alone"]) else end
    if base["num_gpus"] > 1:
        times["base_alone"] = time_images(repeats.find(base, NO_EXCHANGE))
        signs |= {BASE: -1, "base_alone": 1}
        if lacking is None and not len(times["base_alone"]):
            lacking = base
    if lacking is None:
        end_s, alone_s = (float(np.median(each)) for each in (evidence.groups[END], times["end_alone"]))
        straggle = alone["straggle_frac"]
        needed = LARGE_PART * (end_s - alone_s) / end_s
        may_wait = bool(0 < needed <= straggle.astype(float).median() * alone_s / end_s)
        may_exchange = allreduce is not None and allreduce >= needed
        evidence.add(EXCHANGE if not may_wait or may_exchange else WAITING, signs, **times)
        evidence.facts["may_wait"] = may_wait
        if not may_wait:
            evidence.levels[EXCHANGE_LEVEL] = {END: 1, "end_alone": -1}
        if alone["is_sharded"].eq(True).any():
            evidence.lack("sharded_control")
        base_times = times.get("base_alone", evidence.groups[BASE])
        evidence.facts["loss_without_exchange_frac"] = 1 - compare_medians(times["end_alone"], base_times)
    else:
        explain_lack(evidence, NO_EXCHANGE, lacking, repeats)
        if allreduce is not None:
            evidence.lack("allreduce_alone", frac=allreduce)


def find_allreduce(end: pd.Series, bounds: pd.DataFrame) -> float | None:
    """Return the part of a step that the all-reduce of the gradients takes by itself; None if it was not measured."""
    if bounds["allreduce_s"].isna().all():
        return None
    bound = find_bound(end, bounds)
    step_s = end["global_batch_size"] / end["images_per_s_median"]
    return None if bound is None or pd.isna(bound["allreduce_s"]) else float(bound["allreduce_s"] / step_s)


def find_bound(end: pd.Series, bounds: pd.DataFrame) -> pd.Series | None:
    """Return the row of a configuration in the table `ceilings`; None if it has none."""
    same = bounds[(bounds[[*LINE, *POINT]] == end[[*LINE, *POINT]]).all(axis=1)]
    return None if same.empty else same.iloc[0]


def select_allreduces(end: pd.Series, allreduces: Sequence[dict]) -> list[dict]:
    """Return the records of all-reduces on the devices and nodes of a configuration; independent runs have none."""
    place = end["device"], end["num_gpus"], end["num_nodes"]
    own = [each for each in allreduces if (each["device"], each["num_gpus"], each["num_nodes"]) == place]
    return [] if is_independent(end) else own


def describe_network(
    end: pd.Series, row: dict, bounds: pd.DataFrame, allreduces: list[dict], overlaps: bool
) -> dict[str, Any]:
    """Return the transport of a configuration, the finding on its network and what it costs, as far as they are known.

    row: the row of the configuration so far. bounds: the table `ceilings`. allreduces: records of its devices and
    nodes. overlaps: whether exchange can overlap with the backward pass.
    """
    named = {"transport": next((name for record in allreduces if (name := name_transport(record))), None)}
    found = next((facts for record in allreduces if (facts := judge(record))), None)
    if found is None:
        return named
    bound, loss, lost = find_bound(end, bounds), row.get(f"{LOSS}_frac"), np.nan
    if bound is not None and found["link_gb_per_s"] and loss is not None:
        taken_s, alone_s = float(bound["allreduce_s"]), float(bound["step_s_without_exchange"])
        bus = compute_bus_bandwidth(int(end["num_gpus"]), float(bound["gradients_mib"] or np.nan), taken_s)
        at_link_s = taken_s * min(1.0, bus / found["link_gb_per_s"])
        saved_s = add_exchange(alone_s, taken_s, overlaps) - add_exchange(alone_s, at_link_s, overlaps)
        lost = min(saved_s * end["images_per_s_median"] / end["global_batch_size"], loss)
    is_known = np.isfinite(lost) and lost > 0
    text = describe_finding(found, *((float(lost), loss) if is_known else ()))
    return named | {"network": text, "network_frac": float(lost) if is_known else None}


def gather_imbalance(evidence: Evidence, end: pd.Series, base: pd.Series, repeats: Repeats) -> None:
    """Add the cost of the slowest process, by the processes' own seconds in runs without exchange."""
    alone = repeats.find(end, NO_EXCHANGE)
    alone = alone[alone["images_per_s"].notna()]
    if alone.empty:
        return
    slowest = find_slowest(alone)
    if slowest is None:
        if end["input"] == PROGRAM:
            evidence.lack("no_times_of_processes")
        elif (alone["num_processes"] == 1).all():
            evidence.lack("one_process")
        return
    groups, signs = {"end_excess": slowest.excess * time_images(alone)}, {"end_excess": 1}
    if base["num_gpus"] > 1:
        others = repeats.find(base, NO_EXCHANGE)
        others = others[others["images_per_s"].notna()]
        if (of_base := find_slowest(others)) is not None:
            groups["base_excess"] = of_base.excess * time_images(others)
            signs["base_excess"] = -1
    evidence.add(IMBALANCE, signs, **groups)
    if not slowest.is_slow:
        evidence.doubtful.add(IMBALANCE)
    slow_frac = float(np.median(slowest.excess / (1 - slowest.excess)))
    evidence.facts |= {"slow_process": slowest.name, "slow_frac": slow_frac}


def gather_batch(evidence: Evidence, end: pd.Series, base: pd.Series, repeats: Repeats) -> None:
    """Add the cost of a smaller batch on each device, by runs of the baseline's devices with that batch."""
    size = end["per_device_batch_size"]
    if size == base["per_device_batch_size"]:
        return
    accumulated = end["global_batch_size"] // (end["num_gpus"] * size)
    other = base.copy()
    other["per_device_batch_size"] = size
    other["global_batch_size"] = size * base["num_gpus"] * accumulated
    times = time_images(repeats.find(other))
    if len(times):
        evidence.add(BATCH, {"base_small": 1, BASE: -1}, base_small=times)
    else:
        evidence.lack("no_small_batch", size=size, unit=end["unit"])


def describe_throttling(runs: pd.DataFrame) -> dict:
    """Return the device that was throttled most, as its host and UUID, in the repeat in which it was so most."""
    known = runs["throttled_frac_highest"].dropna().astype(float)
    if known.empty:
        return {}
    worst = runs.loc[known.idxmax()]
    node, device = str(worst["most_throttled"]).split(":", 1)
    hosts = str(worst["nodes"]).split()
    host = hosts[int(node)] if int(node) < len(hosts) else f"node {node}"
    found = {"throttled_device": f"{device} of {host}", "throttled_frac": known.median()}
    return found | {"throttle_reasons": worst["throttle_reasons"]}


def describe_wall_time(end: pd.DataFrame, base: pd.DataFrame, unevaluated: pd.DataFrame) -> dict:
    """Return the parts of the wall time that are in no rate, as means over the repeats.

    unevaluated: the repeats without evaluation, which say what evaluation costs with all that it delays.
    """
    parts = {}
    for name, runs in (("", end), ("baseline_", base)):
        known = runs[runs["wall_time_s"].notna() & runs["evaluation_s"].notna()]
        if known.empty:
            continue
        total = known["wall_time_s"].sum()
        parts[f"{name}evaluation_wall_frac"] = known["evaluation_s"].sum() / total
        if not name and known["startup_s"].notna().all():
            parts["startup_wall_frac"] = (known["startup_s"].sum() + known["first_step_s"].sum()) / total
    walls = [(runs["wall_time_s"] / runs["images_seen"]).dropna().astype(float) for runs in (unevaluated, end)]
    if len(walls[0]) and len(walls[1]):
        parts["saved_without_evaluation_frac"] = 1 - walls[0].median() / walls[1].median()
    return parts

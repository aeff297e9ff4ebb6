"""What the first screen of an answer leaves out, as facts of a whole study."""

from collections import Counter
from collections.abc import Hashable
from typing import Any

import pandas as pd

from howmanygpus.report.answer.batches import describe_batches
from howmanygpus.report.answer.bill import add_up_bill
from howmanygpus.report.answer.names import add_series, name_place
from howmanygpus.report.columns import BATCH, CONFIGURATION, LINE, PLACE, SERIES, list_columns
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.outcomes import GridDecision
from howmanygpus.report.placements import compare_placements
from howmanygpus.report.published import COMPARED, NO, PROTOCOLS, is_control, is_fair, name_protocol
from howmanygpus.report.rows import choose_inputs, name_own_rates
from howmanygpus.report.trajectory import has_unexplained_losses

Facts = dict[str, Any]
NOT_RUN, MISSING, NOT_YET = "not_run", "missing", "not run yet"
SIZES = ("num_train", "num_test", "height", "width", "channels", "num_classes", "num_train_groups", "num_test_groups")
SAME = list_columns(SERIES, PLACE, BATCH, but=["variant", "placement", "num_nodes", "global_batch_size"])
"""Columns that independent runs share with the run on several devices that they rival."""


def describe(
    runs: pd.DataFrame,
    scaling: pd.DataFrame,
    datasets: pd.DataFrame,
    jobs: pd.DataFrame,
    batch_sizes: pd.DataFrame,
    protocols: pd.DataFrame,
    explanations: pd.DataFrame,
    decision: GridDecision | None = None,
    batch_search: pd.DataFrame | None = None,
    predicted: list[Facts] | None = None,
) -> Facts:
    """Return the facts of the tables of one study.

    decision: what an adaptive study decided; None for a fixed grid. batch_search: the table of that name, if the study
    searched the largest batch. predicted: what describe_predicted returns, for a study with the key `predict`.
    """
    controls = runs[is_control(runs)]
    planned, fair = runs.drop(controls.index), runs[is_fair(runs)]
    return {
        "data": describe_data(datasets),
        "devices": list_devices(fair),
        "started": _find_ends(fair["started_at"]),
        "controls": controls["status"].value_counts().to_dict(),
        "stale": _explain_stale(planned).value_counts().to_dict(),
        "ended": count_reasons(planned),
        "health": planned["health"].value_counts().to_dict(),
        "outliers": list_outliers(fair),
        "trajectories": compare_trajectories(planned),
        "own_rates": name_own_rates(fair),
        "grid": describe_grid(fair, decision) if decision is not None else None,
        "causes": list_causes(explanations),
        "wall_time": explain_wall_time(explanations),
        **describe_batches(batch_sizes, batch_search),
        "placements": compare_nodes(fair),
        "independent": compare_independent(fair, scaling),
        "protocols": list_protocols(protocols),
        "bill": add_up_bill(jobs),
        "predicted": predicted or [],
    }


def describe_data(datasets: pd.DataFrame) -> Facts:
    """Return the images by split, their classes and size; what the metric leaves out; and whether there are remarks."""
    real = choose_inputs(datasets)
    known = real[real["num_train"].notna()]
    first = known.iloc[0] if len(known) else pd.Series(dtype=object)
    left_out = datasets.loc[datasets["left_out"].map(_has), "left_out"]
    return {
        "inputs": list(real["input"]),
        **{name: int(first[name]) if pd.notna(first.get(name)) else None for name in SIZES},
        "split": first.get("split") if _has(first.get("split")) else None,
        "metric": name_metric(datasets["metric"].iloc[0]) if pd.notna(datasets["metric"].iloc[0]) else None,
        "left_out": left_out.iloc[0].split("; ") if len(left_out) else [],
        "has_remarks": bool(datasets["remarks"].map(_has).any()),
    }


def _has(text: object) -> bool:
    return isinstance(text, str) and bool(text)


def list_devices(runs: pd.DataFrame) -> list[Facts]:
    """Return each kind of device with the counts that were used, its models and its nodes."""
    return [
        {
            "device": device,
            "counts": sorted(int(count) for count in rows["num_gpus"].unique()),
            "models": sorted(rows["device_model"].dropna().unique()),
            "nodes": sorted({node for each in rows["nodes"].dropna() for node in each.split()}),
        }
        for device, rows in runs[runs["started_at"].notna()].groupby("device")
    ]


def _find_ends(moments: pd.Series) -> list[str]:
    """Return the first and the last moment in UTC, to the minute; nothing if none is known."""
    known = moments.dropna()
    return [moment[:16].replace("T", " ") for moment in (known.min(), known.max())] if len(known) else []


def _explain_stale(runs: pd.DataFrame) -> pd.Series:
    """Return why each stale run would be done again."""
    stale = runs[runs["status"].eq("stale") | runs["stale_because"].notna()]
    return stale["stale_because"].astype(object).fillna(stale["reason"])


def count_reasons(runs: pd.DataFrame) -> list[Facts]:
    """Count the runs without a result by status and reason; those that are merely to be done have none."""
    ended = runs[~runs["status"].isin(["completed", MISSING, NOT_RUN, "stale", "running"])]
    return _count_pairs(ended.assign(reason=ended["reason"].astype(object).fillna("")))


def _count_pairs(runs: pd.DataFrame) -> list[Facts]:
    """Return each pair of status and reason with its number of runs, the most frequent first."""
    return runs.value_counts(["status", "reason"]).rename("num_runs").reset_index().to_dict("records")


def list_outliers(runs: pd.DataFrame) -> list[Facts]:
    """Return the runs whose rate is far from that of the other repeats, the farthest first, with their folders."""
    rates = runs[runs["images_per_s"].notna()].astype({"images_per_s": float})
    medians = rates.groupby(CONFIGURATION)["images_per_s"].transform("median")
    rates = add_series(rates.assign(distance=rates["images_per_s"] / medians - 1))
    far = rates[rates["is_outlier"].eq(True)].sort_values("distance", key=abs, ascending=False, kind="stable")
    return [
        name_place(row)
        | {"per_device_batch_size": int(row["per_device_batch_size"]), "repeat": int(row["repeat"])}
        | {"distance": float(row["distance"]), "run_dir": row["run_dir"]}
        for _, row in far.iterrows()
    ]


def compare_trajectories(runs: pd.DataFrame) -> Facts | None:
    """Count the runs whose losses in the first epoch can be compared, and those that leave the others; None without.

    unstable_after_step: the fewest steps after which a run was not compared further; None if all were to the end.
    """
    compared = runs[runs["trajectory"].notna()]
    if compared.empty:
        return None
    apart = compared[has_unexplained_losses(compared)]
    last = compared["unstable_after_step"].astype(float).min()
    return {
        "num_compared": len(compared),
        "num_apart": len(apart),
        "frameworks": sorted(apart["framework"].unique()),
        "unstable_after_step": None if pd.isna(last) else int(last),
    }


def describe_grid(runs: pd.DataFrame, decision: GridDecision) -> Facts:
    """Return what an adaptive study did not run or has not decided, and why; and why it repeated no further."""
    # Configurations are the runs that differ in more than the repeat.
    ended = {path.rpartition("_repeat")[0]: cause for path, (cause, _) in decision.get("repeats_ended", {}).items()}
    left_out = runs[runs["status"].isin([NOT_RUN, MISSING]) & (runs["reason"] != NOT_YET)]
    return {
        "probes_of": decision.get("probes_of"),
        "is_cut": bool((runs["status"] == NOT_RUN).any()),
        "repeats_ended": dict(Counter(ended.values())),
        "left_out": _count_pairs(left_out),
    }


def list_causes(explanations: pd.DataFrame) -> list[Facts]:
    """Return why each curve bends at its largest device count and, if that has no rate, at the largest that has one."""
    found = []
    for _, curve in choose_inputs(explanations).groupby([*LINE, "placement"], sort=False):
        rows = curve.sort_values("num_gpus", ascending=False, kind="stable")
        known = rows["loss_frac"].notna()
        last = rows[known.cumsum().eq(0) | (known & known.cumsum().eq(1))]
        found += [read_cause(row) for _, row in last.iterrows()]
    return found


def read_cause(row: pd.Series) -> Facts:
    """Return the sentence of a row of `explanations`, the remedy for its largest cause, and what would tell more."""
    keys: dict[str, Hashable] = {name: row.get(name) for name in ("sentence", "remedy", "run_next")}
    return {name: None if pd.isna(value) else value for name, value in keys.items()}


def explain_wall_time(explanations: pd.DataFrame) -> str | None:
    """Return the sentence about the curve with most of its wall time outside of its rate, on its most devices."""
    ends = choose_inputs(explanations).sort_values("num_gpus", kind="stable").groupby([*LINE, "placement"]).tail(1)
    ends = ends[ends["wall_sentence"].notna()]
    if ends.empty:
        return None
    outside = ends[["evaluation_wall_frac", "startup_wall_frac"]].astype(float).fillna(0.0).sum(axis=1)
    return str(ends.loc[outside.idxmax(), "wall_sentence"])


def compare_nodes(runs: pd.DataFrame) -> list[Facts] | None:
    """Compare the most devices of each series on the most and on the fewest nodes; None if no count was on several.

    Placements with a failed repeat are left out.
    """
    table = compare_placements(choose_inputs(runs))
    if table.empty:
        return None
    known = table[table["rate_of_base"].notna() & (table["num_nodes"] > table["base_num_nodes"])]
    sound = add_series(known[(known["num_failed"] == 0) & (known["base_num_failed"] == 0)].assign(placement=""))
    sound = sound.sort_values(["num_gpus", "num_nodes", "images_per_s_median"], ascending=False, kind="stable")
    chosen = sound.drop_duplicates("series").sort_values("images_per_s_median", ascending=False, kind="stable")
    found = []
    for _, row in chosen.iterrows():
        has_spread = max(row["num_repeats"], row["base_num_repeats"]) > 1
        found.append(
            name_place(row)
            | {"base_num_nodes": int(row["base_num_nodes"]), "per_device_batch_size": int(row["per_device_batch_size"])}
            | {"rate_of_base": row["rate_of_base"]}
            | {f"rate_of_base_{end}": row[f"rate_of_base_{end}"] if has_spread else None for end in ("min", "max")}
        )
    return found


def compare_independent(runs: pd.DataFrame, scaling: pd.DataFrame) -> Facts | None:
    """Compare the fastest configuration on several devices with as many independent runs at once; None without both.

    Independent runs train a network on each device, so that no ranking includes them.
    """
    variants = set(runs.loc[runs["independent"].eq(True), "variant"])
    rated = choose_inputs(scaling)
    rated = rated[rated["images_per_s_median"].notna()]
    is_independent = rated["variant"].isin(variants)
    sound = rated[~is_independent & (rated["num_failed"] == 0)]
    if sound.empty or not is_independent.any():
        return None
    best = sound.loc[sound["images_per_s_median"].idxmax()]
    rivals = rated[is_independent & (rated[SAME] == best[SAME]).all(axis=1)]
    if rivals.empty or best["num_gpus"] == 1:
        return None
    rival = rivals.loc[rivals["images_per_s_median"].idxmax()]
    return {
        **{name: best[name] for name in ("framework", "device")},
        "num_gpus": int(best["num_gpus"]),
        "times_rate": rival["images_per_s_median"] / best["images_per_s_median"],
        "slowest_images_per_s": float(rival["device_images_per_s_min"]),
        "fastest_images_per_s": float(rival["device_images_per_s_max"]),
    }


def list_protocols(protocols: pd.DataFrame) -> list[Facts]:
    """Return what each unfair protocol changes on the most devices, and whether the order of frameworks changes.

    protocols: the table of that name.
    """
    described = [choose_inputs(protocols[protocols["protocol"] == name]) for name in PROTOCOLS]
    return [_describe_protocol(rows) for rows in described if len(rows)]


def _describe_protocol(rows: pd.DataFrame) -> Facts:
    # Several rows of one protocol are about the same configuration, by different measures.
    counts = rows.groupby(COMPARED, sort=False)["framework"].nunique().reset_index()
    shown = counts.sort_values(["num_gpus", "framework"], ascending=False, kind="stable").iloc[0]
    facts: Facts = {name: shown[name] for name in ("device", "input", "precision")}
    facts |= {name: int(shown[name]) for name in ("num_gpus", "per_device_batch_size")}
    measures = [_describe_measure(own, shown) for _, own in rows.groupby("measure", sort=False)]
    return {"words": name_protocol(rows["protocol"].iloc[0]), **facts, "measures": [each for each in measures if each]}


def _describe_measure(rows: pd.DataFrame, shown: pd.Series) -> Facts | None:
    own = rows[(rows[COMPARED] == shown[COMPARED]).all(axis=1)].sort_values("fair_rank", kind="stable")
    if own.empty:
        return None
    first = own.iloc[0]
    return {
        "measure": first["measure"],
        "metric": name_metric(first["metric"]) if pd.notna(first["metric"]) else None,
        "target": float(first["target"]) if pd.notna(first["target"]) else None,
        "effects": [
            {"framework": row["framework"], "is_ratio": row["effect"] == "ratio"}
            | {"num_repeats": int(row["num_repeats"])}
            | {end: float(row[f"effect_{end}"]) for end in ("median", "min", "max")}
            | {"num_images": int(row["num_images"]) if pd.notna(row["num_images"]) else None}
            for _, row in own.iterrows()
        ],
        "order": _describe_order(rows, shown),
    }


def _describe_order(rows: pd.DataFrame, shown: pd.Series) -> Facts | None:
    """Count the configurations in which the order of frameworks changes, with the orders of one; None if unknown."""
    known = rows[rows["order_changes"].notna()].drop_duplicates(COMPARED)
    if known.empty:
        return None
    changed = known[known["order_changes"] != NO]
    facts = {"num_known": len(known), "num_changed": len(changed)}
    if changed.empty:
        return facts
    same = changed[(changed[COMPARED] == shown[COMPARED]).all(axis=1)]
    row = (same if len(same) else changed).iloc[0]
    return facts | {
        "num_gpus": int(row["num_gpus"]),
        "fair": row["fair_order"],
        "unfair": row["unfair_order"],
        "sure": row["order_changes"].removeprefix("yes").removeprefix(", ") or None,
    }

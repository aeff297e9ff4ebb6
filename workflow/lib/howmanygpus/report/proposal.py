"""
What computing centres ask for in a proposal: the scaling of one configuration, with every number that they name.

docs/proposal.md says which line answers which centre. The templates in workflow/report/ make texts of the facts.
"""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.answer.candidates import summarize
from howmanygpus.report.answer.names import OF_STUDY
from howmanygpus.report.columns import IDENTITY, LINE, SERIES, list_columns
from howmanygpus.report.figures.helpers.predicted import EDGE, NOTE, choose_look
from howmanygpus.report.published import is_fair
from howmanygpus.report.rows import choose_inputs
from howmanygpus.report.style import GREY, add_note, make_panels, mark_counts
from howmanygpus.report.tables.scaling import MODES, is_baseline
from howmanygpus.report.words import word

EFFICIENCY = 0.75
"""Least parallel efficiency that centres accept; CSC's example is a speed-up of 1.5 for each doubling."""
DOUBLING = 1.5
COLOUR = "#0072B2"
STRATEGIES = {
    **dict.fromkeys(("ddp", "dp", "data", "data_parallel", "no_shard"), "replicated"),
    **dict.fromkeys(("zero1", "zero_1", "zero-1"), "sharded_state"),
    **dict.fromkeys(("zero2", "zero_2", "zero-2", "shard_grad_op"), "sharded_gradients"),
    **dict.fromkeys(("fsdp", "fsdp1", "fsdp2", "zero3", "zero_3", "zero-3", "full_shard", "sharded"), "sharded"),
    **dict.fromkeys(("hsdp", "hybrid_shard"), "sharded_in_groups"),
}
"""Well-known values of a program's axes, with the macro of strategies.jinja that describes them."""

Facts = dict[str, Any]


def collect(
    facts: Facts,
    runs: pd.DataFrame,
    scaling: pd.DataFrame,
    utilisation: pd.DataFrame,
    config: dict[str, Any],
    predictions: pd.DataFrame | None = None,
) -> Facts:
    """Return what a proposal says about a study, from its decision and its tables.

    facts: see report.answer.facts. config: that of the study. predictions: the table of that name, if the study asks
    for any. The configuration is the recommended one or, without a recommendation, the fastest one; the curves are
    those of its framework with its batch.
    """
    runs = runs[is_fair(runs)]
    own = runs.merge(utilisation, on=IDENTITY, how="left")
    chosen = next((each["recommended"] for each in facts["decisions"] if each["recommended"]), None)
    known = scaling[scaling["images_per_s_median"].notna()]
    if chosen is None and len(known):
        sound = known[known["num_failed"] == 0]
        chosen = choose_inputs(sound if len(sound) else known).sort_values("images_per_s_median").iloc[-1].to_dict()
    curves = []
    for mode in MODES:
        if chosen is None:
            break
        rows = known[(known["scaling_mode"] == mode) & _is_series(known, chosen)]
        fixed = _choose_curve(rows, chosen)
        rows = _choose_nodes(rows[rows["fixed_batch_size"] == fixed], chosen)
        if len(rows):
            curve = {"mode": mode, "fixed_batch_size": int(fixed), "rows": _describe_rows(rows, own, config["cases"])}
            curves.append(curve | {"predicted": _list_predicted(predictions, rows)})
    completed = runs[runs["status"] == "completed"]
    return {
        **{key: facts[key] for key in ("study", "network", "dataset", "is_program", "unit", "machines")},
        **{key: facts[key] for key in ("first_day", "last_day", "num_planned")},
        "configuration": chosen,
        "strategy": _describe_strategy(config, chosen) if chosen else None,
        "curves": curves,
        "predicted": (facts["details"] or {}).get("predicted", []),
        "cases": config["cases"],
        "epochs": config.get("epochs"),
        "versions": sorted(set(completed["framework_version"].dropna())),
        "python": sorted(set(completed["python_version"].dropna().astype(str))),
        "drivers": sorted(set(completed["driver_version"].dropna().astype(str))),
        "nodes": sorted({node for each in completed["nodes"].dropna() for node in str(each).split()}),
        "commits": sorted(set(completed["git_commit"].dropna().astype(str))),
        "manifests": sorted(set(completed["manifest_sha256"].dropna().astype(str))),
        "parity": sorted(set(completed["parity"].dropna())),
        "warmup_steps": config["warmup_steps"],
        "efficiency": EFFICIENCY,
        "doubling": DOUBLING,
    }


def _describe_strategy(config: dict[str, Any], chosen: Facts) -> Facts | None:
    """Return the axis that names the strategy of a program's variant, its value and words; None if none is known."""
    axes = config.get("variants", {}).get(chosen["variant"], {}).get("axes", {})
    known = ((axis, value, STRATEGIES.get(str(value).lower())) for axis, value in axes.items())
    return next(
        ({"axis": axis, "value": value, "words": word("strategies", code)} for axis, value, code in known if code), None
    )


def _list_predicted(predictions: pd.DataFrame | None, rows: pd.DataFrame) -> list[Facts]:
    """Return the brackets of rates beyond the rows of one curve of the table `scaling`, by rising device count."""
    if predictions is None:
        return []
    same = (predictions[LINE] == rows.iloc[0][LINE]).all(axis=1) & predictions["images_per_s"].notna()
    beyond = predictions[same & predictions["measured_images_per_s"].isna()].sort_values("num_gpus")
    return beyond[["num_gpus", "num_nodes", "images_per_s_low", "images_per_s", "images_per_s_high"]].to_dict("records")


def _is_series(table: pd.DataFrame, chosen: Facts) -> pd.Series:
    names = list_columns(SERIES)
    return (table[names] == [chosen[name] for name in names]).all(axis=1)


def _choose_nodes(rows: pd.DataFrame, chosen: Facts) -> pd.DataFrame:
    """Return one row for each device count: on as many nodes as the configuration, else on the fewest."""
    order = rows.assign(is_other=rows["num_nodes"] != chosen["num_nodes"])
    order = order.sort_values(["num_gpus", "is_other", "num_nodes"])
    return rows.loc[order.drop_duplicates("num_gpus").index]


def _choose_curve(rows: pd.DataFrame, chosen: Facts) -> float:
    """Return the batch that is constant on the curve through the configuration, else on that with most counts."""
    same = rows[
        (rows["num_gpus"] == chosen["num_gpus"]) & (rows["per_device_batch_size"] == chosen["per_device_batch_size"])
    ]
    through = rows[rows["fixed_batch_size"].isin(same["fixed_batch_size"])]
    counts = (through if len(through) else rows).groupby("fixed_batch_size")["num_gpus"].nunique()
    return float(counts.idxmax()) if len(counts) else np.nan


def _describe_rows(rows: pd.DataFrame, runs: pd.DataFrame, cases: int) -> list[Facts]:
    described: list[Facts] = []
    for _, row in rows.iterrows():
        repeats = runs[(runs[OF_STUDY] == row[OF_STUDY]).all(axis=1) & (runs["status"] == "completed")]
        wall = summarize(repeats["wall_time_s"].astype(float))
        started = repeats["init_s"].astype(float) + repeats["compile_s"].astype(float)
        share = (started / repeats["wall_time_s"].astype(float)).median()
        before = described[-1] if described else None
        gain = row["images_per_s_median"] / before["images_per_s"]["median"] if before else None
        doublings = np.log2(row["num_gpus"] / before["num_gpus"]) if before else 0.0
        is_base = bool(is_baseline(rows.loc[[row.name]]).iloc[0])
        wall_s = wall["median"] if wall else np.nan
        described.append(
            {
                **{
                    key: int(row[key])
                    for key in ("num_gpus", "num_nodes", "per_device_batch_size", "global_batch_size")
                },
                "device": row["device"],
                "num_repeats": int(row["num_repeats"]),
                "images_per_s": _summarize(row, "images_per_s"),
                "is_base": is_base,
                "speedup": None if is_base or pd.isna(row["speedup"]) else _summarize(row, "speedup"),
                "scaling_efficiency": _known(row["scaling_efficiency"]),
                "has_efficiency": (
                    None if is_base or pd.isna(row["speedup"]) else bool(row["scaling_efficiency"] >= EFFICIENCY)
                ),
                "gain": gain,
                "has_gain": None if gain is None else bool(gain >= DOUBLING**doublings),
                "wall_s": wall,
                "startup_frac": _known(share),
                "node_hours": _known(cases * row["num_nodes"] * wall_s / 3600),
                **{name: _known(repeats[name].astype(float).median()) for name in USED},
            }
        )
    return described


USED = (
    *("utilisation_frac", "memory_gib_highest", "host_utilisation_frac", "data_wait_frac", "mfu"),
    *("disk_read_gib_per_s", "network_tx_gib_per_s", "joules_per_image"),
)
"""Columns of the tables runs and utilisation that a proposal shows as medians."""


def _summarize(row: pd.Series, name: str) -> dict[str, float | None]:
    median = row.get(f"{name}_median", row.get(name))
    return {"median": _known(median), "low": _known(row.get(f"{name}_low")), "high": _known(row.get(f"{name}_high"))}


def _known(value: Any) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None


def draw(facts: Facts) -> Figure:
    """Draw the speed-up and the efficiency of each curve, with what centres demand."""
    curves = facts["curves"]
    titles = [f"{curve['mode']} scaling: {what}" for curve in curves for what in ("speed-up", "efficiency")]
    figure, axes = make_panels(titles, max_columns=2)
    for curve, speed, share in zip(curves, axes[::2], axes[1::2], strict=False):
        counts = np.array([row["num_gpus"] for row in curve["rows"]], float)
        first = curve["rows"][0]["images_per_s"]["median"]
        speedups = np.array([row["images_per_s"]["median"] / first for row in curve["rows"]])
        speed.plot(counts, counts / counts[0], color=GREY, linestyle=":")
        speed.annotate("ideal", (counts[-1], counts[-1] / counts[0]), color=GREY, ha="right", va="bottom")
        speed.plot(counts, speedups, color=COLOUR, marker="o")
        speed.set_ylabel(f"speed-up over {int(counts[0])} device{'s' if counts[0] > 1 else ''}")
        share.plot(counts, 100 * speedups * counts[0] / counts, color=COLOUR, marker="o")
        share.axhline(100 * EFFICIENCY, color=GREY, linestyle=":")
        share.annotate(f"{100 * EFFICIENCY:.0f} % demanded", (counts[0], 100 * EFFICIENCY), color=GREY, va="bottom")
        share.set_ylabel("parallel efficiency in %")
        for panel in (speed, share):
            panel.set_xlabel("devices")
        if curve["predicted"]:
            _draw_predicted(speed, share, curve["predicted"], counts, first, speedups)
            counts = np.append(counts, [each["num_gpus"] for each in curve["predicted"]])
        share.set_ylim(0, max(105, 1.05 * share.dataLim.ymax))
        speed.set_ylim(0)
        for panel in (speed, share):
            mark_counts(panel, counts.astype(int))
    return figure


def _draw_predicted(
    speed: Axes, share: Axes, predicted: list[Facts], counts: np.ndarray, first: float, speedups: np.ndarray
) -> None:
    """Draw the brackets of predicted counts as hatched bands that begin at the last measured count.

    first: the rate on the smallest count; speedups: at the measured counts.
    """
    beyond = np.array([counts[-1], *(each["num_gpus"] for each in predicted)])
    ends = [
        np.array([speedups[-1], *(each[f"images_per_s_{end}"] / first for each in predicted)])
        for end in ("low", "high")
    ]
    for axes, scale in ((speed, np.ones(len(beyond))), (share, 100 * counts[0] / beyond)):
        axes.fill_between(beyond, ends[0] * scale, ends[1] * scale, linewidth=0, **choose_look(COLOUR))
        for end in ends:
            axes.plot(beyond, end * scale, color=COLOUR, linestyle=EDGE, linewidth=1)
        add_note(axes, NOTE)
    speed.plot(beyond, beyond / counts[0], color=GREY, linestyle=":")


def save(figure: Figure, folder: Path) -> None:
    """Write the figure as SVG and PDF."""
    for suffix in ("svg", "pdf"):
        figure.savefig(folder / f"scaling.{suffix}", bbox_inches="tight")
    plt.close(figure)

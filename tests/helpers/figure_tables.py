"""Tables of small studies, from which the tests of figures draw."""

import functools
import itertools
import tempfile
from pathlib import Path

import pandas as pd

from helpers.specs import make_spec
from helpers.stored_runs import FIXED
from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.files import read_table, write_table
from howmanygpus.report.outcomes import identify
from howmanygpus.report.placements import compare_placements
from howmanygpus.report.rows import PROGRAM
from howmanygpus.report.tables import ceilings, decision, input_parts, time_split
from howmanygpus.report.tables.allreduce import tabulate
from howmanygpus.report.tables.batch_sizes import compute_batch_sizes
from howmanygpus.report.tables.evaluations import COLUMNS as EVALUATION
from howmanygpus.report.tables.gradient_noise import COLUMNS as NOISE
from howmanygpus.report.tables.losses import COLUMNS as LOSSES
from howmanygpus.report.tables.protocols import compute_protocols
from howmanygpus.report.tables.published import COLUMNS as PUBLISHED
from howmanygpus.report.tables.run_phases import COLUMNS as PHASES
from howmanygpus.report.tables.runs import COLUMNS as RUNS
from howmanygpus.report.tables.scaling import compute_scaling
from howmanygpus.report.tables.step_times import COLUMNS as STEPS
from howmanygpus.report.tables.step_times import PERCENTILES
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy
from howmanygpus.report.tables.timelines import COLUMNS as TIMELINES
from howmanygpus.report.tables.trace_strips import COLUMNS as STRIPS
from howmanygpus.report.tables.traces import COLUMNS as TRACES
from howmanygpus.report.tables.variants import compute_variants

ALLREDUCES = [
    {
        **{"device": "d", "num_gpus": count, "num_nodes": 1, "nodes": ["n1"] if count == 2 else ["n1", "n2"]},
        "sizes": [{"size_mib": 1, "median_s": 0.001 * count}, {"size_mib": 16, "median_s": 0.01 * count}],
    }
    for count in (2, 4)
]
QUALITY = {"metric": "accuracy", "thresholds": [0.5, 0.9], "margin": 0.01}


PROTOCOLS = {"first_epoch_inside": True, "eval_other_images": {}, "eval_batch_statistics": [], "own_augmentation": {}}
GUESS = 0.07
SERIES = ("a base", "b base", "b best")


def unchanged(table) -> None:
    """Change nothing in a table."""


def make_tables(status_of, accuracy_of, change=unchanged, unit=None, axis=None) -> dict[str, pd.DataFrame]:
    """Make tables of SERIES on 3 device counts with 2 repeats; they are written and read as the workflow does.

    change: is called with the tables of runs, losses and step times, from which the others are made. unit: what a
    user's program counts; None for the workflow's networks. axis: a setting of runs and the values with each of which
    all of them are made; None for the defaults alone.
    """
    return {name: table.copy() for name, table in _make_tables(status_of, accuracy_of, change, unit, axis).items()}


@functools.cache
def _make_tables(status_of, accuracy_of, change, unit, axis) -> dict[str, pd.DataFrame]:
    with tempfile.TemporaryDirectory() as folder:
        return _write_tables(Path(folder), status_of, accuracy_of, change, unit, axis)


def _make_runs(status_of, accuracy_of, unit, axis) -> dict[str, pd.DataFrame]:
    """Make the tables that are read from the records of runs."""
    plan = {"config": FIXED["config"] | {"program": {"unit": unit} if unit else None}}
    runs, evaluations, losses, steps = [], [], [], []
    settings = [{axis[0]: value} for value in axis[1]] if axis else [{}]
    series = (("a", "base"), ("b", "base"), ("b", "best"))
    for more, (framework, variant), num_gpus, repeat in itertools.product(settings, series, (1, 2, 4), (1, 2)):
        names = {"framework": framework, "variant": variant, "repeat": repeat} | more
        spec = make_spec(**names, num_gpus=num_gpus, global_batch_size=8 * num_gpus)
        identity, status = identify(plan, vars(spec)), status_of(num_gpus)
        identity |= {"input": PROGRAM} if unit else {}
        row = identity | {
            "run_dir": f"results/runs/{framework}/{'_'.join([variant, *more.values()])}/gpus{num_gpus}_repeat{repeat}",
            "status": status,
            "reason": "" if status == "completed" else f"why {status}",
            **{"init_s": 3.0, "compile_s": 1.0},
        }
        if status == "completed":
            row |= {"images_per_s": 100.0 * num_gpus, "quality_best": accuracy_of(num_gpus)}
            row |= {"quality_last": accuracy_of(num_gpus), "quality_metric": "accuracy"}
            row |= {"images_seen": 480 * num_gpus, "train_s": 5.0}
            row |= {"quality_of_guess": GUESS, "eval_s": 1.0, "wall_time_s": 10.0}
            row |= {"cost": 6.0 + num_gpus, "currency": "EUR", "device_hours": num_gpus / 90}
            row |= {"billed_device_hours": num_gpus / 90, "failed_billed_device_hours": num_gpus / 360}
            row |= {"device_model": "EPYC", "started_at": "2026-01-01T00:00:00+00:00"}
            moment = {"epoch": 1, "images_seen": 80, "train_s": 1.0, "wall_s": 2.0}
            moment |= {"quality": accuracy_of(num_gpus)}
            moment |= {"metric": "accuracy", "quality_of_guess": GUESS}
            evaluations.append(identity | moment)
            steps.append(identity | {name: 0.001 * percent for name, percent in PERCENTILES.items()})
            losses += [identity | {"last_step": step, "loss": 2.0 / step} for step in (1, 6)]
        runs.append(row)
    return {
        "runs": pd.DataFrame(runs, columns=list(RUNS)),
        "evaluations": pd.DataFrame(evaluations, columns=list(EVALUATION)),
        "losses": pd.DataFrame(losses, columns=list(LOSSES)),
        "step_times": pd.DataFrame(steps, columns=list(STEPS)),
    }


def _write_tables(folder, status_of, accuracy_of, change, unit, axis) -> dict[str, pd.DataFrame]:
    tables = _make_runs(status_of, accuracy_of, unit, axis)
    change(tables["runs"])
    change(tables["losses"])
    change(tables["step_times"])
    tables = {name: written(folder, name, table) for name, table in tables.items()}
    tables["scaling"] = written(
        folder, "scaling", compute_scaling(tables["runs"], {"weak": [8], "strong": [8]}, {"base": {"a": "machinery"}})
    )
    accuracy = compute_time_to_accuracy(tables["runs"], tables["evaluations"], QUALITY)
    tables["time_to_accuracy"] = written(folder, "time_to_accuracy", accuracy)
    batches = compute_batch_sizes(tables["runs"], tables["time_to_accuracy"], pd.DataFrame(columns=list(NOISE)))
    tables["batch_sizes"] = written(folder, "batch_sizes", batches)
    tables["placement"] = written(folder, "placement", compare_placements(spread(tables["runs"])))
    config = {"protocols": PROTOCOLS, "variants": {"base": {}, "best": {}}, "quality": QUALITY}
    tables["protocols"] = written(
        folder, "protocols", compute_protocols(tables["runs"], tables["evaluations"], config, {})
    )
    tables["published"] = written(folder, "published", make_published())
    tables["allreduce"] = written(folder, "allreduce", tabulate({}, ALLREDUCES))
    plan, phases = {"config": config, "runs": {}}, make_phases(tables["runs"])
    tables["time_split"] = written(folder, "time_split", time_split.tabulate(plan, tables["runs"], phases))
    parts = input_parts.tabulate(plan, tables["runs"], phases, folder)
    tables["input_parts"] = written(folder, "input_parts", parts)
    bounds = ceilings.tabulate(plan, tables["runs"], tables["scaling"], phases, [])
    tables["ceilings"] = written(folder, "ceilings", bounds)
    asked = {"config": config | {"worth_doubling": 1.5, "deadline_h": None, "budget": None}}
    chosen_from = decision.tabulate(asked, tables["runs"], accuracy, tables["losses"])
    tables["decision"] = written(folder, "decision", chosen_from)
    tables["timelines"] = written(folder, "timelines", make_timelines(tables["runs"]))
    for name, table in make_traces(tables["runs"]).items():
        tables[name] = written(folder, name, table)
    variants = compute_variants(tables["runs"], ["base", "best"], 0.01, tables["evaluations"])
    return tables | {"variants": written(folder, "variants", variants)}


def make_phases(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the seconds by phase of the runs that completed. The loader would give half of what they reached."""
    done = runs[runs["status"] == "completed"]
    seconds = {"startup_s": 3.0, "first_step_s": 1.0, "warmup_s": 0.2, "input_wait_s": 0.5, "steps_s": 4.0}
    seconds |= {"evaluation_s": 1.0, "other_s": 0.3}
    workers = {"loader_s_per_image": 0.02, "loader_workers": 1, "cores_per_device": 1, "num_processes": 1}
    return done.assign(**seconds, **workers, is_sharded=None, processes=None, processes_s=None, straggle_frac=None)[
        list(PHASES)
    ]


def make_timelines(runs: pd.DataFrame) -> pd.DataFrame:
    """Timelines of two devices and a host: the first half is training, then the first device evaluates alone."""
    halves = {"training_frac": "1,0", "evaluation_frac": "0,1", "first_step_frac": "0,0", "checkpoint_frac": "0,0"}
    rows = [{"device": "phases"} | halves]
    rows += [{"device": f"cpu{i}", "utilisation_frac": f"0.9,{1 - i}", "memory_gib": "1,2"} for i in range(2)]
    rows.append({"device": "host", "utilisation_frac": "0.5,0.5", "disk_read_gib_per_s": "0.1,0"})
    of_run = {"node": 0, "bin_s": 5.0}
    done = runs.loc[runs["status"] == "completed", "run_dir"]
    return pd.DataFrame(
        [{"run_dir": run_dir} | of_run | row for run_dir in done for row in rows], columns=list(TIMELINES)
    )


def make_traces(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Make the tables of traces: each completed run has two steps of 1 s that wait for 0.5 s."""
    identity = IDENTITY
    done = runs.loc[runs["status"] == "completed", identity]
    measured = {"num_steps": 2, "window_s": 2.0, "step_s_traced": 1.0, "gap_s_median": 0.5, "busy_frac": 0.5}
    parts = pd.DataFrame({"time_s": [0.0, 0.5, 1.0, 1.5], "step": [1, 1, 2, 2], "busy_frac": [0.0, 1.0, 0.0, 1.0]})
    strips = done.merge(parts.assign(input_wait_frac=1 - parts["busy_frac"]), how="cross")
    return {
        "traces": done.assign(**measured, idle_frac=0.5).reindex(columns=list(TRACES)),
        "trace_strips": strips.reindex(columns=list(STRIPS)),
    }


def spread(runs: pd.DataFrame, ratio: float = 0.9) -> pd.DataFrame:
    """Return runs on one node, with those of several devices on two nodes too, at a part of their rate."""
    together = runs.assign(placement="1 node")
    apart = runs[runs["num_gpus"] > 1].assign(placement="2 nodes", num_nodes=2)
    return pd.concat([together, apart.assign(images_per_s=ratio * apart["images_per_s"])], ignore_index=True)


def make_published() -> pd.DataFrame:
    """Published numbers of SERIES on one and two devices, with rate, quality and price, and of epochs by batch.

    c never reached a threshold.
    """
    rows = [
        {
            **{
                "source": "paper",
                "series": series,
                "framework": None,
                "model": "m",
                "input": "real",
                "hardware": "V100",
            },
            **{"num_gpus": count, "global_batch_size": 8 * count, "duration_s": 900.0 / count, "quality": 0.8},
            **{"images_per_s": 100.0 * count, "speedup": count, "quality_metric": "accuracy", "year": 2018},
            **{"price": 3.0 * count, "currency": "USD"},
        }
        for series in SERIES
        for count in (1, 2)
    ]
    never = {"source": "paper", "series": "c", "hardware": "V100", "num_gpus": 4, "quality_metric": "accuracy"}
    rows.append(never | {"threshold": 0.9, "reached": False})
    counted = {"source": "paper", "title": "A paper", "model": "m", "remark": "epochs to a quality"}
    sizes = {64: 20.0, 128: 30.0}.items()
    rows += [
        counted | {"series": series, "global_batch_size": size, "epochs": epochs}
        for series in SERIES
        for size, epochs in sizes
    ]
    return pd.DataFrame(rows, columns=list(PUBLISHED))


def written(folder, name, table):
    write_table(folder / f"{name}.tsv", table)
    return read_table(folder / f"{name}.tsv")


GRIDS = {
    "complete": (lambda count: "completed", lambda count: 0.95),
    "nothing run": (lambda count: "missing", lambda count: None),
    "all failed": (lambda count: "crashed", lambda count: None),
    "baseline failed": (lambda count: "out_of_memory" if count == 1 else "completed", lambda count: 0.95),
    "largest never good": (lambda count: "completed", lambda count: 0.6 if count == 4 else 0.95),
    "never good": (lambda count: "completed", lambda count: 0.1),
}


NAMES = {
    "allreduce": ("1 MiB", "16 MiB"),
    "input_parts": ("read arrays", "end to end: arrays"),
    "protocols": ("a, 2 devices", "b, 2 devices"),
    "run_grid": tuple(f"{series} arrays fp32 cpu" for series in SERIES),
    "time_split": ("2 devices", "4 devices"),
    "timelines": (),
    "variants": ("best b, 2 devices", "best b, 4 devices"),
}
"""The names in each panel of a figure, if they are not SERIES."""
NONE_COMPLETED = ("nothing run", "all failed")
SENTENCES = {
    "batch_sizes": ("No run has completed with a rate; the figure of all runs says why.", NONE_COMPLETED),
    "decision": ("No recommendation: no run that counts has completed.", NONE_COMPLETED),
    "drift": ("No configuration has a rate in two repeats; the figure of all runs says why.", NONE_COMPLETED),
    "input_parts": ("No run has completed; the figure of all runs says why.", NONE_COMPLETED),
    "loss_of_first_epoch": (
        "No run has recorded its first epoch; the figure of all runs says why.",
        NONE_COMPLETED,
    ),
    "traces": ("No run has a trace yet.", NONE_COMPLETED),
    "placement": (
        "No device count has completed on several numbers of nodes; the figure of all runs says why.",
        NONE_COMPLETED,
    ),
    "price": ("No run with a price has completed; the figure of all runs says why.", NONE_COMPLETED),
    "protocols": ("No run has completed both ways; the figure of all runs says why.", NONE_COMPLETED),
    "quality_by_epoch": ("No run on real images has been evaluated; the figure of all runs says why.", NONE_COMPLETED),
    "real_against_synthetic": ("No configuration has completed on more than one input.", tuple(GRIDS)),
    "speedup": (
        "No run on real images has completed on the smallest device count; the figure of all runs says why.",
        (*NONE_COMPLETED, "baseline failed"),
    ),
    "step_times": ("No run has recorded its steps; the figure of all runs says why.", NONE_COMPLETED),
    "throughput_by_batch_size": ("No run has completed with a rate; the figure of all runs says why.", NONE_COMPLETED),
    "throughput_by_gpus": ("No run has completed with a rate; the figure of all runs says why.", NONE_COMPLETED),
    "time_split": ("No run has completed; the figure of all runs says why.", NONE_COMPLETED),
    "timelines": ("No run with samples has completed; the figure of all runs says why.", NONE_COMPLETED),
    "variants": ("No configuration has completed in two variants; the figure of all runs says why.", NONE_COMPLETED),
}
"""The text that a figure shows instead of data, and the grids for which it does. A test below draws two inputs."""
NOTHING_RUN = "No run on real images has completed; the figure of all runs says why."
NEVER_REACHED = "No configuration reached test accuracy 0.5 or 0.9 in most repeats."
TIMES = {"nothing run": NOTHING_RUN, "all failed": NEVER_REACHED, "never good": NEVER_REACHED}
"""The same of the figures of times to a threshold, which have two such texts."""


def find_sentence(name: str, grid: str) -> str | None:
    """Return the text that a figure shows instead of data."""
    if name in ("time_to_accuracy", "time_with_start"):
        return TIMES.get(grid)
    sentence, grids = SENTENCES.get(name, ("", ()))
    return sentence if grid in grids else None

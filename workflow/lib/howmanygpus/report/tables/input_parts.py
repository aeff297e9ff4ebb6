"""
The rate of each part of the input, from the disk to the device, alone and end to end, in images/s over all devices.

`part` is one of PARTS. `load` is the rate of the workers of all devices while they work, from the time that one of them
takes for an image; a framework's own loader does not tell it. What they do depends on `input`: they read `arrays`, and
read and decode `png` and `jpeg`. `copy` is the rate at which batches reach the devices; CPU devices have none. `train`
is the rate on images that stay on the devices (`resident`). `end_to_end` is the rate of the training on each input.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from howmanygpus.measure.input.description import DESCRIPTION, read_description
from howmanygpus.report.columns import BATCH, IDENTITY, PLACE, SERIES, list_columns
from howmanygpus.report.outcomes import identify
from howmanygpus.report.published import is_fair

READS = ("results", "runs", "run_phases")
COMPARES = "inputs"
LOAD, COPY, TRAIN, END_TO_END = "load", "copy", "train", "end_to_end"
PARTS = (LOAD, COPY, TRAIN, END_TO_END)
"""Parts in the order in which images pass them, and all of them together."""
RESIDENT = "resident"
GIB = 2**30
COMPARED = list_columns(SERIES, PLACE, BATCH, but=["input", "global_batch_size"])
RATES = ("images_per_s_median", "images_per_s_min", "images_per_s_max")
COLUMNS = [*COMPARED, "part", "input", *RATES, "num_repeats", "num_disturbed"]


def tabulate(plan: dict, runs: pd.DataFrame, run_phases: pd.DataFrame, results: Path = Path()) -> pd.DataFrame:
    """One row per configuration, part and input. runs, run_phases: the tables of these names.

    A part that was not measured has no row. results: the folder that holds `results/`.
    """
    fair = runs[is_fair(runs) & runs["images_per_s"].notna()]
    workers = run_phases[[*IDENTITY, "loader_s_per_image", "loader_workers"]]
    timed = fair.merge(workers, on=IDENTITY, how="left")
    timed["image_bytes"] = count_bytes(plan, timed, results)
    timed[LOAD] = timed["num_gpus"] * timed["loader_workers"] / timed["loader_s_per_image"].astype(float)
    copied = timed["num_gpus"] * timed["host_to_device_gib_per_s"].astype(float) * GIB
    timed[COPY] = copied / timed["image_bytes"]
    rows = [row for _, own in timed.groupby(COMPARED, sort=False) for row in list_parts(own)]
    return pd.DataFrame(rows, columns=COLUMNS)


def count_bytes(plan: dict, runs: pd.DataFrame, results: Path) -> list[float]:
    """Return the bytes of an image as each run copies it to a device; nan if the data are gone."""
    by_run: dict[tuple, dict] = {}
    for each in plan["runs"].values():
        by_run[tuple(identify(plan, each["spec"]).values())] = each["spec"]
    shapes: dict[str, list[int]] = {}
    found = []
    for key in runs[IDENTITY].itertuples(index=False, name=None):
        spec = by_run.get(key, {})
        folder = results / spec.get("data_dir", "")
        if str(folder) not in shapes:
            is_there = (folder / DESCRIPTION).exists()
            shapes[str(folder)] = read_description(folder)["image_shape"] if is_there else []
        shape = shapes[str(folder)]
        resized = spec.get("random_resized_crop")
        size = resized["size"] if resized else spec.get("crop") or shape[:2]
        found.append(math.prod([*size, *shape[2:]]) if shape else math.nan)
    return found


def list_parts(runs: pd.DataFrame) -> Iterator[dict]:
    """Yield the rows of a configuration. runs: its repeats on all inputs."""
    configuration = runs.iloc[0][COMPARED].to_dict()

    def summarize(part: str, given: str | None, rates: pd.Series, own: pd.DataFrame) -> Iterator[dict]:
        if (known := rates.dropna()).size:
            row = configuration | {"part": part, "input": given, "num_repeats": len(known)}
            row |= dict(zip(RATES, (known.median(), known.min(), known.max()), strict=True))
            yield row | {"num_disturbed": int(own.loc[known.index, "disturbed"].eq(True).sum())}

    by_input = list(runs.groupby("input", sort=False))
    for given, own in by_input:
        yield from summarize(LOAD, given, own[LOAD], own)
    yield from summarize(COPY, None, runs[COPY], runs)
    for given, own in by_input:
        yield from summarize(TRAIN if given == RESIDENT else END_TO_END, given, own["images_per_s"].astype(float), own)

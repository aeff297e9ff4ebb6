"""The runs of a study as a grid: its devices, how many runs it has, and which are left out."""

import itertools
import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from howmanygpus.plan.config.errors import ConfigError, refuse
from howmanygpus.plan.config.machine import Machine
from howmanygpus.plan.largest.sizes import MAX, UNRESOLVED
from howmanygpus.plan.runs import Run

if TYPE_CHECKING:
    from howmanygpus.plan.study.study import Study

MOST_RUNS = 100_000
"""A larger number of runs is considered a mistake in the lists of a study."""


def resolve_devices(place: str, names: list[str], machine: Machine) -> list[str]:
    """Return the distinct devices of the machine that a study names. place: of the study in the config."""
    places = (f"{place}.devices[{position}]" for position in itertools.count())
    return list(dict.fromkeys(map(machine.resolve, names, places)))


def check_number(place: str, axes: list[Collection], repeats: int) -> None:
    """Raise ConfigError if the product of the axes and the repeats is too large to be meant."""
    num_runs = math.prod(map(len, axes)) * repeats
    if num_runs > MOST_RUNS:
        raise refuse(place, num_runs, f"runs are more than {MOST_RUNS}", "shorten its lists or lower repeats")


def exclude_runs(place: str, rules: list[dict], runs: list[Run], machine: Machine) -> list[Run]:
    """Return the runs that no rule of `exclude` matches. Raises ConfigError for a rule without a match."""

    def read(run: Run, key: str) -> Any:
        return machine.count_nodes(run) if key == "num_nodes" else getattr(run, key)

    for position, rule in enumerate(rules):
        # Rules for other models are left out already.
        asked = [(key, UNRESOLVED if value == MAX else value) for key, value in rule.items() if key != "model"]
        kept = [run for run in runs if any(read(run, key) != value for key, value in asked)]
        if len(kept) == len(runs):
            raise refuse(f"{place}.exclude[{position}]", rule, "matches no run", "correct or remove it")
        runs = kept
    if not runs:
        raise ConfigError(f"{place}.exclude: nothing is left to run; remove an entry")
    return runs


def check_layouts(study: "Study") -> None:
    """Raise ConfigError for a number of devices that does not spread evenly over the fewest nodes that hold it.

    A study with the key `num_nodes` has the reason in the table of its runs instead.
    """
    layouts = set() if study.config["num_nodes"] else {(run.device, run.num_gpus) for run in study.runs}
    for name, num_gpus in sorted(layouts):
        device = study.machine.device(name)
        if device.max_nodes >= device.num_nodes(num_gpus) and num_gpus % device.num_nodes(num_gpus):
            raise refuse(
                *(f"{study.place}.num_gpus", num_gpus),
                f"does not spread evenly over {device.num_nodes(num_gpus)} nodes of {name} devices",
                f"choose {' or '.join(map(str, device.find_nearest_counts(num_gpus)))}",
            )

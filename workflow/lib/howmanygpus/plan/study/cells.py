"""The cells of a study's grid: every combination of its axes, as runs."""

import itertools
from typing import TYPE_CHECKING

from howmanygpus.plan.frameworks import find_unsupported_reason
from howmanygpus.plan.largest.sizes import MAX, UNRESOLVED, list_numbers
from howmanygpus.plan.loaders import find_missing_loader
from howmanygpus.plan.own.model import OwnModel
from howmanygpus.plan.runs import Run
from howmanygpus.plan.study.counts import leave_out
from howmanygpus.plan.study.grid import check_number, exclude_runs, resolve_devices
from howmanygpus.plan.study.placing import choose_nodes, find_misplacement
from howmanygpus.train.spec import RANDOM_INPUTS

if TYPE_CHECKING:
    from howmanygpus.plan.study.study import Study


def expand(study: "Study") -> list[Run]:
    """Return the runs of a study, those that are not supported with their reason.

    Raises ConfigError for too many runs and for rules of `exclude` that match none.
    """
    config, machine, runs = study.config, study.machine, []
    devices = resolve_devices(study.place, config["devices"], machine)
    axes = [config["frameworks"], [*study.variants, *study.unfair], config["inputs"], config["precision"], devices]
    axes += [list_batches(study), config["num_nodes"] or [None]]
    check_number(study.place, axes, config["repeats"])
    cells = itertools.product(*axes, range(1, config["repeats"] + 1))
    for framework, variant, source, precision, device, (num_gpus, size), wanted, repeat in cells:
        if variant in study.unfair and (framework not in study.unfair[variant] or source in RANDOM_INPUTS):
            continue
        known = machine.device(device)
        settings = study.unfair[variant][framework] if variant in study.unfair else study.variants[variant]
        nodes = choose_nodes(known, num_gpus, wanted)
        layout = (num_gpus, nodes or known.num_nodes(num_gpus))
        reason = find_misplacement(known, num_gpus, wanted)
        if not reason and isinstance(study.own_model, OwnModel):
            reason = study.own_model.find_unsupported_reason(framework, precision)
        reason = reason or find_unsupported_reason(framework, known, precision, layout, settings)
        reason = reason or find_missing_loader(framework, source, settings)
        cell = (framework, variant, source, precision, device, num_gpus, size, repeat)
        runs.append(Run(study.name, *cell, nodes, reason))
    return choose_runs(study, runs)


def choose_runs(study: "Study", runs: list[Run]) -> list[Run]:
    """Leave out what the study excludes, devices that are not there, and all but one of equal runs."""
    # One device is on one node for each number of nodes.
    runs = list(dict.fromkeys(runs)) if study.config["num_nodes"] else runs
    return exclude_runs(study.place, study.config["exclude"], leave_out(study.lacking, runs), study.machine)


def list_batches(study: "Study") -> list[tuple[int, int]]:
    """Return the device counts with their batch sizes per device, among them that of `max`, which has no number."""
    more = [UNRESOLVED] if MAX in study.config["per_device_batch_size"] else []
    batches = study.accumulations(list_numbers(study.config))
    return [(num_gpus, size) for num_gpus, sizes in batches.items() for size in [*sizes, *more]]

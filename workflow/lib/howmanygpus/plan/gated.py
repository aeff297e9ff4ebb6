"""
How the parity gate checks each setting of a run, as howmanygpus.settings declares it.

A setting of the cell is part of the gate's request with its value: a run with another value needs a verdict of its own,
whose task is done with that value. A new setting that changes the work is therefore compared with the reference, and
fails until the reference has it too.
"""

from dataclasses import fields
from functools import cache
from typing import Any

from howmanygpus.plan.parity import ParityCell, TrainingPath
from howmanygpus.settings import CELL, OPTIMIZER, SETTINGS, TASK, list_defaults
from howmanygpus.train.parity.optimizers import SGD_FORM, make_optimizer
from howmanygpus.train.parity.variation import Variation

HELD = {field.name for kind in (ParityCell, TrainingPath, Variation) for field in fields(kind)} | {"accumulate"}
"""Names of a cell's own fields, and the setting that the variation has as `accumulates`."""


@cache
def list_gated_defaults() -> dict[str, Any]:
    """Return the default of every setting that is part of the cell or not checked.

    The task must give the values of the others itself, or no specification of it is complete.
    """
    defaults = list_defaults()
    optimizer = {key: value for key, value in defaults["optimizer"].items() if OPTIMIZER[key].gate.by != TASK}
    known = {key: value for key, value in defaults.items() if SETTINGS[key].gate.by != TASK}
    return known | {"optimizer": optimizer}


def select_more_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return what a cell has besides its own fields: settings of the cell that differ from their default.

    settings: complete ones of a run. Keys of the optimizer that the task's optimizer of the same form does not have are
    below `optimizer`.
    """
    defaults = list_defaults()
    given, usual = settings["optimizer"], defaults["optimizer"]
    names = [key for key, setting in SETTINGS.items() if setting.gate.by == CELL and key not in HELD]
    more = {key: settings[key] for key in names if settings[key] != defaults[key]}
    formed = make_optimizer(SGD_FORM)
    names = [key for key, setting in OPTIMIZER.items() if setting.gate.by == CELL and key not in formed]
    own = {key: given[key] for key in names if given[key] != usual[key]}
    return more | ({"optimizer": own} if own else {})


def describe_gating() -> list[tuple[str, str, str]]:
    """Return (setting, how the gate checks it, in what way or why not) of every setting of a run."""
    named = {key: setting for key, setting in SETTINGS.items() if key != "optimizer"}
    named |= {f"optimizer.{key}": setting for key, setting in OPTIMIZER.items()}
    return [(key, setting.gate.by, setting.gate.how) for key, setting in named.items()]

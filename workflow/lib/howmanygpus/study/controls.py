"""
Control runs, which a study with `diagnose: true` has beside its own: each leaves out one part of a run's work.

The difference to the runs that do this part says what the part costs. A control repeats a run of the study's first
variant, with the control's name in place of the variant's, on the smallest and on the largest device count of each
curve, as often as the study repeats its runs. The verdict of the run that it repeats covers it, because its step is the
same but for what is left out.

Controls measure rates, so a long run is cut after an epoch and WINDOWS windows. The epoch is needed because no rate
includes the first epoch of images that the memory cannot hold; a resident batch is read from no disk and needs none.
Without evaluation a run has its full length, because its number of evaluations is part of what is compared.

A program of the user is asked to leave the part out, and is stopped when its rate is known, see
measure.program.progress. It evaluates as it likes, which is in no rate.

Without exchange each replica trains alone on its share of the batch, with the learning rate of one device, so that a
rate that is meant for all devices does not make its loss infinite.
"""

from collections.abc import Iterator
from dataclasses import replace

from howmanygpus.measure.spec import RANDOM_INPUTS, RESIDENT
from howmanygpus.registry import explain_kept_exchange
from howmanygpus.settings import BY_FRAMEWORK
from howmanygpus.study.config.learning import resolve_optimizer
from howmanygpus.study.loaders import SHARED
from howmanygpus.study.runs import Run
from howmanygpus.study.study import AnyStudy, Control, Study

PREFIX = "control_"
RESIDENT_INPUT, NO_EXCHANGE, NO_EVALUATION = "resident_input", "no_exchange", "no_evaluation"
NAMES = (RESIDENT_INPUT, NO_EXCHANGE, NO_EVALUATION)
WINDOWS = 5
"""Measured windows of a control that is shorter than the run that it repeats."""


def add_controls(study: AnyStudy) -> AnyStudy:
    """Return a study with its controls behind its own runs, in the order of these."""
    controls = _plan_controls(study)
    named = {run.path: control for run, control in controls.items()}
    return replace(study, runs=[*study.runs, *controls], controls=named)


def _plan_controls(study: Study) -> dict[Run, Control]:
    if not study.config["diagnose"]:
        return {}
    first, settings = next(iter(study.variants.items()))
    if settings.get("independent"):
        # Its devices have nothing in common that a control could replace.
        return {}
    runs = [run for run in study.runs if run.variant == first and not run.unsupported]
    ends = {run for curve in _list_curves(study, runs) for run in _list_ends(curve)}
    controls: dict[Run, Control] = {}
    for base in (run for run in runs if run in ends):
        for run, control in _make_controls(study, base):
            controls.setdefault(run, control)
    return controls


def _list_curves(study: Study, runs: list[Run]) -> Iterator[list[Run]]:
    """Yield the runs of each curve with all their repeats. One device is on the curve of each number of nodes."""
    curves: dict[tuple, list[Run]] = {}
    for run in runs:
        series = (run.framework, run.input, run.precision, run.device)
        sizes = {"weak": run.per_device_batch_size, "strong": study.global_batch_size(run)}
        for mode, size in sizes.items():
            if size in study.curves.get(mode, []):
                curves.setdefault((*series, mode, size), []).append(run)
    for curve in curves.values():
        counts = {run: study.machine.count_nodes(run) for run in curve} if study.config["num_nodes"] else {}
        placements = {count for run, count in counts.items() if run.num_gpus > 1}
        yield from ([run for run in curve if run.num_gpus == 1 or counts[run] == count] for count in sorted(placements))
        if not placements:
            yield curve


def _list_ends(curve: list[Run]) -> list[Run]:
    counts = [run.num_gpus for run in curve]
    return [run for run in curve if run.num_gpus in (min(counts), max(counts))]


def _make_controls(study: Study, base: Run) -> Iterator[tuple[Run, Control]]:
    """Yield the controls of a run. A control whose part the run lacks is not planned."""
    if study.is_program:
        for name in (RESIDENT_INPUT, NO_EXCHANGE) if base.num_gpus > 1 else (RESIDENT_INPUT,):
            yield replace(base, variant=f"{PREFIX}{name}"), Control(name, base, {})
        return
    settings = study.settings_of(base)
    steps_per_epoch = study.description.num_train // study.global_batch_size(base)

    def make(name: str, changes: dict, **other) -> tuple[Run, Control]:
        return replace(base, variant=f"{PREFIX}{name}", **other), Control(
            name, base, settings | {"trace": False} | changes
        )

    def cut(first_steps: int) -> dict:
        most = max(settings["warmup_steps"], first_steps) + WINDOWS * settings["window_steps"]
        own = settings["steps"] or settings["epochs"] * steps_per_epoch
        length = {"epochs": None, "steps": most} if most < own else {}
        return length | {"gradient_noise_every_epochs": None}

    if base.input != RESIDENT:
        # Only the shared loader hands over a batch that stays on the devices.
        yield make(RESIDENT_INPUT, cut(0) | {"loader": SHARED, "loader_kind": None}, input=RESIDENT)
    if base.num_gpus > 1:
        alone = resolve_optimizer(settings["optimizer"], base.framework) | {BY_FRAMEWORK: {}, "lr_scaling": "none"}
        changes = {"exchange": "none", "evaluate": False, "optimizer": alone}
        reason = explain_kept_exchange(base.framework, base.precision)
        yield make(NO_EXCHANGE, cut(steps_per_epoch) | changes, unsupported=reason)
    if base.input not in RANDOM_INPUTS:
        yield make(NO_EVALUATION, {"evaluate": False})

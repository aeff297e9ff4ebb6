"""Puts a number in place of `max` in the runs of a study."""

from dataclasses import replace

from howmanygpus.config.errors import refuse
from howmanygpus.measure.largest.bisecting import START
from howmanygpus.study.batches import accumulate_batches
from howmanygpus.study.largest.largest import Largest, Series, get_series
from howmanygpus.study.largest.search import MOST_TIMES, Find, ProgramSearch, Search, select_settings
from howmanygpus.study.largest.sizes import MAX, UNRESOLVED, choose_size, choose_step, compute_data_bound
from howmanygpus.study.runs import Run
from howmanygpus.study.study import AnyStudy, Study


def check_max(place: str, config: dict) -> None:
    """Raise ConfigError for keys that `max` excludes."""
    if MAX in config["per_device_batch_size"] and config["scaling"] == "both":
        problem = "needs curves that share no runs"
        remedy = "make one study of weak scaling and one of strong scaling"
        raise refuse(f"{place}.per_device_batch_size", MAX, problem, remedy)


def resolve_max(study: AnyStudy, find: Find) -> AnyStudy:
    """Return a study with the resolved values in all its runs.

    study: its runs with `max` have the batch size UNRESOLVED; excluded ones are left out. A size that the study also
    lists makes no second run. Runs without a number are unsupported, with the reason.
    """
    if MAX not in study.config["per_device_batch_size"]:
        return study
    asked = [run for run in study.runs if run.per_device_batch_size == UNRESOLVED]
    samples: dict[Series, Run] = {}
    for run in sorted(asked, key=lambda run: run.num_gpus):
        if not run.unsupported:
            samples.setdefault(get_series(run), run)
    step = choose_step(study.config) if study.is_program else 1
    if study.is_program:
        bound = MOST_TIMES * (START if step == 1 else step)
    else:
        bound = compute_data_bound(study.description.num_train, study.config, list(study.variants.values()))
    searches = {series: _make_search(study, run, bound, step) for series, run in samples.items()}
    found = {series: find(search.record) for series, search in searches.items()}
    what = "samples" if study.is_program else "images"
    sizes = {series: choose_size(result, bound, study.config, step, what) for series, result in found.items()}
    largest = Largest(study.config, bound, frozenset(map(get_series, asked)), samples, searches, sizes, step)
    listed = {run.path for run in study.runs}
    resolved = []
    for run in study.runs:
        if run.per_device_batch_size != UNRESOLVED:
            resolved.append(run)
        elif (numbered := _give_number(study, largest, run)).path not in listed:
            resolved.append(numbered)
    return replace(study, largest=largest, runs=resolved)


def _give_number(study: Study, largest: Largest, run: Run) -> Run:
    series = get_series(run)
    number, size = largest.get_number(series), largest.sizes.get(series)
    batches = accumulate_batches(study.place, study.config, [number])[run.num_gpus]
    reason = run.unsupported
    if size and not size.number:
        reason = reason or f"per_device_batch_size: max has no number ({size.limit}): {size.reason}"
    return replace(run, per_device_batch_size=next(iter(batches)), unsupported=reason)


def _make_search(study: Study, run: Run, bound: int, step: int) -> Search | ProgramSearch:
    settings = study.settings(replace(run, num_gpus=1, num_nodes=None, per_device_batch_size=UNRESOLVED))
    if study.is_program:
        return ProgramSearch(run.framework, run.variant, run.precision, run.device, settings, bound, step)
    return Search(
        framework=run.framework,
        precision=run.precision,
        device=run.device,
        network_name=study.network_name,
        settings=select_settings(settings),
        image_shape=study.image_shape(run),
        num_classes=study.description.num_classes,
        multi_label=study.description.multi_label,
        bound=bound,
    )

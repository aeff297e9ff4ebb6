"""Makes the studies of a config and describes its data sets. What is wrong with any of them is said in one error."""

from dataclasses import replace

from howmanygpus.config.errors import Errors
from howmanygpus.config.schema import fill_study, study_defaults
from howmanygpus.prepare.sources import Description
from howmanygpus.registry import FRAMEWORKS, explain_unsupported
from howmanygpus.settings import TRAINING_KEYS
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.check_initial_weights import check_initial_weights, check_normalization
from howmanygpus.study.check_protocols import check_evaluations, check_protocols
from howmanygpus.study.checks import check_data, check_names, check_runs
from howmanygpus.study.config.checks import locate
from howmanygpus.study.config.datasets import describe_or_refuse
from howmanygpus.study.controls import check_controls, plan_controls
from howmanygpus.study.grid import expand, normalize_num_nodes, resolve_counts, resolve_devices
from howmanygpus.study.initial_weights import find_start
from howmanygpus.study.largest.resolving import normalize_max, resolve_max
from howmanygpus.study.largest.search import Find
from howmanygpus.study.largest.sizes import MAX
from howmanygpus.study.loaders import explain_missing_loader
from howmanygpus.study.networks import choose_options
from howmanygpus.study.own.model import OwnModel, short_name
from howmanygpus.study.own.resolve import resolve_own_model
from howmanygpus.study.program.study import make_program_study
from howmanygpus.study.protocols import complete_overrides
from howmanygpus.study.study import Study


def make_studies(
    groups: dict[str, dict[str, dict]], datasets: dict[str, dict], machine: Machine, find_largest: Find
) -> tuple[dict[str, Study], dict[str, Description]]:
    """Return the studies and the descriptions of all data sets, used ones first, both by name.

    groups: the studies of each key below `studies` as the config gives them, by name. Raises one ConfigError with what
    is wrong with each study and each data set.
    """
    errors, studies = Errors(), dict[str, Study]()
    for group, members in groups.items():
        for name, given in members.items():
            place = f"studies.{group}"
            with errors.collect():
                studies[name] = (
                    make_program_study(name, given, machine, place)
                    if "program" in given
                    else make_study(name, given, datasets, machine, place, find_largest)
                )
    descriptions = {study.config["dataset"]: study.description for study in studies.values() if not study.is_program}
    for name, options in datasets.items():
        with errors.collect():
            descriptions[name] = describe_or_refuse(name, options)
    errors.raise_all()
    return studies, descriptions


def make_study(name: str, given: dict, datasets: dict, machine: Machine, place: str, find_largest: Find) -> Study:
    """Return a study of the workflow's networks. Raises ConfigError for errors that the schema cannot detect.

    given: the study as the config gives it. find_largest: returns the result of a search for the largest batch.
    """
    config = fill_study(given)
    normalize_num_nodes(config)
    normalize_max(place, config)
    lacking = resolve_counts(place, config, machine)
    # Defaults filled into a variant's optimizer would override the study's values.
    config["variants"] = {
        variant: config["variants"][variant] | {key: own[key] for key in ("optimizer",) if key in own}
        for variant, own in given.get("variants", study_defaults()["variants"]).items()
    }
    variants = {variant: _complete_settings(config, own) for variant, own in config["variants"].items()}
    given_model, options_place = config["model"], f"{place}.model_options"
    # A list of models has the options of each below its name.
    if place != f"studies.{name}":
        options_place += f".{short_name(given_model)}"
    own_model = resolve_own_model(place, options_place, config)
    dataset = config["dataset"]
    dataset_options = datasets.get(dataset, {"source": dataset, "options": {}})
    errors = Errors()
    with errors.collect():
        check_names(place, config, variants, own_model)
        if own_model is None:
            config["model_options"] = choose_options(options_place, config["model"], config["model_options"])
    with errors.collect():
        description = describe_or_refuse(
            dataset, dataset_options, "" if dataset in datasets else f"{place}.dataset", datasets
        )
    with errors.collect():
        resolve_devices(place, config["devices"], machine)
    errors.raise_all()
    study = Study(
        name=name,
        place=place,
        machine=machine,
        config=config,
        variants=variants,
        dataset_options=dataset_options,
        description=description,
        given_model=given_model,
        own_model=own_model,
        unfair=complete_overrides(config["protocols"], next(iter(variants.values()))),
        lacking=lacking,
    )
    check_data(study)
    check_normalization(study)
    check_protocols(study)
    check_controls(study)
    study.starts = {
        variant: find_start(locate("init", place, variant, config["variants"]), settings["init"])
        for variant, settings in variants.items()
    }
    check_initial_weights(study)
    study.runs = expand(study, _explain_unsupported)
    if MAX in config["per_device_batch_size"]:
        study.largest, study.runs = resolve_max(study, find_largest)
    check_runs(study)
    if not (study.largest and study.largest.is_open):
        check_evaluations(study)
    controls = plan_controls(study)
    study.controls = {run.path: control for run, control in controls.items()}
    study.runs += controls
    return study


def _explain_unsupported(
    study: Study, device: Device, layout: tuple[int, int], framework: str, precision: str, source: str, settings: dict
) -> str:
    own_model = study.own_model
    if FRAMEWORKS[framework].environments.get(device.kind) in study.machine.environments:
        # For which GPUs a site's own build is, only the framework itself can say.
        device = replace(device, compute_capability=None)
    reason = own_model.explain_unsupported(framework, precision) if isinstance(own_model, OwnModel) else ""
    reason = reason or explain_unsupported(framework, device, precision, layout, settings)
    return reason or explain_missing_loader(framework, source, settings)


def _complete_settings(config: dict, overrides: dict) -> dict:
    """Return the training settings of a variant. overrides: its own."""
    settings = {key: config[key] for key in TRAINING_KEYS} | overrides
    return settings | {"optimizer": config["optimizer"] | overrides.get("optimizer", {})}

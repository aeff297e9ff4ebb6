"""The second step of planning: looks up the machine's devices, the model, the data set and the initial weights."""

from howmanygpus.config.errors import Errors
from howmanygpus.site.machine import Machine
from howmanygpus.study.checks import names
from howmanygpus.study.config.datasets import describe_or_refuse
from howmanygpus.study.config.places import locate
from howmanygpus.study.fill import FilledStudy
from howmanygpus.study.grid import resolve_counts, resolve_devices
from howmanygpus.study.initial_weights import find_start
from howmanygpus.study.largest.resolving import check_max
from howmanygpus.study.networks import choose_options
from howmanygpus.study.own.folder import ModelFolder
from howmanygpus.study.own.model import short_name
from howmanygpus.study.own.resolve import resolve_own_model
from howmanygpus.study.protocols import complete_overrides
from howmanygpus.study.study import Study


def resolve(filled: FilledStudy, datasets: dict[str, dict], machine: Machine) -> Study:
    """Return a study without runs. Raises ConfigError for what does not exist.

    datasets: source and options of those that the config defines, by name.
    """
    place, config, variants = filled.place, filled.config, filled.variants
    check_max(place, config)
    num_gpus, lacking = resolve_counts(place, config, machine)
    given_model, options_place = config["model"], f"{place}.model_options"
    # A list of models has the options of each below its name.
    if place != f"studies.{filled.name}":
        options_place += f".{short_name(given_model)}"
    own_model, network = resolve_own_model(place, options_place, config)
    dataset = config["dataset"]
    dataset_options = datasets.get(dataset, {"source": dataset, "options": {}})
    errors = Errors()
    with errors.collect():
        names.check(filled)
        if isinstance(own_model, ModelFolder):
            names.check_layers(f"{place}.model", own_model, config["frameworks"])
        if own_model is None:
            network = {"model_options": choose_options(options_place, given_model, config["model_options"])}
    with errors.collect():
        description = describe_or_refuse(
            dataset, dataset_options, "" if dataset in datasets else f"{place}.dataset", datasets
        )
    with errors.collect():
        resolve_devices(place, config["devices"], machine)
    errors.raise_all()
    return Study(
        name=filled.name,
        place=place,
        machine=machine,
        config=config | {"num_gpus": num_gpus} | network,
        variants=variants,
        dataset_options=dataset_options,
        description=description,
        given_model=given_model,
        own_model=own_model,
        unfair=complete_overrides(config["protocols"], next(iter(variants.values()))),
        lacking=lacking,
        starts={
            variant: find_start(locate("init", place, variant, config["variants"]), settings["init"])
            for variant, settings in variants.items()
        },
    )

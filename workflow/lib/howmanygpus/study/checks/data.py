"""Checks that the images and labels of a study's data set fit its settings and its network."""

from howmanygpus.config.errors import refuse
from howmanygpus.study.config.images import CROPS, check_crops, compute_image_shape
from howmanygpus.study.config.metrics import check_metric
from howmanygpus.study.config.places import locate
from howmanygpus.study.loaders import check_inputs
from howmanygpus.study.networks import check_image_size
from howmanygpus.study.own.folder import ModelFolder, check_arrays
from howmanygpus.study.own.model import OwnModel
from howmanygpus.study.study import Study


def check(study: Study) -> None:
    """Raise ConfigError if the images or labels of the data set do not fit the study."""
    source, shape = study.dataset_options["source"], study.description.image_shape
    check_inputs(f"{study.place}.inputs", study.config["inputs"], source, shape)
    _check_labels(study)
    check_crops(study.place, study.variants, study.config["variants"], shape)
    _check_shapes(study)


def _check_labels(study: Study) -> None:
    """Raise ConfigError for a metric or label smoothing that the labels of the data set do not allow."""
    dataset, data = study.config["dataset"], study.description
    check_metric(f"{study.place}.quality.metric", study.config["quality"]["metric"], dataset, data)
    for variant, settings in study.variants.items():
        if data.multi_label and settings["label_smoothing"]:
            problem = f"is for one label an image, and an image of {dataset} has any number of labels"
            place = locate("label_smoothing", study.place, variant, study.config["variants"])
            raise refuse(place, settings["label_smoothing"], problem, "remove it")


def _check_shapes(study: Study) -> None:
    """Raise ConfigError for images of a shape that the network does not take; unknown for a model in one file."""
    for variant, settings in study.variants.items():
        places = {key: locate(key, study.place, variant, study.config["variants"]) for key in CROPS}
        check_shape(study, settings, places)


def check_shape(study: Study, settings: dict, places: dict[str, str]) -> None:
    """Raise ConfigError if the network does not take images of the size that these settings give.

    settings: complete. places: of the keys that crop.
    """
    own, shape = study.own_model, compute_image_shape(settings, study.description.image_shape)
    if isinstance(own, ModelFolder):
        check_arrays(study.place, study.given_model, own, shape, study.description.num_classes, study.network[1])
    if not isinstance(own, OwnModel):
        cropped = next((places[key] for key in CROPS if settings[key]), "")
        check_image_size(study.place, *study.network, *shape[:2], cropped)

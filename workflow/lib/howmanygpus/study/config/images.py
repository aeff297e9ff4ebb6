"""Checks how a study crops its images, and finds the size of the images that a network gets.

Variants are the complete training settings of each variant, and given is what the config gives.
"""

from howmanygpus.config.errors import refuse
from howmanygpus.study.config.places import locate

RESIZED = "random_resized_crop"
CROPS = ("crop", RESIZED)
"""Keys that change the size of the images which a network gets."""


def compute_image_shape(settings: dict, stored: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return height, width and channels of the images that a network gets. stored: those of the prepared images."""
    resized, height_and_width = settings[RESIZED], settings["crop"] or stored[:2]
    height, width = resized["size"] if resized else height_and_width
    return height, width, stored[2]


def check_crops(place: str, variants: dict, given: dict, stored: tuple[int, int, int]) -> None:
    """Raise ConfigError for crops that the stored images do not allow, or that contradict each other."""
    for variant, settings in variants.items():
        where = {key: locate(key, place, variant, given) for key in ("crop", "random_crop_padding", RESIZED)}
        if settings[RESIZED]:
            _check_resized(where, settings, stored)
        elif settings["crop"]:
            _check_size(where["crop"], settings["crop"], stored)
        padding, (height, width, _) = settings["random_crop_padding"], compute_image_shape(settings, stored)
        if padding >= min(height, width):
            problem = f"crops images of {height}x{width} pixels to nothing but padding"
            raise refuse(where["random_crop_padding"], padding, problem, f"give less than {min(height, width)}")


def _check_resized(where: dict, settings: dict, stored: tuple[int, int, int]) -> None:
    for key, none in (("crop", None), ("random_crop_padding", 0)):
        if settings[key]:
            no = "null" if none is None else none
            problem = f"has no meaning beside {where[RESIZED]}, which crops each image by itself"
            raise refuse(
                where[key], settings[key], problem, f"leave one of them out, or write {key}: {no} in the variant"
            )
    for key in ("area", "aspect"):
        low, high = settings[RESIZED][key]
        if low > high:
            problem = "has the largest value first"
            raise refuse(f"{where[RESIZED]}.{key}", settings[RESIZED][key], problem, f"write [{high}, {low}]")
    _check_size(f"{where[RESIZED]}.size", settings[RESIZED]["size"], stored)


def _check_size(place: str, size: list[int], stored: tuple[int, int, int]) -> None:
    if size[0] > stored[0] or size[1] > stored[1]:
        problem = f"is larger than the stored images, which are {stored[0]} high and {stored[1]} wide"
        raise refuse(place, size, problem, f"give at most [{stored[0]}, {stored[1]}], or prepare larger images")

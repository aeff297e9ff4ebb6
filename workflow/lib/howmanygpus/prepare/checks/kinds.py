"""Refuse images of unsupported kinds, such as DICOM or TIFF, or of doubtful levels, before anything is prepared."""

from collections import Counter
from pathlib import PurePosixPath

from howmanygpus.prepare.images import BadImageError
from howmanygpus.prepare.images.headers import read_file, read_header
from howmanygpus.prepare.options import Preparation
from howmanygpus.prepare.sources import Listing, OptionError, shorten_list

OTHER_ENDINGS = {".dcm", ".dicom", ".tif", ".tiff", ".bmp", ".webp", ".gif", ".jp2", ".heic"}
CONVERT = "convert the images to PNG or JPEG, since only these are read"


def check_kinds(listing: Listing) -> None:
    """Raise OptionError if all files have suffixes of other kinds of images, and the first is neither PNG nor JPEG.

    The listing must have at least one image, and the files must be in place.
    """
    if not {_ending(entry.path) for entry in listing.entries} <= OTHER_ENDINGS:
        return
    first = listing.entries[0].path
    try:
        read_header(read_file(listing.folder / first))
    except BadImageError as error:
        if error.reason == "unknown":
            problem = f"has {describe_endings(listing)}, of which the first, {first}, is {error.detail}"
            raise OptionError("folder", str(listing.folder), problem, CONVERT) from None


def check_levels(listing: Listing, preparation: Preparation) -> None:
    """Raise OptionError if the first image has 16 bits and levels that do not fit the option `levels`."""
    first = listing.entries[0].path
    try:
        data = read_file(listing.folder / first)
        if read_header(data).depth == 16:
            # Few data sets need OpenCV for their plan, and every call of Snakemake imports this module.
            from howmanygpus.prepare.images.decoding import decode

            decode(data, preparation.channels, levels=preparation.levels)
    except BadImageError as error:
        if error.reason == "levels":
            problem, _, remedy = error.detail.partition("; ")
            given = list(preparation.levels) if preparation.levels else None
            raise OptionError("levels", given, f"does not fit {first}, {problem}", remedy) from None


def describe_endings(listing: Listing) -> str:
    """Return the number of files with each suffix, such as `400 files .dcm and 3 files without an ending`."""
    endings = Counter(_ending(entry.path) or "without an ending" for entry in listing.entries)
    return shorten_list(f"{count} file{'s' * (count != 1)} {ending}" for ending, count in endings.most_common())


def _ending(path: str) -> str:
    return PurePosixPath(path).suffix.lower()

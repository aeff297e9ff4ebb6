"""
How image files are prepared: the options of every data set of image files, in addition to its own.

size            [height, width] to which images are stretched; null leaves the images, all of one size, as they are
channels        1 (gray) or 3 (RGB)
library         decoder of plain images: fast, opencv or pillow; it changes the speed, not the pixels; pillow_simd has
                an environment of its own and rounds bilinear and lanczos more coarsely
levels          [lowest, highest] level of 16-bit gray images, which become 0 and 255, such as [0, 4095] for 12 bits;
                levels beyond become 0 or 255. null means [0, 65535] and refuses images whose levels are all below 32768
filter          how images are resized: area, box, bilinear or lanczos
on_bad_file     fail, or skip: leave out a file that cannot be read correctly, and list it with the reason
shard_images    approximate number of images that one job prepares
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

from howmanygpus.prepare.images import FILTERS, LIBRARIES, PILLOW_SIMD
from howmanygpus.prepare.sources import OptionError, check_choice


@dataclass(frozen=True)
class Preparation:
    size: tuple[int, int] | None = None
    channels: int = 3
    levels: tuple[int, int] | None = None
    library: str = "fast"
    filter: str = "area"
    on_bad_file: str = "fail"
    shard_images: int = 2048

    @property
    def pixel_options(self) -> list:
        """The options besides `size` and `channels` that change pixels. Later ones are left out if they are not set."""
        return [self.filter, self.needs_pillow_simd, *([self.levels] if self.levels else [])]

    @property
    def needs_pillow_simd(self) -> bool:
        return self.library == PILLOW_SIMD

    @property
    def decoder(self) -> str:
        """One of LIBRARIES."""
        return "pillow" if self.needs_pillow_simd else self.library

    def check(self) -> None:
        """Raise OptionError for a wrong value."""
        check_choice("channels", self.channels, (1, 3))
        check_choice("library", self.library, (*LIBRARIES, PILLOW_SIMD))
        check_choice("filter", self.filter, FILTERS)
        check_choice("on_bad_file", self.on_bad_file, ("fail", "skip"))
        if not _is_count(self.shard_images):
            raise OptionError("shard_images", self.shard_images, "is no number of images", "give at least 1")
        if self.levels is not None and not _are_levels(self.levels):
            remedy = "write [lowest, highest] of 0 to 65535, such as [0, 4095] for 12 bits"
            raise OptionError("levels", list(self.levels), "are no levels of 16-bit images", remedy)
        if self.size is not None and (len(self.size) != 2 or not all(map(_is_count, self.size))):
            raise OptionError("size", list(self.size), "is no size", "write [height, width] in pixels")


def split_options(options: dict, usual: Preparation) -> tuple[Preparation, dict]:
    """Separate the options of preparation, with the defaults `usual`, from those of the data set itself."""
    names = {field.name for field in fields(Preparation)}
    given = {name: value for name, value in options.items() if name in names}
    for name in ("size", "levels"):
        if given.get(name) is not None:
            given[name] = tuple(given[name]) if isinstance(given[name], list) else (given[name],)
    preparation = replace(usual, **given)
    preparation.check()
    return preparation, {name: value for name, value in options.items() if name not in names}


def check_texts(takes: Callable, options: dict) -> None:
    """Raise OptionError for an option that is no text, although the function that takes it needs one.

    YAML reads a bare `no` as false, and what looks like a number or a date as one.
    """
    for name, parameter in inspect.signature(takes).parameters.items():
        kinds = get_args(parameter.annotation) or (parameter.annotation,)
        value = options.get(name, "")
        if str in kinds and not isinstance(value, kinds):
            raise OptionError(name, value, "is not text", _explain_quotes(name, value))


def _explain_quotes(name: str, value: Any) -> str:
    if isinstance(value, list | dict):
        return "write one text"
    bare = {"True": "yes", "False": "no", "None": "null"}.get(str(value))
    if bare:
        return f'write it in quotes, such as {name}: "{bare}", because YAML reads a bare {bare} as another value'
    return f'write it in quotes, as in {name}: "{value}"'


def _are_levels(values: tuple) -> bool:
    are_whole = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    return len(values) == 2 and are_whole and 0 <= values[0] < values[1] < 2**16


def _is_count(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0

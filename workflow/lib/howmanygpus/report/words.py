"""
Words that a reader sees, by templates in workflow/report/templates/, and how numbers are written in them.

Facts have codes and numbers. The words for a code are the macro of its name in the template of the page, so that
whoever changes a sentence changes a template only. The templates get the functions of this module that write numbers.
"""

import re
import textwrap
from collections.abc import Iterable
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from howmanygpus.clone import TEMPLATES
from howmanygpus.registry import tell_apart
from howmanygpus.report.columns import FEWEST_NODES
from howmanygpus.report.rows import count_units, name_count
from howmanygpus.report.shares import Share

LONGEST = 190
"""Characters of a sentence on a first screen, which is cut beyond. What to run next is no part of it."""
FEWEST = 25
"""Characters of a sentence that is cut, below which it is left out."""
WHOLE = "\N{NO-BREAK SPACE}"
UNITS = (("s", 1.0, 90.0), ("min", 60.0, 90.0), ("h", 3600.0, 48.0), ("days", 86400.0, float("inf")))
"""Units of durations: name, seconds, and the number from which on the next unit is used."""
READABLE = 0.01
"""Price of one run, about a cent, below which that of 1,000 runs is written."""

TEX = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
"""Letters that mean something to LaTeX, with how it writes them."""

Value = dict[str, float | None]


def word(page: str, code: str, /, **facts: Any) -> str:
    """Return the words for a code, which are the macro of this name in <page>.jinja. facts: its arguments."""
    return getattr(_set_up().get_template(f"{page}.jinja").module, code)(**facts)


def fill(template: str, **names: Any) -> str:
    """Return the text of a template. names: what it is about. In a page, <template>.html.jinja, they are escaped."""
    return _set_up(template.endswith(".html.jinja")).get_template(template).render(names)


@cache
def _set_up(is_page: bool = False) -> Environment:
    """Return the environment of all templates, with the functions that write numbers.

    is_page: whether everything that is written is escaped for HTML, also by macros of texts that a page imports.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=is_page,
    )
    written = [write_number, write_duration, write_value, write_interval, write_change, write_share, write_target]
    written += [write_configuration, write_price, write_bracket, write_duration_bracket]
    named = {each.__name__.removeprefix("write_"): each for each in written}
    others = (name_alternative, name_next, name_count, count_units, shorten, brief, tell_apart)
    environment.globals |= named | {each.__name__: each for each in others}
    environment.globals |= {"inverse": invert, "median": drop_interval}
    environment.filters |= {"tex": escape_for_tex, "whole": keep_whole, "number": write_number}
    return environment


def keep_whole(text: str) -> str:
    """Return a text that no line break divides, so that it can be pasted."""
    return text.replace(" ", WHOLE)


def write_number(value: float) -> str:
    """Write a number with three significant digits, as 1,234 or 0.00123."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def choose_unit(seconds: float) -> tuple[str, float]:
    return next((name, size) for name, size, limit in UNITS if seconds < limit * size)


def write_duration(value: Value) -> str:
    """Write seconds in a fitting unit, with the interval if there is one."""
    unit, size = choose_unit(value["median"] or 0.0)
    return write_value(scale(value, size), unit)


def write_value(value: Value, unit: str = "") -> str:
    """Write a median and its interval, such as `21 min (19 to 24)`."""
    text = f"{write_number(value['median'] or 0.0)} {unit}".strip()
    if value["low"] is None or value["high"] is None:
        return text
    return f"{text} ({write_number(value['low'])} to {write_number(value['high'])})"


def write_interval(value: Value, unit: str = "") -> str:
    """Write the interval of a value alone, such as `19 to 24 min`. unit: none for seconds, which get a fitting one."""
    if not unit:
        unit, size = choose_unit(value["median"] or 0.0)
        value = scale(value, size)
    return f"{write_number(value['low'] or 0.0)} to {write_number(value['high'] or 0.0)} {unit}"


def drop_interval(value: Value) -> Value:
    return value | {"low": None, "high": None}


def write_bracket(value: dict[str, float], unit: str = "") -> str:
    """Write the ends of a bracket, such as `9,100 to 12,400`."""
    return f"{write_number(value['low'])} to {write_number(value['high'])} {unit}".strip()


def write_duration_bracket(value: dict[str, float]) -> str:
    """Write the ends of a bracket of seconds in a fitting unit."""
    unit, size = choose_unit(value["high"])
    return write_bracket({name: each / size for name, each in value.items()}, unit)


def choose_runs(prices: Iterable[float]) -> int:
    """Return of how many runs prices are written, so that they can be read. prices: those of one run."""
    return 1 if max(prices) >= READABLE else 1000


def write_change(ratio: float) -> str:
    """Write a ratio as a change, such as `+12 %`."""
    return f"{100 * (ratio - 1):+.3g} %"


def write_share(share: Share) -> str:
    """Write a share in percent, with the larger half of its interval if there is one, such as `22 ± 4 %`."""
    if not share.has_interval:
        return f"{_round(100 * share.value)} %"
    half = 100 * max(share.high - share.value, share.value - share.low)
    digits = 1 if half < 1 else 0
    return f"{_round(100 * share.value, digits)} ± {_round(half, digits)} %"


def _round(value: float, digits: int = 0) -> str:
    """Round without a minus sign before zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def invert(value: Value) -> Value:
    """Return a ratio the other way round, with its interval."""
    median, high, low = (1 / each if each else None for each in (value["median"], value["low"], value["high"]))
    return {"median": median, "low": low, "high": high}


def write_median(value: Value) -> str:
    """Write a value without its interval."""
    return write_number(value["median"] or 0.0)


def write_configuration(one: dict[str, Any], unit: str) -> str:
    """Write a configuration, such as `4 x a100, pytorch_ddp, 128 images per device`. unit: such as images."""
    return ", ".join(_list_parts(one, unit))


def name_alternative(one: dict[str, Any], recommended: dict[str, Any], unit: str) -> str:
    """Write the devices of a configuration, and of the rest what differs from the recommended one."""
    devices, *rest = _list_parts(one, unit)
    known = _list_parts(recommended, unit)
    return ", ".join([devices, *(part for part in rest if part not in known)])


def _list_parts(one: dict[str, Any], unit: str) -> list[str]:
    is_named = one["num_nodes"] > 1 or one["placement"] != FEWEST_NODES
    nodes = f" on {name_count(one['num_nodes'], 'node')}" if is_named else ""
    batches = f"{one['accumulate']} x " if one["accumulate"] > 1 else ""
    batch = f"{batches}{count_units(one['per_device_batch_size'], unit)} per device"
    return [f"{one['num_gpus']} x {one['device']}{nodes}", one["series"], batch]


def name_next(line: str, purpose: str = "Next") -> str:
    """Say where what is to be done next is written: a key of the study in the config, or a command in the shell."""
    return f"{purpose}, in the study" if re.match(r"\w+:", line) else purpose


def write_price(one: dict[str, Any], is_target: bool, unit: str) -> str:
    """Write what a configuration costs: money, else device-hours; nothing for a rate without a price."""
    if one["cost_per_million"]:
        return f"{write_median(one['cost_per_million'])} {one['currency']} per million {unit}"
    if one["cost"]:
        num_runs = choose_runs([one["cost"]["median"]])
        price = f"{write_number(num_runs * one['cost']['median'])} {one['currency']}"
        return price + (f" per {num_runs:,} runs" if num_runs > 1 else "" if is_target else " for a whole run")
    unit, size = choose_unit(one["device_seconds"])
    name = {"s": "seconds", "min": "minutes", "h": "hours"}.get(unit, unit)
    return f"{write_number(one['device_seconds'] / size)} device-{name}" if is_target else ""


def shorten(text: str) -> str:
    """Cut what is too long for a first screen. Of a last sentence, only the first words are not worth a line."""
    short = textwrap.shorten(text, LONGEST, placeholder=" ...")
    whole, _, begun = short.rpartition(". ")
    return f"{whole}. ..." if whole and short.endswith(" ...") and len(begun) < FEWEST else short


def brief(text: str) -> str:
    """Return the first sentence of a text, of which the tables have the rest."""
    return re.split(r"(?<=\.) (?=[A-Z])", text, maxsplit=1)[0]


def is_cut(text: str) -> bool:
    """Whether a sentence is too long for a first screen."""
    return shorten(text).endswith(" ...")


def write_target(goal: dict[str, Any]) -> str:
    return f"{goal['metric']} {goal['threshold']:g}"


def escape_for_tex(text: str) -> str:
    """Return a text in which LaTeX reads no commands."""
    return "".join(TEX.get(letter, letter) for letter in str(text))


def scale(value: Value, size: float) -> Value:
    """Return a value in a unit of some size, with its interval."""
    return {name: None if each is None else each / size for name, each in value.items()}

"""Errors in config and machine files. Each message names the place, the value and the remedy."""

import difflib
import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import yaml

from howmanygpus.config.findings import find_error

if TYPE_CHECKING:
    # The script that starts a run reads no config. Its imports are part of the time that a run takes.
    import jsonschema

LONGEST = 200
"""Number of characters after which a value is cut off in a message."""
MAX_MESSAGES = 20
"""Messages that are shown. Of the others, only their number is."""
HINTS = {
    "object": "write its keys below it",
    "array": "write a list",
    "integer": "write a whole number",
    "number": "write a number",
    "string": "write text, in quotes if YAML reads it as something else",
    "boolean": "write true or false",
}


class ConfigError(ValueError):
    """The config or the machine file is invalid. Each argument is the message of one error."""

    def __str__(self) -> str:
        more = len(self.args) - MAX_MESSAGES
        return "\n".join([*self.args[:MAX_MESSAGES], *[f"and {more} more error{'s' * (more > 1)}"] * (more > 0)])


class Errors:
    """Collects the errors of parts that do not depend on each other, so that a user sees all of them in one call."""

    def __init__(self) -> None:
        self._messages: list[str] = []

    def add(self, *errors: ConfigError) -> None:
        for error in errors:
            self._messages += error.args

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Add the ConfigError of the block, if there is one, and go on behind the block."""
        try:
            yield
        except ConfigError as error:
            self.add(error)

    def raise_all(self) -> None:
        """Raise one ConfigError with all messages, each once; without any, do nothing."""
        if self._messages:
            raise ConfigError(*dict.fromkeys(self._messages))


def refuse(place: str, value, problem: str, remedy: str) -> ConfigError:
    return ConfigError(str(find_error(place, _show(value), problem, remedy)))


def _show(value) -> str:
    """Format a value as JSON, but a number that is not finite as YAML writes it."""
    if _is_infinite_or_nan(value):
        return _write_number(value)
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _write_number(number: float) -> str:
    """Format a number so that YAML 1.1 reads it as a number; it reads 1e-10 as text."""
    return yaml.safe_dump(number).split()[0]


def suggest(word: str, known) -> str:
    """Return the remedy for an unknown word: the most similar known word, or the list of all known words.

    Known words that begin or end with the word, such as several frameworks by `tensorflow`, are all named. Capitals
    make no difference.
    """
    known, word = sorted("null" if each is None else each for each in known), str(word).lower()
    lower = {each.lower(): each for each in known}
    longer = [lower[each] for each in lower if word in (each.partition("_")[0], each.rpartition("_")[2])]
    if len(longer) > 1:
        return f"did you mean one of {', '.join(longer)}?"
    nearest = longer or [lower[each] for each in difflib.get_close_matches(word, lower, n=1)]
    return f"did you mean {nearest[0]}?" if nearest else f"choose from {', '.join(known)}"


def refuse_choice(place: str, word: str, kind: str, known) -> ConfigError:
    """Return the error for an unknown word of a command line: the nearest known word, and all of them.

    Initials count as the word itself, so that `oom` leads to out_of_memory.
    """
    known = sorted(known)
    initials = {"".join(part[0] for part in each.split("_")): each for each in known}
    nearest = initials.get(word) or difflib.get_close_matches(word, known, n=1, cutoff=0)[0]
    return refuse(place, word, f"is no {kind}", f"did you mean {nearest}? There are {', '.join(known)}")


def _is_integer(_checker, value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(_checker, value) -> bool:
    return _is_integer(_checker, value) or (isinstance(value, float) and math.isfinite(value))


def _is_infinite_or_nan(value) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


UNKNOWN = "additionalProperties"
"""The rule of JSON Schema that an unknown key breaks."""


@cache
def make_strict() -> Any:
    """Return a validator that is stricter than JSON Schema, which accepts 2.0 as an integer, and nan as a number."""
    from jsonschema import Draft202012Validator, validators

    types = Draft202012Validator.TYPE_CHECKER.redefine_many({"integer": _is_integer, "number": _is_number})
    return validators.extend(Draft202012Validator, type_checker=types)


def check_schema(values: dict, schema: dict, root: str, file: str = "") -> None:
    """Raise ConfigError for all violations of the schema, a line each, the most relevant first.

    root: name of the document in messages about the document as a whole. file: file to name in front of all places.
    """
    from jsonschema.exceptions import best_match, relevance

    prefix = f"{file}: " if file else ""
    _check_keys(values, prefix, root)
    errors = Errors()
    found = sorted(make_strict()(schema).iter_errors(values), key=relevance, reverse=True)
    unknown = {error.json_path: _list_unknown(error) for error in found if error.validator == UNKNOWN}
    for error in filter(None, (best_match([each]) for each in found)):
        place = prefix + (_join(error.absolute_path) or root)
        errors.add(*_explain_all(error, place, schema, unknown.get(error.json_path, [])))
    errors.raise_all()


def _join(parts) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")


def _check_keys(values, prefix: str, root: str, *parts: str | int) -> None:
    """Raise ConfigError for a key that is not text, at any depth, except below top-level keys that begin with x-."""
    if isinstance(values, dict):
        for key in values:
            if not isinstance(key, str):
                why = ", because YAML reads a bare yes, no, on or off as true or false" * isinstance(key, bool)
                place = prefix + (_join(parts) or root)
                raise ConfigError(f"{place}: the key {_show(key)} is not text; write it in quotes{why}")
    if isinstance(values, dict | list):
        for key, value in values.items() if isinstance(values, dict) else enumerate(values):
            if parts or not str(key).startswith("x-"):
                _check_keys(value, prefix, root, *parts, key)


def _list_owners(key: str, known: dict, root: dict) -> list[str]:
    """Return the known keys below which a key would be right. root: the whole schema, with its `$defs`."""
    rules = {
        name: root.get("$defs", {}).get(rule.get("$ref", "").rpartition("/")[2], rule) for name, rule in known.items()
    }
    return [name for name, rule in rules.items() if key in rule.get("properties", {})]


def _list_unknown(error: "jsonschema.ValidationError") -> list[str]:
    given: Any = error.instance
    schema: Any = error.schema
    free = "|".join(schema.get("patternProperties", {})) or "(?!)"
    return sorted(key for key in given if key not in schema.get("properties", {}) and not re.search(free, key))


def _explain_all(error: "jsonschema.ValidationError", place: str, root: dict, unknown: list[str]) -> list[ConfigError]:
    """Return an error per wrong key or value. A missing key is none if an unknown key, which is another, is like it.

    root: the whole schema, with its `$defs`. unknown: the unknown keys beside the keys of the error.
    """
    given: Any = error.instance
    rule: Any = error.validator_value
    schema: Any = error.schema
    if error.validator == UNKNOWN:
        known = schema.get("properties", {})
        return [
            ConfigError(f"{place}: unknown key {json.dumps(key)}; {_place_key(key, known, root)}")
            for key in _list_unknown(error)
        ]
    if error.validator == "required":
        missing = [key for key in rule if key not in given and not difflib.get_close_matches(key, unknown)]
        return [ConfigError(f"{place}: the key {json.dumps(key)} is missing; add it") for key in missing]
    return [_explain(error, place)]


def _place_key(key: str, known: dict, root: dict) -> str:
    owners = _list_owners(key, known, root)
    return f"write it below `{owners[0]}`" if owners else suggest(key, known)


def _explain(error: "jsonschema.ValidationError", place: str) -> ConfigError:
    value: Any = error.instance
    rule: Any = error.validator_value
    schema: Any = error.schema
    match error.validator:
        case "enum":
            return refuse(place, value, "is not known here", _hint_for_choice(value, rule))
        case "type":
            return _explain_type(value, [rule] if isinstance(rule, str) else rule, place, schema.get("minItems", 1))
        case "pattern" if rule.startswith("^[a-z]"):
            others = "dashes" if "-]" in rule else "underscores"
            return refuse(place, value, "is no valid name", f"use lower-case letters, digits and {others}")
        case "pattern" if "integer" in schema.get("type", ()) and _read_number(value) is not None:
            return _explain_type(value, ["integer"], place, 1)
        case "pattern":
            return refuse(place, value, f"does not match {rule}", schema["description"])
        case "uniqueItems":
            return refuse(place, value, "repeats an entry", "keep each once")
        case "minLength" if not value:
            return refuse(place, value, "is empty", "write text or leave the key out")
        case "minItems" | "minProperties" if not value:
            return refuse(place, value, "is empty", "give at least one entry or leave the key out")
        case "minItems" | "maxItems":
            return refuse(place, value, f"has {len(value)} entries", f"give {rule}")
        case "maximum":
            return refuse(place, value, "is too large", f"give at most {rule}")
        case "minimum":
            return refuse(place, value, "is too small", f"give at least {rule}")
        case "exclusiveMinimum":
            return refuse(place, value, "is too small", f"give more than {rule}")
        case "exclusiveMaximum":
            return refuse(place, value, "is too large", f"give less than {rule}")
    return refuse(place, value, "is refused", error.message)


def _explain_type(value, expected: list[str], place: str, num_items: int) -> ConfigError:
    """Return the error for a value of the wrong type. num_items: smallest number of entries of a list."""
    wanted = " or ".join(expected)
    number = _read_number(value) if {"integer", "number"} & set(expected) else None
    if number is not None and ("number" in expected or number.is_integer()):
        written = _write_number(number if "number" in expected else int(number))
        if isinstance(value, str):
            point = ", with a decimal point" if "." in written else ""
            return refuse(place, value, "is text, not a number", f"write {written}{point}")
        return refuse(place, value, f"is not of type {wanted}", f"write {written}")
    if _is_infinite_or_nan(value) and number is None and {"integer", "number"} & set(expected):
        return refuse(place, value, "is not finite", HINTS[expected[0]])
    return refuse(place, value, f"is not of type {wanted}", _hint_for_type(value, expected, num_items))


def _read_number(value) -> float | None:
    """Return a finite number that is given as a number or as text; None if the value is neither.

    YAML 1.1 reads 1e3 and 1e-4 as text, because they have no decimal point.
    """
    if isinstance(value, bool) or not isinstance(value, str | float):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _hint_for_choice(value, choices: list) -> str:
    bare = {True: ("on", "yes", "true"), False: ("off", "no", "false")}
    meant = [word for word in bare[value] if word in choices] if isinstance(value, bool) else []
    if meant:
        return f'write "{meant[0]}" in quotes, because YAML reads a bare {meant[0]} as {str(value).lower()}'
    return suggest(value, choices)


def _hint_for_type(value, expected: list[str], num_items: int) -> str:
    if value is None:
        return "give a value, or leave the key out if it has a default"
    if expected[0] == "array" and (isinstance(value, str) or (_is_integer(None, value) and value > 0)):
        # In the quotes that YAML needs, as for a regular expression with a comma.
        written = yaml.safe_dump([value] * num_items, default_flow_style=True, allow_unicode=True, width=math.inf)
        return f"write {written.strip()}"
    return HINTS[expected[0]]

"""Errors in config and machine files. Each message names the place, the value and the remedy."""

import difflib
import json
from typing import Any

import jsonschema


class ConfigError(ValueError):
    """The config or the machine file is invalid."""


def refuse(place: str, value, problem: str, remedy: str) -> ConfigError:
    return ConfigError(f"{place}: {json.dumps(value, default=str)} {problem}; {remedy}")


def suggest(word: str, known) -> str:
    """Return the remedy for an unknown word: the most similar known word, or the list of all known words."""
    known = sorted("null" if each is None else each for each in known)
    nearest = difflib.get_close_matches(str(word), known, n=1)
    return f"did you mean {nearest[0]}?" if nearest else f"choose from {', '.join(known)}"


def check_schema(values: dict, schema: dict, root: str) -> None:
    """Raise ConfigError for the most relevant violation of the schema. `root` names the document in messages."""
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(values))
    if error is None:
        return
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path).lstrip(".")
    raise _explain(error, place or root)


def _explain(error: jsonschema.ValidationError, place: str) -> ConfigError:
    value: Any = error.instance
    rule: Any = error.validator_value
    schema: Any = error.schema
    match error.validator:
        case "additionalProperties":
            known = schema.get("properties", {})
            unknown = sorted(set(value) - set(known))[0]
            return ConfigError(f"{place}: unknown key {json.dumps(unknown)}; {suggest(unknown, known)}")
        case "required":
            missing = next(key for key in rule if key not in value)
            return ConfigError(f"{place}: the key {json.dumps(missing)} is missing; add it")
        case "enum":
            former = schema.get("x-former", {})
            remedy = former[value] if isinstance(value, str) and value in former else suggest(value, rule)
            return refuse(place, value, "is not known here", remedy)
        case "type" if _is_number_written_as_text(value, rule):
            return refuse(place, value, "is text, not a number", f"write {float(value)!r}, with a decimal point")
        case "type":
            expected = " or ".join([rule] if isinstance(rule, str) else rule)
            return refuse(place, value, f"is not of type {expected}", _hint_for_type(value, rule))
        case "pattern" if rule.startswith("^[a-z]"):
            others = "dashes" if "-]" in rule else "underscores"
            return refuse(place, value, "is no valid name", f"use lower-case letters, digits and {others}")
        case "pattern":
            return refuse(place, value, f"does not match {rule}", schema["description"])
        case "uniqueItems":
            return refuse(place, value, "repeats an entry", "keep each once")
        case "minItems" | "minProperties":
            return refuse(place, value, "is empty", "give at least one entry or leave the key out")
        case "minimum":
            return refuse(place, value, "is too small", f"give at least {rule}")
        case "exclusiveMinimum":
            return refuse(place, value, "is too small", f"give more than {rule}")
        case "exclusiveMaximum":
            return refuse(place, value, "is too large", f"give less than {rule}")
    return refuse(place, value, "is refused", error.message)


def _is_number_written_as_text(value, rule) -> bool:
    """Detect numbers such as 1e-4, which YAML 1.1 reads as text because they have no decimal point."""
    if not isinstance(value, str) or "number" not in rule:
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True


def _hint_for_type(value, rule) -> str:
    if rule == "array":
        return f"write [{value}]" if not isinstance(value, dict) else "write a list"
    return "see workflow/schemas/ for what is expected"

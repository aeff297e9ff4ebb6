"""Options of a model, which a study gives as `model_options`."""

from typing import Any


def integer(description: str, minimum: int, maximum: int, *, default: int) -> dict[str, Any]:
    """Return the rule of a whole number, for OPTIONS of a model."""
    return {"description": description, "type": "integer", "minimum": minimum, "maximum": maximum, "default": default}


def fraction(description: str, *, default: float) -> dict[str, Any]:
    """Return the rule of a number from 0 to less than 1."""
    return {"description": description, "type": "number", "minimum": 0, "exclusiveMaximum": 1, "default": default}


def fill_options(rules: dict[str, dict], given: dict[str, Any]) -> dict[str, Any]:
    """Return the value of every option of a model. rules: the model's OPTIONS.

    Raises TypeError for an option that the model lacks.
    """
    if unknown := given.keys() - rules.keys():
        raise TypeError(f"the model has no option {', '.join(sorted(unknown))}")
    return {name: given.get(name, rule["default"]) for name, rule in rules.items()}

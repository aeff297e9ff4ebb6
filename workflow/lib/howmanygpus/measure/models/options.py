"""Options of a model, which a study gives as `model_options`."""

from typing import Any


def fill_options(rules: dict[str, dict], given: dict[str, Any]) -> dict[str, Any]:
    """Return the value of every option of a model. rules: OPTIONS in the model's parameters.py.

    Raises TypeError for an option that the model lacks.
    """
    if unknown := given.keys() - rules.keys():
        raise TypeError(f"the model has no option {', '.join(sorted(unknown))}")
    return {name: given.get(name, rule["default"]) for name, rule in rules.items()}

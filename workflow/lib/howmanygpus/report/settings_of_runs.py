"""The settings of planned runs as one flat table of names and values, such as `optimizer.learning_rate`."""

import hashlib
import json
from typing import Any

from howmanygpus.measure.spec import MODEL_PATH_KEYS
from howmanygpus.paths import RUNS
from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.outcomes import UNSET

CODE = ("family", "strategy", "launcher", "device_kind")
"""Keys of a specification that follow from the framework and the device."""
PLACES = ("data_dir", "weights_file", *MODEL_PATH_KEYS)


def describe_settings(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the settings of each planned run that are not defaults, by its folder, without those that name it.

    plan: content of results/plans/{study}.json. Two runs with equal settings do the same work in the same way.
    """
    left_out, defaults = {*IDENTITY, *CODE, *PLACES}, flatten(UNSET | plan["defaults"])
    return {
        str(RUNS / path): {
            name: value
            for name, value in flatten(planned["spec"]).items()
            if name not in left_out and value != defaults.get(name)
        }
        for path, planned in plan["runs"].items()
    }


def flatten(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a specification with dotted names instead of nested keys. A program is named by the hash of its files."""
    flat: dict[str, Any] = {}
    for key, value in spec.items():
        if key == "program" and value:
            files = sorted(value["files"].values())
            flat[key] = hashlib.sha256(json.dumps([files, value["axes"]]).encode()).hexdigest()[:12]
        elif isinstance(value, dict):
            flat |= {f"{key}.{inner}": each for inner, each in value.items()}
        else:
            flat[key] = value
    return flat

"""Every number of a study is refused if it is not finite, of another type or negative."""

import math

import pytest

from howmanygpus.plan.config.errors import ConfigError
from howmanygpus.plan.config.machine import Device, Machine
from howmanygpus.plan.config.schema import read_schema
from howmanygpus.plan.plan import Plan
from project import study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})


def list_numbers(schema: dict, rule: dict, place: str = "") -> list[tuple[str, str, dict]]:
    """Return place, type and values around a bad value of each number that a study can have."""
    found = []
    for key, value in rule["properties"].items():
        if "$ref" in value:
            value = {**schema["$defs"][value["$ref"].rpartition("/")[2]], **value}
        if value.get("type") == "object" and "properties" in value:
            found += list_numbers(schema, value, f"{place}.{key}")
        is_list = "array" in value.get("type", ()) and "maxItems" not in value
        kinds = str(value.get("items", {}).get("type", "") if is_list else value.get("type", ""))
        for kind in ("integer", "number"):
            if kind in kinds:
                found.append((f"{place}.{key}" + "[0]" * is_list, kind))
    return found


SCHEMA = read_schema("config")
NUMBERS = list_numbers(SCHEMA, SCHEMA["$defs"]["study"])


def put(place: str, value) -> dict:
    """Return a study's changes that give a value at a place such as `.optimizer.momentum` or `.num_gpus[0]`."""
    *outer, key = place.strip(".").removesuffix("[0]").split(".")
    change = {key: [value] if place.endswith("[0]") else value}
    for name in reversed(outer):
        change = {name: change}
    return change


def refused(changes: dict) -> str:
    with pytest.raises(ConfigError) as error:
        Plan({"studies": {"s": study(frameworks=["pytorch_ddp"], devices=["cpu"]) | changes}}, CPU)
    return str(error.value)


def test_a_study_has_these_numbers():
    assert {".num_gpus[0]", ".seed", ".optimizer.learning_rate", ".quality.thresholds[0]"} < {
        name for name, _ in NUMBERS
    }


@pytest.mark.parametrize(("place", "kind"), NUMBERS, ids=str)
def test_no_number_is_infinite_or_nan_or_of_another_type(place, kind):
    for value, written in ((math.nan, ".nan"), (math.inf, ".inf"), (-math.inf, "-.inf")):
        assert refused(put(place, value)).startswith(f"studies.s{place}: {written} is not finite; write a ")
    if kind == "integer":
        assert refused(put(place, 2.0)).startswith(f"studies.s{place}: 2.0 is not of type integer")
        assert refused(put(place, 2.0)).endswith("; write 2")
    assert refused(put(place, "1e3")).startswith(f'studies.s{place}: "1e3" is text, not a number; write 1000')


@pytest.mark.parametrize("place", [place for place, _ in NUMBERS])
def test_no_number_is_negative(place):
    assert f"studies.s{place}: -1 " in refused(put(place, -1))

"""Each key of a config and of a machine file stands in a file that is shipped, with a value or in a comment."""

import re

import pytest

from howmanygpus.config.schema import read_schema
from project import ROOT

FOLDERS = ("config", "examples", "profiles")
IN_COMMANDS = {"config": {"machine", "packed"}}
"""Keys that are given by `--config`."""


def list_keys(schema: dict) -> set[str]:
    """Return the keys of a schema and of its definitions, without those of data sets, which their sources describe."""
    keys = set(schema.get("properties", {})) if schema.get("additionalProperties") is False else set()
    definitions = {name: each for name, each in schema.get("$defs", {}).items() if name != "dataset"}
    for each in (*schema.get("properties", {}).values(), *definitions.values()):
        keys |= list_keys(each) if isinstance(each, dict) else set()
    return keys


@pytest.mark.parametrize("name", ["config", "machine"])
def test_every_key_stands_in_an_example(name):
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.yaml")]
    text = "\n".join(path.read_text() for path in files)
    keys = list_keys(read_schema(name)) - IN_COMMANDS.get(name, set())
    assert len(keys) > 20
    assert sorted(key for key in keys if not re.search(rf"\b{key}:", text)) == []

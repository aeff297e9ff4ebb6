"""Reads the schemas and applies the defaults of the config, which are defined only in the schemas."""

import re
from functools import cache
from pathlib import Path

import yaml

SCHEMAS = Path(__file__).resolve().parents[4] / "schemas"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The faster loader of libyaml, if PyYAML was built with it, because every call of Snakemake reads the schemas."""

MISREAD = re.compile(r"[-+]?(\d[\d_]*(:[0-5]?\d)+(\.[\d_]*)?|0[0-7_]+)")
"""Numbers that YAML 1.1 reads differently than users mean: 1:30 is 90 (base 60), and 010 is 8 (base 8)."""


@cache
def read_schema(name: str) -> dict:
    return yaml.load((SCHEMAS / f"{name}.schema.yaml").read_text(), LOADER)


@cache
def study_defaults() -> dict:
    """Return a study that consists of the defaults only."""
    schema = read_schema("config")
    return fill_defaults({}, schema["$defs"]["study"], schema)


def retype(value):
    """Give values of --config the types that they would have in a file.

    Snakemake reads the values inside [...] and {...} as text. Numbers that YAML would misread stay text.
    """
    if isinstance(value, dict):
        return {key: retype(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [retype(inner) for inner in value]
    if not isinstance(value, str) or MISREAD.fullmatch(value):
        return value
    try:
        return yaml.safe_load(value)
    except (yaml.YAMLError, ValueError):
        return value


def fill_defaults(values: dict, schema: dict, root: dict) -> dict:
    """Return `values` with every missing default of `schema` filled in, at every depth."""
    while "$ref" in schema:
        target = root["$defs"][schema["$ref"].rpartition("/")[2]]
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    if not isinstance(values, dict):
        return values
    filled = dict(values)
    for key, rule in schema.get("properties", {}).items():
        if key in filled or "default" in rule:
            filled[key] = fill_defaults(filled.get(key, rule.get("default")), rule, root)
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        known = schema.get("properties", {})
        filled |= {key: fill_defaults(value, others, root) for key, value in filled.items() if key not in known}
    return filled


def drop_defaults(filled: dict, defaults: dict, nested: tuple[str, ...]) -> dict:
    """Invert fill_defaults: return what differs from `defaults`. The `nested` keys are compared key by key."""
    different = {key: value for key, value in filled.items() if key not in defaults or value != defaults[key]}
    for key in different.keys() & set(nested):
        different[key] = drop_defaults(different[key], defaults[key], ())
    return different

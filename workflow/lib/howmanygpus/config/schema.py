"""
Reads the schemas and applies the defaults of the config.

The schema of the config gets the settings of a run from howmanygpus.settings; all other keys are in its file.
"""

import re
from functools import cache
from pathlib import Path

import yaml

from howmanygpus.settings import SETTINGS

SCHEMAS = Path(__file__).resolve().parents[3] / "schemas"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The faster loader of libyaml, if PyYAML was built with it, because every call of Snakemake reads the schemas."""

YAML_MISREAD = re.compile(r"[-+]?(\d[\d_]*(:[0-5]?\d)+(\.[\d_]*)?|0[0-7_]+)")
"""Numbers that YAML 1.1 reads differently than users mean: 1:30 is 90 (base 60), and 010 is 8 (base 8)."""


PLACE = "x-settings"
"""Entry of an object's properties in the file of the schema whose place the settings take."""


@cache
def read_schema(name: str) -> dict:
    schema = yaml.load((SCHEMAS / f"{name}.schema.yaml").read_text(), LOADER)
    if name == "config":
        add_settings(schema["$defs"])
    return schema


def add_settings(definitions: dict) -> None:
    """Add to the definitions of the config's schema the rule of each setting, and the keys of a study and a variant."""
    settings = {key: setting for key, setting in SETTINGS.items() if setting.study}
    keys = {key: {"$ref": f"#/$defs/{key}"} for key in settings}
    described = {
        key: rule | {"description": settings[key].doc, "default": settings[key].default} for key, rule in keys.items()
    }
    overrides = {key: rule for key, rule in keys.items() if settings[key].variant}
    for name, added in {"study": described, "overrides": overrides}.items():
        properties = definitions[name]["properties"]
        before = list(properties)[: list(properties).index(PLACE)]
        after = {key: rule for key, rule in properties.items() if key not in before and key != PLACE}
        definitions[name]["properties"] = {key: properties[key] for key in before} | added | after
    definitions |= {key: setting.accepts for key, setting in settings.items()}


def fill_study(given: dict) -> dict:
    """Return a study with every missing default filled in."""
    schema = read_schema("config")
    return fill_defaults(given, schema["$defs"]["study"], schema)


@cache
def study_defaults() -> dict:
    """Return a study that consists of the defaults only."""
    return fill_study({})


def retype(value):
    """Give values of --config the types that they would have in a file.

    Snakemake reads the values inside [...] and {...} as text. Numbers that YAML would misread stay text.
    """
    if isinstance(value, dict):
        return {key: retype(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [retype(inner) for inner in value]
    if not isinstance(value, str) or YAML_MISREAD.fullmatch(value):
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

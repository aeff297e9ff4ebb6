"""
Read and write run.json and attempt.json, checked against workflow/schemas/run.schema.yaml.

The schema names no setting of a run. Each field of RunSpec that it lacks is added with the type of its annotation.
"""

import dataclasses
import json
import textwrap
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin

import yaml

from howmanygpus.base.secrets import hide_everywhere
from howmanygpus.base.version import VERSION
from howmanygpus.files import write_json_atomic
from howmanygpus.measure.spec import RunSpec

if TYPE_CHECKING:
    # Importing it takes 0.2 s, and much that imports this module checks nothing.
    import jsonschema

SCHEMA = Path(__file__).resolve().parents[4] / "schemas" / "run.schema.yaml"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The faster loader of libyaml, if PyYAML was built with it, because every run reads the schema."""
TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", NoneType: "null"}
TYPES |= {list: "array", tuple: "array", dict: "object"}
"""Types of JSON Schema."""


class RecordError(ValueError):
    """A record violates its schema. The message names the file and the key."""


def read_record(path: Path) -> dict:
    """Return the content of a run.json or an attempt.json. Raises RecordError if it violates the schema."""
    try:
        record = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise RecordError(f"{path}: this is not JSON: {error}") from None
    check_record(path, record)
    return record


def write_record(path: Path, record: dict) -> None:
    """Write a run.json or an attempt.json, with the version of the workflow and without credentials in addresses.

    Raises RecordError, and writes nothing, if it violates the schema.
    """
    record = {"workflow_version": VERSION} | record
    check_record(path, record)
    write_json_atomic(path, hide_everywhere(record))


def check_record(path: Path, record: dict) -> None:
    """Raise RecordError if a record violates the schema; the name of its file says which schema."""
    from jsonschema.exceptions import best_match

    error = best_match(_load_validator(path.stem).iter_errors(record))
    if error is not None:
        raise RecordError(f"{path}: {_explain(error)}")


@cache
def _load_validator(kind: str) -> "jsonschema.Draft202012Validator":
    """Return the validator of a kind of record: `run` or `attempt`."""
    from jsonschema import Draft202012Validator

    return Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": read_definitions()})


def read_definitions() -> dict:
    """Return `$defs` of the schema, with all fields of RunSpec."""
    definitions = yaml.load(SCHEMA.read_text(), LOADER)["$defs"]
    definitions["spec"]["properties"] = describe_fields(RunSpec) | definitions["spec"]["properties"]
    return definitions


def describe_fields(kind: Any) -> dict[str, dict]:
    """Return the rule of JSON Schema for each field of a dataclass."""
    return {field.name: describe_type(field.type) for field in dataclasses.fields(kind)}


def describe_type(annotation: Any) -> dict:
    """Return the rule of JSON Schema for values of an annotated type, such as `list[int] | None`."""
    rule: dict[str, Any] = {"type": []}
    for kind in get_args(annotation) if isinstance(annotation, UnionType) else (annotation,):
        if dataclasses.is_dataclass(kind):
            rule["type"].append("object")
            rule |= {"additionalProperties": False, "properties": describe_fields(kind)}
            continue
        rule["type"].append(TYPES[get_origin(kind) or kind])
        if rule["type"][-1] == "array":
            rule["items"] = describe_type(get_args(kind)[0])
    return rule


def _explain(error: "jsonschema.ValidationError") -> str:
    if error.validator == "not":
        return f"{error.instance}: a record with this status does not have this key"
    place = "".join(f"{part}: " for part in error.absolute_path)
    return place + textwrap.shorten(error.message, 300, placeholder=" ...")

"""Read and write run.json and attempt.json, checked against workflow/schemas/run.schema.yaml."""

import json
import textwrap
from functools import cache
from pathlib import Path

import yaml
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match

from howmanygpus.files import write_json_atomic
from howmanygpus.surroundings.secrets import hide_everywhere

SCHEMA = Path(__file__).resolve().parents[3] / "schemas" / "run.schema.yaml"


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
    """Write a run.json or an attempt.json, without credentials in addresses.

    Raises RecordError, and writes nothing, if it violates the schema.
    """
    check_record(path, record)
    write_json_atomic(path, hide_everywhere(record))


def check_record(path: Path, record: dict) -> None:
    """Raise RecordError if a record violates the schema; the name of its file says which schema."""
    error = best_match(_load_validator(path.stem).iter_errors(record))
    if error is not None:
        raise RecordError(f"{path}: {_explain(error)}")


@cache
def _load_validator(kind: str) -> Draft202012Validator:
    """Return the validator of a kind of record: `run` or `attempt`."""
    schema = yaml.safe_load(SCHEMA.read_text())
    return Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": schema["$defs"]})


def _explain(error: ValidationError) -> str:
    if error.validator == "not":
        return f"{error.instance}: a record with this status does not have this key"
    place = "".join(f"{part}: " for part in error.absolute_path)
    return place + textwrap.shorten(error.message, 300, placeholder=" ...")

"""Reads the YAML and JSON files of users. Errors name the file and the line."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from howmanygpus.config.errors import ConfigError, refuse
from howmanygpus.config.schema import LOADER, YAML_MISREAD

NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
DATE = "tag:yaml.org,2002:timestamp"


def read_yaml(path: str | Path) -> Any:
    """Return the content of a YAML or JSON file.

    Raises ConfigError if the file cannot be read, is not UTF-8, is not valid, gives a key twice in one mapping, or has
    a value that YAML cannot read or would misread.
    """
    name = _shorten(Path(path))
    text = _read_text(Path(path), name)
    try:
        loader = LOADER(text.expandtabs(1) if _is_json(text) else text)
        node = loader.get_single_node()
        if node is not None:
            _check_keys(node, name, "", set(), ())
        return loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        raise _explain(error, text, name) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"the character {chr(error.character)!a} is not allowed in YAML"
        raise ConfigError(f"{name}:{line}: {problem}; remove it") from None


def check_config_files(paths: Iterable[str | Path]) -> None:
    """Raise ConfigError for a file that read_yaml refuses, or that has no keys at its top level."""
    for path in paths:
        content = read_yaml(path)
        if not isinstance(content, dict):
            what = "is empty" if content is None else "has no keys at its top level"
            raise ConfigError(f"{_shorten(Path(path))}: the file {what}; begin it with `studies:`")


def expand_path(path: str, place: str) -> str:
    """Expand `~` and variables such as $HOME in a path, unless the path exists as it is. Raises ConfigError."""
    if not ("$" in path or path.startswith("~")) or Path(path).exists():
        return path
    unknown = refuse(place, path, "has a variable or a user that is not known here", "write the path out")
    try:
        expanded = str(Path(os.path.expandvars(path)).expanduser())
    except RuntimeError:
        raise unknown from None
    if "$" in expanded:
        raise unknown
    return expanded


def _shorten(path: Path) -> str:
    """Return the path relative to the working directory if the file is below it."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _read_text(path: Path, name: str) -> str:
    if path.is_dir():
        raise ConfigError(f"{name}: this is a folder; name a file in it")
    try:
        content = path.read_bytes()
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = content.count(b"\n", 0, error.start) + 1, content[error.start]
        raise ConfigError(f"{name}:{line}: the byte 0x{byte:02x} is not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        remedy = "name an existing file" if isinstance(error, FileNotFoundError) else "make it readable"
        raise ConfigError(f"{name}: {os.strerror(error.errno or 0)}; {remedy}") from None


def _is_json(text: str) -> bool:
    """Whether a text is JSON, which unlike YAML may have tabs between values."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _check_keys(node: yaml.Node, name: str, place: str, seen: set[int], above: tuple[int, ...]) -> None:
    """Raise ConfigError for a mapping with the same key twice or with itself inside, or a misread value, at any depth.

    seen: nodes that were checked already. above: nodes that contain this one.
    """
    if id(node) in above:
        raise ConfigError(
            f"{name}:{node.start_mark.line + 1}: this contains itself, at {place}; remove the alias there"
        )
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        _check_scalar(node, name, place)
        return
    above = (*above, id(node))
    if isinstance(node, yaml.SequenceNode):
        for position, entry in enumerate(node.value):
            _check_keys(entry, name, f"{place}[{position}]", seen, above)
        return
    lines: dict[tuple[str, str], int] = {}
    for key, value in node.value:
        inner = f"{place}.{key.value}" if place else str(key.value)
        if isinstance(key, yaml.ScalarNode):
            identity, line = (key.tag, key.value), key.start_mark.line + 1
            if identity in lines:
                problem = f"{inner} is given a second time, after line {lines[identity]}"
                raise ConfigError(f"{name}:{line}: {problem}; keep one of them, or rename one")
            lines[identity] = line
            _check_scalar(key, name, inner)
        _check_keys(value, name, inner, seen, above)


def _check_scalar(node: yaml.ScalarNode, name: str, place: str) -> None:
    """Raise ConfigError for a value that cannot be read, such as the 30th of February, or whose number is misread."""
    if node.tag not in (*NUMBERS, DATE):
        return
    where = ": ".join(filter(None, [f"{name}:{node.start_mark.line + 1}", place]))
    try:
        value = SafeConstructor().construct_object(node)
    except ValueError as error:
        raise ConfigError(f"{where}: {node.value} cannot be read: {error}; correct it, or put text in quotes") from None
    if node.tag in NUMBERS and YAML_MISREAD.fullmatch(node.value):
        base = 60 if ":" in node.value else 8
        problem = f"is {value} in YAML, which reads it with the base {base}"
        raise ConfigError(f"{where}: {node.value} {problem}; write the number that you mean, or put text in quotes")


def _explain(error: yaml.MarkedYAMLError, text: str, name: str) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines() or [""]
    # For a list that is never closed, libyaml names the line after the last one.
    number = min(mark.line if mark else 0, len(lines) - 1)
    line = lines[number]
    has_tab = "\t" in line[: len(line) - len(line.lstrip())]
    remedy = "indent by spaces, not by tabs" if has_tab else "correct this line or the one before it"
    problem = " ".join(str(error.problem or error.context).split())
    return ConfigError(f"{name}:{number + 1}: {problem}; {remedy}")

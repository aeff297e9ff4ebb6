"""Places, hosts and people in texts: what a file that is published must not name."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

KINDS = {
    "an address": r"\b\w+://\S+|[\w.+-]+@[\w-]+[\w.-]*",
    "a place of a file": r"(?<![\w./~-])(?:~[\w.-]*/|/(?=[\w.+-]{3}))[\w.+-]+(?:/[\w.+-]*)*|\b[A-Za-z]:\\\S+",
    "the number of a GPU": r"\b(?:GPU|MIG)-[0-9a-f]{8}[\w-]*",
    "the name of a host": r"(?<![\w./-])[a-zA-Z][\w-]*\.(?:[\w-]+\.)+[a-zA-Z]{2,}(?![\w.+-])",
    "the address of a host": r"(?<![\w.-])\d{1,3}(?:\.\d{1,3}){3}(?![\w.-])",
}
"""What is looked for, as regular expressions. A rate such as images/s is no place, nor is a path within the project."""
VERSIONS = ("framework_version", "python_version", "driver_version")
"""Keys of texts in which four numbers with dots are a version."""
OWN_NAME = "the name of this host or of its user"
HIDDEN = "..."


def hide_places(value: Any, key: str = "") -> Any:
    """Return a value of JSON whose texts have `...` where they name what must not be published. key: of the value."""
    if isinstance(value, dict):
        return {name: hide_places(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [hide_places(each, key) for each in value]
    if isinstance(value, str):
        for pattern in _choose_patterns(key).values():
            value = re.sub(pattern, HIDDEN, value)
    return value


def hide_hosts(text: str, hosts: list[str]) -> str:
    """Return a text with `host 1`, `host 2` instead of the names of hosts."""
    for number, host in sorted(enumerate(hosts, 1), key=lambda each: -len(each[1])):
        text = re.sub(_as_word(host), f"host {number}", text)
    return text


def find_places(
    value: Any, names: Iterable[str] = (), place: str = "", key: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Yield (place, text, what it is) for whatever a value of JSON names that must not be published.

    names: of hosts and users to look for besides. place, key: of the value.
    """
    if isinstance(value, dict):
        for name, each in value.items():
            inner = f"{place}.{name}".lstrip(".")
            yield from find_places(name, names, inner)
            yield from find_places(each, names, inner, name)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from find_places(each, names, f"{place}[{number}]", key)
    elif isinstance(value, str):
        for kind, pattern in (_choose_patterns(key) | {OWN_NAME: "|".join(map(_as_word, names)) or "(?!)"}).items():
            for found in re.finditer(pattern, value):
                yield place, found[0], kind


def _choose_patterns(key: str) -> dict[str, str]:
    return {kind: pattern for kind, pattern in KINDS.items() if key not in VERSIONS or kind != "the address of a host"}


def _as_word(name: str) -> str:
    return rf"(?<![\w.-]){re.escape(name)}(?![\w-])"

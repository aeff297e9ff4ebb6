"""Keeps credentials and the place of the home folder out of records and logs."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

CREDENTIALS = re.compile(r"(?<=://)[^/\s@'\"]+@")
"""User and password in an address, such as that of a proxy."""
SIGNATURES = re.compile(
    r"(?<=[?&])((?:[\w.-]*(?:signature|credential|token|secret|passw|api_?key|accesskey)[\w.-]*|sig|key|auth|jwt)=)"
    r"[^&#\s'\"]+",
    re.IGNORECASE,
)
"""A value in the query of an address with which anybody can fetch the file."""
SECRETS = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|(^|_)(PWD|KEY|JWT|AUTH)$"
)
"""Part of the names of variables whose values are secret."""
MIN_SECRET_LENGTH = 6
"""Smallest length of a value that is searched for. A shorter one would also be found inside ordinary words."""
NOT_SECRET = {"PWD", "OLDPWD"}


def make_hiding(environment: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that replaces credentials in addresses, and values of secret variables by their names.

    environment: variables of the process that wrote the text.
    """
    secret = [
        (value, f"${name}")
        for name, value in environment.items()
        if SECRETS.search(name.upper()) and name not in NOT_SECRET and len(value) >= MIN_SECRET_LENGTH
    ]

    def hide(text: str) -> str:
        for value, name in secret:
            text = text.replace(value, name)
        return hide_in_addresses(text)

    return hide


def hide_in_addresses(text: str) -> str:
    """Return a text without user, password and signatures in addresses."""
    return SIGNATURES.sub(r"\1...", CREDENTIALS.sub("", text))


def hide_everywhere(value: Any) -> Any:
    """Apply hide_in_addresses to all texts of a JSON value."""
    if isinstance(value, dict):
        return {key: hide_everywhere(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [hide_everywhere(each) for each in value]
    return hide_in_addresses(value) if isinstance(value, str) else value


def shorten(value: str) -> str:
    """Return the value of a variable as records show it: with ~ for the home folder, and without credentials."""
    for home in {str(Path.home()), os.path.realpath(Path.home())} - {"/"}:
        value = re.sub(rf"(?<![\w.-]){re.escape(home)}(?![\w.-])", "~", value)
    return hide_in_addresses(value)

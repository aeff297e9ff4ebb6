"""Keeps what a user would not publish out of records and logs: credentials, and where the home folder is."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

CREDENTIALS = re.compile(r"(?<=://)[^/\s@'\"]+@")
"""User and password in an address, such as that of a proxy."""
SECRETS = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|(^|_)(PWD|KEY|JWT|AUTH)$"
)
"""Part of the names of variables whose values are secret."""
SHORTEST = 6
"""Fewest characters of a value that is looked for. A shorter one would also be found inside of ordinary words."""
NOT_SECRET = {"PWD", "OLDPWD"}


def make_hiding(environment: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that replaces credentials in addresses, and values of secret variables by their names.

    environment: of the process whose text it is.
    """
    secret = [
        (value, f"${name}")
        for name, value in environment.items()
        if SECRETS.search(name.upper()) and name not in NOT_SECRET and len(value) >= SHORTEST
    ]

    def hide(text: str) -> str:
        for value, name in secret:
            text = text.replace(value, name)
        return CREDENTIALS.sub("", text)

    return hide


def shorten(value: str) -> str:
    """Return the value of a variable as records show it: with ~ for the home folder, and without credentials."""
    for home in {str(Path.home()), os.path.realpath(Path.home())} - {"/"}:
        value = re.sub(rf"(?<![\w.-]){re.escape(home)}(?![\w.-])", "~", value)
    return CREDENTIALS.sub("", value)

"""
Install packages by uv, from where pip is configured to take them.

uv reads neither pip's configuration nor its variables, by which sites and users name their package index or their
folder of wheels.
"""

import ast
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from howmanygpus.base.environment import resolve_cache
from howmanygpus.base.secrets import hide_in_addresses

SETTING = re.compile(r"(global|install|:env:)\.([a-z-]+)=(.*)")
"""A line of `pip config list`. Of a setting's values, that of `:env:` wins, then that of `install`."""
LISTS = {
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "constraint": "--constraints",
    "trusted-host": "--allow-insecure-host",
    "no-binary": "--no-binary",
    "only-binary": "--only-binary",
}
"""uv's options for those settings of pip that have several values, separated by spaces."""
VARIABLES = {
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "timeout": "UV_HTTP_TIMEOUT",
    "retries": "UV_HTTP_RETRIES",
}
"""uv's variables for settings of pip."""


@dataclass(frozen=True)
class Uv:
    """A program uv, and a Python whose pip tells where this machine takes packages from."""

    path: Path
    python: str


OWN = Uv(Path(sys.prefix, "bin", "uv"), sys.executable)
"""That of this Python's environment; `.venv` has the pinned one."""


def read_pip_settings(python: Path | str) -> dict[str, str]:
    """Return the settings of `pip install` from pip's files and variables; none if the Python has no pip."""
    # A quiet pip would print nothing.
    variables = os.environ | {"PIP_QUIET": "0"}
    command = [str(python), "-m", "pip", "config", "list"]
    listed = subprocess.run(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    settings: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.stdout.splitlines():
        if match := SETTING.fullmatch(line):
            settings[match[1]][match[2]] = ast.literal_eval(match[3])
    return settings["global"] | settings["install"] | settings[":env:"]


def translate(settings: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return pip's settings as (options, environment variables) of uv."""
    # pip takes the best version of all indexes, uv by default that of the first index that has the package.
    options = ["--index-strategy", "unsafe-best-match"]
    if settings.get("no-index", "").lower() in ("1", "yes", "true", "on", "y", "t"):
        # Some wheels in the folder were built from source, so that no lock has their hashes.
        options += ["--no-index", "--no-verify-hashes"]
    if index := settings.get("index-url"):
        options += ["--default-index", index]
    for name, option in LISTS.items():
        for value in settings.get(name, "").split():
            options += [option, str(Path(value).expanduser()) if value.startswith("~") else value]
    return options, {variable: settings[name] for name, variable in VARIABLES.items() if settings.get(name)}


def compile_requirements(pins: list[Path], locked: Path, more: list[str], uv: Uv = OWN) -> bool:
    """Write all packages that requirements need, with versions and hashes, to `locked`; return whether uv could.

    Versions that are in `locked` already are kept. more: further options of `uv pip compile`.
    """
    settings = read_pip_settings(uv.python)
    # Others need not obey this machine's constraints, and lack its folders, which may have files for this Python alone:
    # their hashes would be the only ones in the lock.
    shared = {name: settings[name] for name in settings if name not in ("find-links", "constraint")}
    if indexes := shared.get("extra-index-url"):
        shared["extra-index-url"] = " ".join(each for each in indexes.split() if not each.startswith("file:"))
    options, variables = translate(shared)
    command = [str(uv.path), "pip", "compile", "--quiet", "--no-config", "--generate-hashes", "--no-header"]
    command += ["--no-annotate", *options, *more, *map(str, pins), "--output-file", str(locked)]
    environment = {"UV_CACHE_DIR": str(resolve_cache() / "uv")} | os.environ | variables
    return not subprocess.run(command, env=environment, stdout=subprocess.DEVNULL).returncode


def install_packages(python: Path | str, words: list[str], uv: Uv = OWN) -> None:
    """Install into a Python's environment. `words`: requirements and options of `uv pip install`.

    Raises SystemExit if uv fails.
    """
    options, variables = translate(read_pip_settings(uv.python))
    # The files of environments are hard links to those of uv's cache, which needs the same file system.
    environment = {"UV_CACHE_DIR": str(resolve_cache() / "uv")} | os.environ | variables
    command = [str(uv.path), "pip", "install", "--quiet", "--no-config", "--python", str(python), *options, *words]
    if subprocess.run(command, env=environment).returncode:
        told = " ".join([*options[2:], *(f"{name}={value}" for name, value in variables.items())])
        places = hide_in_addresses(told) or "the default index"
        sys.exit(
            f"uv cannot install {' '.join(words)} for {python}, as it says above. It looks for packages where pip is "
            f"configured to look ({places}): `pip config list` and the variables PIP_* show where; correct it "
            "there, then try again"
        )

"""
Lock an environment: the versions and hashes of all its packages, for every platform and Python that can build it.

Installations take the file in envs/locks/ as constraints, so that the packages that others depend on are the same
everywhere and tomorrow, and uv refuses files with other contents.

Run it by `make locks` after a change of a pin. It needs no GPU. A lock keeps the versions that it has, unless a pin
needs others; to take newer ones, remove the file first.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from howmanygpus.clone import CLONE
from howmanygpus.config.errors import refuse_choice
from howmanygpus.files import write_text_atomic
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.environments.pins import (
    FOLDER,
    LOCKS,
    OLDEST_PYTHON,
    as_options,
    list_pin_files,
    read_newest_python,
    split_pins,
)
from howmanygpus.site.environments.uv import compile_requirements, install_packages
from howmanygpus_tools.export import TOOLS

PLATFORM = "x86_64-manylinux_2_28"
"""Platform of the locks of environments that only some versions of Python can build."""
UNHASHED = ("torch",)
"""Packages whose project publishes other files for the same version in indexes of its own, such as those for CPUs."""
ENTRY = re.compile(r"(?m)^(?P<name>[\w.-]+)\S*==(?:.*\\\n)*.*\n")
HASHES = re.compile(r" *\\\n *--hash=\S+")
MORE = {"workflow": [FOLDER / "development.txt"]}
"""Requirements that are added to an environment later, and must fit it."""


def lock(name: str) -> bool:
    """Write the lock of an environment; return whether uv could resolve it. uv prints to the terminal."""
    pins = [path for path in list_pin_files(name) if path.parent == FOLDER] + MORE.get(name, [])
    path = LOCKS / f"{name}.txt"
    newest = read_newest_python(pins)
    with tempfile.TemporaryDirectory() as scratch:
        builder, locked = Path(scratch, "builder"), Path(scratch, path.name)
        if path.exists():
            # Versions stay. Hashes are asked for again, because uv would keep those it finds.
            locked.write_text(HASHES.sub("", path.read_text()))
        options = ["--python-version", ".".join(map(str, newest)) if newest else OLDEST_PYTHON.rpartition(".")[0]]
        options += ["--python-platform", PLATFORM] if newest else ["--universal"]
        first, _ = split_pins(pins)
        if first:
            # What is published only as source is asked for its requirements, which needs what builds it.
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(builder)], check=True)
            install_packages(builder / "bin" / "python", as_options(first))
            options += ["--no-build-isolation", "--python", str(builder / "bin" / "python")]
        if not compile_requirements(pins, locked, options):
            return False
        text = ENTRY.sub(_drop_hashes_of_unhashed, locked.read_text())
    LOCKS.mkdir(exist_ok=True)
    write_text_atomic(
        path, f"# Written by `make locks` from {', '.join(str(each.relative_to(CLONE)) for each in pins)}.\n{text}"
    )
    return True


def _drop_hashes_of_unhashed(entry: re.Match[str]) -> str:
    return HASHES.sub("", entry[0]) if entry["name"] in UNHASHED else entry[0]


def main() -> None:
    frameworks = {name for entry in FRAMEWORKS.values() for name in entry.list_environments()}
    names = sorted({*frameworks, *TOOLS, "pillow-simd", "site", "workflow"})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=names, metavar="name", help=f"of {', '.join(names)} (default all)")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in names:
            parser.error(str(refuse_choice("name", name, "environment", names)))
    failed = [name for name in arguments.names if not lock(name)]
    if failed:
        sys.exit(f"uv cannot lock {', '.join(failed)}: see its messages above and change envs/<name>.txt")
    print(f"locked: {', '.join(arguments.names)}")


if __name__ == "__main__":
    main()

"""
Lock an environment: the versions and hashes of all its packages, for every platform and Python that can build it.

Installations take the file in envs/locks/ as constraints, so that the packages that others depend on are the same
everywhere and tomorrow, and uv refuses files with other contents.

Run it by `make locks` after a change of a pin. It needs no GPU. A lock keeps the versions that it has, unless a pin
needs others. `make update` moves the pins and locks of all environments that are not retired to the newest versions,
has every framework pass the parity gate with them, and prints what changed. A pin stays if a comment follows it on its
line, which says why.
"""

import argparse
import csv
import re
import shutil
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
    HOROVOD_SOURCE,
    LOCKS,
    OLDEST_PYTHON,
    as_options,
    list_pin_files,
    read_newest_python,
    read_requirements,
    split_pins,
)
from howmanygpus.site.environments.uv import compile_requirements, install_packages
from howmanygpus_tools.export import TOOLS
from howmanygpus_tools.wheelhouse.wheelhouse import normalize, select

PLATFORM = "x86_64-manylinux_2_28"
"""Platform of the locks of environments that only some versions of Python can build."""
PYTHONS = ("3.11", "3.12", "3.13")
"""The Pythons for each of which a pin has its newest version."""
OTHERS = ("pillow-simd", "site", "workflow")
"""Environments that have a lock and are neither a framework's nor a tool's."""
UNHASHED = ("torch",)
"""Packages whose project publishes other files for the same version in indexes of its own, such as those for CPUs."""
ENTRY = re.compile(r"(?m)^(?P<name>[\w.-]+)\S*==(?:.*\\\n)*.*\n")
HASHES = re.compile(r" *\\\n *--hash=\S+")
PIN = re.compile(
    r"(?P<name>[\w.-]+)(?P<extras>\[[\w,-]+\])?==(?P<version>[^\s;]+)(?: ; (?P<marker>[^#]+?))?(?P<why> +#.*)?"
)
"""A line of a pin file. `why`: a comment that holds the version."""
MORE = {"workflow": [FOLDER / "development.txt"]}
"""Requirements that are added to an environment later, and must fit it."""
GATED = ["--profile", "profiles/local", "--configfile", "config/all_frameworks.yaml"]
"""Snakemake's options for the parity gate of all frameworks on the cell of the demo."""
VERDICTS = Path("results/tables/parity.tsv")


def lock(name: str, newest: bool = False) -> bool:
    """Write the lock of an environment; return whether uv could resolve it. uv prints to the terminal.

    newest: take the newest version of what is not pinned, instead of the locked one.
    """
    pins = [path for path in list_pin_files(name) if path.parent == FOLDER] + MORE.get(name, [])
    path = LOCKS / f"{name}.txt"
    last = read_newest_python(pins)
    with tempfile.TemporaryDirectory() as scratch:
        builder, locked = Path(scratch, "builder"), Path(scratch, path.name)
        if path.exists() and not newest:
            # Versions stay. Hashes are asked for again, because uv would keep those it finds.
            locked.write_text(HASHES.sub("", path.read_text()))
        options = ["--python-version", ".".join(map(str, last)) if last else OLDEST_PYTHON.rpartition(".")[0]]
        options += ["--python-platform", PLATFORM] if last else ["--universal"]
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


def list_retired() -> set[str]:
    """Return the environments of retired frameworks, whose versions stay."""
    retired = (entry for entry in FRAMEWORKS.values() if entry.support == "retired")
    return {name for entry in retired for name in entry.list_environments()}


def list_moved_files(folder: Path) -> list[Path]:
    """Return the pin files whose versions move, in a copy of envs/, each after the files that it includes."""
    stay = {path.name for name in list_retired() for path in list_pin_files(name)} | {HOROVOD_SOURCE.name}
    return sorted((path for path in folder.glob("*.txt") if path.name not in stay), key=_count_included)


def _count_included(path: Path) -> tuple[int, str]:
    included = [line.split()[1] for line in read_requirements(path) if line.startswith("-r ")]
    return sum(1 + _count_included(path.with_name(name))[0] for name in included), path.name


def move_pins(path: Path) -> bool:
    """Write the newest versions that fit together, for each Python, into a pin file; return whether there are any."""
    lines = path.read_text().splitlines()
    free = {line: pin for line in lines if (pin := PIN.fullmatch(line)) and not pin["why"]}
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        asked, locked = Path(scratch, path.name), Path(scratch, "locked.txt")
        wanted = (_ask_newer(free[line]) if line in free else line.replace("-r ", "-r ../") for line in lines)
        asked.write_text("".join(f"{line}\n" for line in wanted))
        if not compile_requirements([asked], locked, ["--python-version", PYTHONS[0], "--universal"]):
            return False
        found = [_read_versions_for(locked, python) for python in PYTHONS]
    moved = []
    for line in lines:
        if line in free:
            pin = free[line]
            versions = [each.get(normalize(pin["name"]), pin["version"]) for each in found]
            marker = "" if _is_for_python(pin) else pin["marker"] or ""
            moved += [each for each in write_pins(_name(pin), versions, marker) if each not in moved]
        else:
            moved.append(line)
    path.write_text("".join(f"{line}\n" for line in moved))
    return True


def _name(pin: re.Match[str]) -> str:
    return pin["name"] + (pin["extras"] or "")


def _is_for_python(pin: re.Match[str]) -> bool:
    return "python_version" in (pin["marker"] or "")


def _ask_newer(pin: re.Match[str]) -> str:
    """Return the requirement of a version that is no older, on every architecture."""
    return f"{_name(pin)}>={pin['version']}" + (f" ; {pin['marker']}" if _is_for_python(pin) else "")


def write_pins(name: str, versions: list[str], marker: str) -> list[str]:
    """Return the lines that pin a package, the newest first. versions: for each of PYTHONS. marker: on each line."""
    lines = []
    for version in reversed(dict.fromkeys(versions)):
        first, last = versions.index(version), len(versions) - 1 - versions[::-1].index(version)
        since = [f'python_version >= "{PYTHONS[first]}"'] if first else []
        until = [f'python_version < "{PYTHONS[last + 1]}"'] if last + 1 < len(PYTHONS) else []
        conditions = " and ".join([*since, *until, *([marker] if marker else [])])
        lines.append(f"{name}=={version}" + (f" ; {conditions}" if conditions else ""))
    return lines


def _read_versions(path: Path) -> list[tuple[str, str]]:
    """Return the name and version of each pin of a file; a package with several versions is there several times."""
    pins = (PIN.match(line) for line in read_requirements(path))
    return [(normalize(pin["name"]), pin["version"]) for pin in pins if pin]


def _read_versions_for(path: Path, python: str) -> dict[str, str]:
    """Return the version of each package that a Python takes from a lock."""
    lines = [line.partition(" --hash")[0] for line in read_requirements(path)]
    return {normalize(line): line.partition("==")[2] for line in select(lines, python)}


def read_all_versions() -> dict[tuple[str, str], str]:
    """Return the versions in all pins and locks, by name of the file and of the package."""
    versions: dict[tuple[str, str], list[str]] = {}
    for path in sorted([*FOLDER.glob("*.txt"), *LOCKS.glob("*.txt")]):
        for name, version in _read_versions(path):
            versions.setdefault((path.stem, name), []).append(version)
    return {key: ", ".join(sorted({*each})) for key, each in versions.items()}


def tabulate_changes(before: dict[tuple[str, str], str], after: dict[tuple[str, str], str]) -> list[list[str]]:
    """Return rows with package, versions before and after, and the files with this change; heading first."""
    files: dict[tuple[str, str, str], list[str]] = {}
    for file, name in sorted(before.keys() | after.keys(), key=lambda key: key[::-1]):
        old, new = before.get((file, name), ""), after.get((file, name), "")
        if old != new:
            files.setdefault((name, old, new), []).append(file)
    return [["package", "before", "after", "environments"], *([*key, ", ".join(names)] for key, names in files.items())]


def move_all(names: list[str]) -> list[str]:
    """Move all pins, and then the locks of environments; return the files and environments that uv cannot resolve.

    No pin moves if there is such a file.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = shutil.copytree(FOLDER, Path(scratch, "envs"))
        paths = list_moved_files(folder)
        if failed := [f"envs/{path.name}" for path in paths if not move_pins(path)]:
            return failed
        for path in paths:
            if (text := path.read_text()) != (FOLDER / path.name).read_text():
                write_text_atomic(FOLDER / path.name, text)
    own = dict(_read_versions(FOLDER / "workflow.txt"))
    required = CLONE / "requirements.txt"
    write_text_atomic(
        required,
        re.sub(r"(?m)^([\w.-]+)==\S+$", lambda pin: f"{pin[1]}=={own[normalize(pin[1])]}", required.read_text()),
    )
    return [name for name in names if not lock(name, newest=True)]


def check_gate() -> list[list[str]]:
    """Have every framework pass the parity gate with the moved packages; return its verdicts, heading first.

    Raises SystemExit if a framework gets none, after Snakemake has printed why.
    """
    gate = [".venv/bin/snakemake", str(VERDICTS), *GATED]
    for command in (["make", ".venv/installed"], gate):
        if subprocess.run(command, cwd=CLONE).returncode:
            sys.exit(f"all pins and locks have moved, but `{' '.join(command)}` failed, as it says above")
    with (CLONE / VERDICTS).open() as file:
        verdicts = {
            (row["framework"], row["status"], row["versions"]): None for row in csv.DictReader(file, delimiter="\t")
        }
    return [["framework", "gate", "versions"], *map(list, verdicts)]


def print_table(rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip())


def main() -> None:
    frameworks = {name for entry in FRAMEWORKS.values() for name in entry.list_environments()}
    names = sorted({*frameworks, *TOOLS, *OTHERS})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=names, metavar="name", help=f"of {', '.join(names)} (default all)")
    parser.add_argument("--update", action="store_true", help="move all versions, and check every framework")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in names:
            parser.error(str(refuse_choice("name", name, "environment", names)))
    before = read_all_versions()
    if arguments.update:
        failed = move_all([name for name in names if name not in list_retired()])
    else:
        failed = [name for name in arguments.names if not lock(name)]
    changes = tabulate_changes(before, read_all_versions())
    print_table(changes)
    if failed:
        sys.exit(f"uv cannot lock {', '.join(failed)}: see its messages above and change envs/<name>.txt")
    if arguments.update:
        verdicts = check_gate()
        # Once more, because what Snakemake printed is long.
        print_table(changes)
        print_table(verdicts)
        if not all(status == "passed" for _, status, _ in verdicts[1:]):
            sys.exit("a framework does not pass the parity gate: results/parity/parity.html says why")


if __name__ == "__main__":
    main()

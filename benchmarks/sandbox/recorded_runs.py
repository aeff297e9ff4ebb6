"""
A small set of real runs of all frameworks, from which tables, figures and the report are made without training.

`keep` makes the set anew from a results folder, and `draw` makes everything from it in a copy of the project.
benchmarks/sandbox/recorded/README.md says what the runs are.
"""

import argparse
import contextlib
import io
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from howmanygpus.files import sha256_of_file
from howmanygpus.site.machine import read_machine
from howmanygpus.study.plan import Plan

SANDBOX = Path(__file__).resolve().parent
ROOT = SANDBOX.parents[1]
RECORDED = SANDBOX / "recorded"
ARCHIVE, CONFIG, MACHINE = (RECORDED / name for name in ("records.tar.xz", "config.yaml", "machine.yaml"))
COPIED = ("Snakefile", "Makefile", "workflow", "config", "profiles", "envs")
KEPT = (
    *(f"runs/{{study}}/**/{name}" for name in ("run.json", "events.jsonl", "telemetry.csv", "predictions.npz")),
    *("attempts/{study}/**/attempt.json", "jobs/*/{study}/**/*.json", "batch_sizes/**/*.json", "probe/*.json"),
    *("parity/*/*.json", "jobs/gate/**/*.json"),
    *(f"prepared/*/*/{name}" for name in ("dataset.json", "train_labels.npy", "test_labels.npy")),
)
"""Files of a results folder that tables and the report read, below `results/`."""
OBSERVED = "observed"
"""Folder of what the gate observed, which is large and in no table."""
MOMENT = 1_000_000_000
"""Time of every file in the archive, in seconds since 1970, so that the archive depends on nothing but its contents."""
ADDRESS = re.compile(r"\b(?!127\.)\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b")
HOSTS = ("hostname", "nodes", "node")
"""Keys of records whose values are names of hosts."""


def list_kept(results: Path, studies: Iterable[str]) -> list[Path]:
    """Return the files to keep. results: the folder `results` of a clone in which the studies were run."""
    patterns = dict.fromkeys(pattern.format(study=study) for study in studies for pattern in KEPT)
    found = {path for pattern in patterns for path in results.glob(pattern) if path.is_file()}
    return sorted(path for path in found if path.parent.name != OBSERVED)


def find_hosts(value: Any) -> Iterator[str]:
    """Yield the names of all hosts in a record."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key in HOSTS and isinstance(each, str):
                yield from each.split()
            else:
                yield from find_hosts(each)
    elif isinstance(value, list):
        for each in value:
            yield from find_hosts(each)


class Scrubber:
    """Takes the names of hosts, their addresses and the places of folders out of records.

    Hosts are named recorded1, recorded2, ... in the order of their names.
    """

    def __init__(self, hosts: Iterable[str], folders: dict[str, str]):
        """folders: what is written instead of the path of each folder."""
        self._folders = folders
        numbered = {host: f"recorded{number}" for number, host in enumerate(sorted(set(hosts)), 1)}
        self._hosts = numbered
        names = "|".join(map(re.escape, sorted(numbered, key=len, reverse=True)))
        self._pattern = re.compile(rf"(?<![\w.])({names})(?!\w)") if numbered else None

    def scrub_text(self, text: str) -> str:
        for folder, word in self._folders.items():
            text = text.replace(folder, word)
        text = ADDRESS.sub("192.0.2.1", text)
        return self._pattern.sub(lambda host: self._hosts[host[0]], text) if self._pattern else text

    def scrub(self, value: Any) -> Any:
        """Return a record without what identifies the machine: its variables are left out, and texts are scrubbed."""
        if isinstance(value, dict):
            return {key: self.scrub(each) for key, each in value.items() if key != "environment"}
        if isinstance(value, list):
            return [self.scrub(each) for each in value]
        return self.scrub_text(value) if isinstance(value, str) else value


def keep(results: Path, archive: Path = ARCHIVE) -> None:
    """Write the archive of the recorded runs anew. The same records give the same bytes."""
    kept = list_kept(results, yaml.safe_load(CONFIG.read_text())["studies"])
    records = {path: json.loads(path.read_text()) for path in kept if path.suffix == ".json"}
    places = {str(results.resolve().parent): ".", str(Path.home()): "~"}
    scrubber = Scrubber((host for record in records.values() for host in find_hosts(record)), places)
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as packed:
        for path in kept:
            name = scrubber.scrub_text(path.relative_to(results).as_posix())
            if path in records:
                content = json.dumps(scrubber.scrub(records[path]), indent=1).encode()
            else:
                content = path.read_bytes()
            entry = tarfile.TarInfo(f"results/{name}")
            entry.size, entry.mtime, entry.mode = len(content), MOMENT, 0o644
            packed.addfile(entry, io.BytesIO(content))
    archive.write_bytes(lzma.compress(raw.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def unpack(folder: Path) -> None:
    """Write the records into `results/` of a folder."""
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(folder, filter="data")


def copy_project(folder: Path) -> None:
    """Bring a copy of the project's code up to date. Its results stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)
    for path in (CONFIG, MACHINE):
        shutil.copy2(path, folder / path.name)
    if not (folder / ".venv").is_symlink():
        (folder / ".venv").symlink_to(sys.prefix)


def renew_records(folder: Path) -> None:
    """Unpack the records into a copy of the project, unless it has them already.

    What was made from the same records stays, so that a second call draws only what an edit changes.
    """
    unpacked, digest = folder / "unpacked.txt", sha256_of_file(ARCHIVE)
    if not unpacked.exists() or unpacked.read_text() != digest:
        shutil.rmtree(folder / "results", ignore_errors=True)
        shutil.rmtree(folder / ".snakemake", ignore_errors=True)
        unpack(folder)
        unpacked.write_text(digest)


def name_verdicts(folder: Path) -> None:
    """Copy the recorded verdicts to the names that the present code expects.

    The name of a verdict has a hash of the code that was judged. Recorded verdicts are about the code of their time.
    """
    with contextlib.chdir(folder):
        plan = Plan(yaml.safe_load(Path(CONFIG.name).read_text()), read_machine(Path(MACHINE.name)))
        for expected in map(Path, plan.needed_verdicts):
            cell = expected.stem.rpartition("-")[0]
            recorded = [path for path in expected.parent.glob(f"{cell}-*.json") if len(path.stem) == len(expected.stem)]
            if recorded and not expected.exists():
                shutil.copy2(min(recorded), expected)


def call_snakemake(folder: Path, *arguments: str) -> None:
    """Build from the runs that exist in a copy of the project. Raises CalledProcessError if that fails."""
    command = [sys.executable, "-m", "snakemake", "available", "--profile", "profiles/local", "--quiet", "rules"]
    command += ["--configfile", CONFIG.name, "--config", f"machine={MACHINE.name}", *arguments]
    cleared = ("PYTHONPATH", "SNAKEMAKE_PROFILE", "HOWMANYGPUS_MACHINE")
    environment = {key: value for key, value in os.environ.items() if key not in cleared}
    subprocess.run(command, cwd=folder, env=environment, check=True)


def draw(folder: Path) -> None:
    """Make all tables, figures and the report of the recorded runs in a folder."""
    copy_project(folder)
    renew_records(folder)
    name_verdicts(folder)
    call_snakemake(folder)
    call_snakemake(folder, "--report", "results/report.html")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    keeping = commands.add_parser("keep", help="write the set of recorded runs anew")
    keeping.add_argument("results", type=Path, help="folder `results` in which the studies of config.yaml were run")
    drawing = commands.add_parser("draw", help="make tables, figures and the report of the recorded runs")
    drawing.add_argument("folder", type=Path, help="folder of a copy of the project, which is made or updated")
    arguments = parser.parse_args()
    if arguments.command == "keep":
        keep(arguments.results)
        print(f"{ARCHIVE}: {ARCHIVE.stat().st_size / 1e6:.2f} MB")
    else:
        draw(arguments.folder)
        results = arguments.folder / "results"
        print(f"{results}/tables/, {results}/figures/ and {results}/report.html are made from the recorded runs.")


if __name__ == "__main__":
    main()

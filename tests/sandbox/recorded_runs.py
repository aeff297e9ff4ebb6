"""
Two small sets of real runs, from which tables, figures and a report are made without training.

`keep` makes the archive of a set anew from a results folder, and `draw` makes everything from both sets, each in a copy
of the project. tests/sandbox/recorded/README.md says what the runs are.
"""

import argparse
import contextlib
import gzip
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
from howmanygpus.report.traces.xspace import BYTES, GPU_PLANE, HOST_PLANE, read_fields, read_plane
from howmanygpus.site.machine import read_machine
from howmanygpus.study.plan import Plan

SANDBOX = Path(__file__).resolve().parent
ROOT = SANDBOX.parents[1]
ONE_MACHINE, CLUSTER = (SANDBOX / "recorded" / name for name in ("one_machine", "cluster"))
"""The folders of the sets."""
SETS = {folder.name: folder for folder in (ONE_MACHINE, CLUSTER)}
ARCHIVE, CONFIG, MACHINE = "records.tar.xz", "config.yaml", "machine.yaml"
"""Files of a set. The copy of the project in which it is drawn has its config and its machine file, too."""
COPIED = ("Snakefile", "Makefile", "workflow", "config", "profiles", "envs")
KEPT = (
    *(f"runs/{{study}}/**/{name}" for name in ("run.json", "events.jsonl", "telemetry.csv", "predictions.npz")),
    *(f"runs/{{study}}/**/trace/{name}" for name in ("steps.json", "trace.json.gz", "trace.xplane.pb.gz")),
    *("attempts/{study}/**/attempt.json", "jobs/*/{study}/**/*.json", "batch_sizes/*.json", "probe/*.json"),
    *("parity/*/*.json", *(f"jobs/{kind}/**/*.json" for kind in ("gate", "probe", "allreduce", "batch_search"))),
    *(f"prepared/*/*/{name}" for name in ("dataset.json", "train_labels.npy", "test_labels.npy")),
)
"""Files of a results folder that tables and the report read, below `results/`."""
OBSERVED = "observed"
"""Folder of what the gate observed, which is large and in no table."""
MOMENT = 1_000_000_000
"""Time of every file in the archive, in seconds since 1970, so that the archive depends on nothing but its contents."""
ADDRESS = re.compile(r"\b(?!127\.)\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b")
HOSTS = ("hostname", "host_name", "nodes", "node")
"""Keys of records whose values are names of hosts."""
SCRUBBED = "recorded"
"""Name of each host in the archive, before its number. The nodes of the recorded cluster already have such names."""
PLANE = 1
"""Number of the field of an XSpace that is a plane."""


def list_kept(results: Path, studies: Iterable[str]) -> list[Path]:
    """Return the files to keep. results: the folder `results` of a clone in which the studies were run."""
    patterns = dict.fromkeys(pattern.format(study=study) for study in studies for pattern in KEPT)
    found = {path for pattern in patterns for path in results.glob(pattern) if path.is_file()}
    return sorted(path for path in found if path.parent.name != OBSERVED)


def find_hosts(value: Any) -> Iterator[str]:
    """Yield the names of all hosts in a record."""
    if isinstance(value, dict):
        for key, each in value.items():
            names = [each] if isinstance(each, str) else each
            if key in HOSTS and isinstance(names, list) and all(isinstance(name, str) for name in names):
                yield from " ".join(names).split()
            else:
                yield from find_hosts(each)
    elif isinstance(value, list):
        for each in value:
            yield from find_hosts(each)


class Scrubber:
    """Takes the names of hosts, their addresses and the places of folders out of records.

    Hosts are named recorded1, recorded2, ... in the order of their names. Those that are named so already keep them.
    """

    def __init__(self, hosts: set[str], folders: dict[str, str]):
        """folders: what is written instead of the path of each folder."""
        self._folders = folders
        scrubbed = {host for host in hosts if host.startswith(SCRUBBED)}
        first = 1 + max((int(number) for host in scrubbed for number in re.findall(r"\d+", host)), default=0)
        numbered = {host: f"{SCRUBBED}{i}" for i, host in enumerate(sorted(hosts - scrubbed), first)}
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


def reduce_xspace(data: bytes) -> bytes:
    """Return a trace of TensorFlow or JAX with only the planes that are read. The others name paths and the host."""
    planes = [value for field, value in read_fields(data) if field == PLANE and isinstance(value, bytes)]
    kept = [plane for plane in planes if (name := read_plane(plane)[0]) == HOST_PLANE or GPU_PLANE.fullmatch(name)]
    return b"".join(bytes([PLANE << 3 | BYTES]) + write_varint(len(plane)) + plane for plane in kept)


def write_varint(value: int) -> bytes:
    return bytes([value & 0x7F | 0x80]) + write_varint(value >> 7) if value > 0x7F else bytes([value])


def read_scrubbed(path: Path, scrubber: Scrubber) -> bytes:
    """Return the content of a file without what identifies the machine."""
    if path.suffix == ".json":
        return json.dumps(scrubber.scrub(json.loads(path.read_text())), indent=1).encode()
    if path.suffix != ".gz":
        return path.read_bytes()
    raw = gzip.decompress(path.read_bytes())
    content = reduce_xspace(raw) if path.name.endswith(".pb.gz") else scrubber.scrub_text(raw.decode()).encode()
    # Stored and not compressed, because the archive then compresses it further.
    return gzip.compress(content, compresslevel=0, mtime=MOMENT)


def keep(results: Path, source: Path, archive: Path) -> None:
    """Write an archive of the runs of a set's studies. The same records give the same bytes.

    results: the folder `results` of a clone in which the studies were run. source: the folder of the set.
    """
    kept = list_kept(results, yaml.safe_load((source / CONFIG).read_text())["studies"])
    records = (json.loads(path.read_text()) for path in kept if path.suffix == ".json")
    places = {str(results.resolve().parent): ".", str(Path.home()): "~"}
    scrubber = Scrubber({host for record in records for host in find_hosts(record)}, places)
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as packed:
        for path in kept:
            content = read_scrubbed(path, scrubber)
            entry = tarfile.TarInfo(f"results/{scrubber.scrub_text(path.relative_to(results).as_posix())}")
            entry.size, entry.mtime, entry.mode = len(content), MOMENT, 0o644
            packed.addfile(entry, io.BytesIO(content))
    archive.write_bytes(lzma.compress(raw.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def unpack(folder: Path, source: Path) -> None:
    """Write the records of a set into `results/` of a folder."""
    with tarfile.open(source / ARCHIVE) as packed:
        packed.extractall(folder, filter="data")


def copy_project(folder: Path, source: Path) -> None:
    """Bring a copy of the project's code up to date, with the config and the machine of a set. Its results stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        original, target = ROOT / name, folder / name
        if original.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(original, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(original, target)
    for name in (CONFIG, MACHINE):
        shutil.copy2(source / name, folder / name)
    if not (folder / ".venv").is_symlink():
        (folder / ".venv").symlink_to(sys.prefix)


def renew_records(folder: Path, source: Path) -> None:
    """Unpack the records of a set into a copy of the project, unless it has them already.

    What was made from the same records stays, so that a second call draws only what an edit changes.
    """
    unpacked, digest = folder / "unpacked.txt", sha256_of_file(source / ARCHIVE)
    if not unpacked.exists() or unpacked.read_text() != digest:
        shutil.rmtree(folder / "results", ignore_errors=True)
        shutil.rmtree(folder / ".snakemake", ignore_errors=True)
        unpack(folder, source)
        unpacked.write_text(digest)


def name_verdicts(folder: Path) -> None:
    """Copy the recorded verdicts to the names that the present code expects.

    The name of a verdict has a hash of the code that was judged. Recorded verdicts are about the code of their time.
    """
    with contextlib.chdir(folder):
        plan = Plan(yaml.safe_load(Path(CONFIG).read_text()), read_machine(Path(MACHINE)))
        for expected in map(Path, plan.needed_verdicts):
            cell = expected.stem.rpartition("-")[0]
            recorded = [path for path in expected.parent.glob(f"{cell}-*.json") if len(path.stem) == len(expected.stem)]
            if recorded and not expected.exists():
                shutil.copy2(min(recorded), expected)


def call_snakemake(folder: Path, *arguments: str) -> None:
    """Build from the runs that exist in a copy of the project. Raises CalledProcessError if that fails."""
    command = [sys.executable, "-m", "snakemake", "available", "--profile", "profiles/local", "--quiet", "rules"]
    command += ["--configfile", CONFIG, "--config", f"machine={MACHINE}", *arguments]
    cleared = ("PYTHONPATH", "SNAKEMAKE_PROFILE", "HOWMANYGPUS_MACHINE")
    environment = {key: value for key, value in os.environ.items() if key not in cleared}
    subprocess.run(command, cwd=folder, env=environment, check=True)


def draw(folder: Path, source: Path) -> None:
    """Make all tables, figures and the report of a set in a folder."""
    copy_project(folder, source)
    renew_records(folder, source)
    name_verdicts(folder)
    call_snakemake(folder)
    call_snakemake(folder, "--report", "results/report.html")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    keeping = commands.add_parser("keep", help="write the archive of a set anew")
    keeping.add_argument("set", choices=SETS)
    keeping.add_argument("results", type=Path, help="folder `results` in which the studies of its config were run")
    drawing = commands.add_parser("draw", help="make tables, figures and the report of each set")
    drawing.add_argument("folder", type=Path, help="folder with a copy of the project for each set, made or updated")
    arguments = parser.parse_args()
    if arguments.command == "keep":
        source = SETS[arguments.set]
        archive = source / ARCHIVE
        keep(arguments.results, source, archive)
        print(f"{archive}: {archive.stat().st_size / 1e6:.2f} MB")
        return
    for name, source in SETS.items():
        draw(arguments.folder / name, source)
        results = arguments.folder / name / "results"
        print(f"{results}/tables/, {results}/figures/ and {results}/report.html are made from the recorded runs.")


if __name__ == "__main__":
    main()

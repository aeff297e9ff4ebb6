"""A copy of the project in which tests may edit, run and break things, with fake backends that need no framework."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from pathlib import Path

import psutil
import yaml

from forking import STARTED_BY_USERS, listen_to_ctrl_c, run_snakemake
from hanging import HANG_S
from howmanygpus.clone import LIBRARY, SCRIPTS
from howmanygpus.site.environments.pins import hash_requirements
from howmanygpus.study.invalidation.pins import environment_record
from howmanygpus.study.invalidation.syntax import KNOWN, _analyse

SANDBOX = Path(__file__).resolve().parent
ROOT = SANDBOX.parents[1]
FAKES = ROOT / "tests" / "fakes"
ONLY_SGD = "\ndel OPTIMIZERS[OWN]\n"
"""Code that, appended to a copy's howmanygpus/gate/task.py, halves the duration of the gate."""
RUNS, ROWS, TABLES = ("--until", "train"), ("--until", "make_tables"), ("--until", "merge_tables")
"""Tests stop Snakemake at the last rule they check, because the rules after the fake runs take longer than the runs."""
LISTED = ("--printshellcmds",)
"""Option with which a dry run lists its jobs."""
BLANK = """
from howmanygpus.base.requests import read_request

for paths in vars(read_request().output).values():
    for path in paths:
        path.write_text("blank")
"""
"""A replacement of workflow/scripts/draw_figures.py that draws nothing."""
ODD_FOLDER = "it's müller's copy"
"""A folder's name that breaks commands in which a path is not quoted."""
PIPE_BYTES = 2**20
"""Capacity of the pipe to which Snakemake prints: the most that users other than root may ask for (pipe(7)).

Tests read the pipe when the call has ended. The default of 64 KiB would block a call that prints more before.
"""
COPIED = ("Snakefile", "Makefile", "workflow", "config", "profiles", "envs")

REGISTRY_ENTRY = """
FRAMEWORKS["{name}"] = Framework(
    family="{family}",
    strategy="{strategy}",
    launcher="{launcher}",
    environments={{"cpu": "fake-cpu"}},
    precisions={{"cpu": ("fp32",)}},
)
"""


def run_snakefile(
    folder: Path, text: str, *arguments: str, check: bool = False, timeout_s: float = HANG_S
) -> subprocess.CompletedProcess:
    """Run another workflow, which can import the project's library, in a process of its own."""
    (folder / "Snakefile").write_text(text)
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    options = {"capture_output": True, "text": True, "timeout": timeout_s, "check": check}
    return subprocess.run(command, cwd=folder, env=environment, preexec_fn=listen_to_ctrl_c, **options)


@cache
def analyse_code() -> str:
    """Return the cache of analysed files. Without it, the first call in each copy would analyse all of them.

    The cache of the clone itself is not used, because its analyses may be by older code.
    """
    contents = {path: path.read_bytes() for path in (*LIBRARY.rglob("*.py"), *SCRIPTS.glob("*.py"))}
    analysed = {sha256(content).hexdigest(): asdict(_analyse(content, path)) for path, content in contents.items()}
    return json.dumps(analysed)


def study(**changes) -> dict:
    """Return a small study of the fake backends with the given changes."""
    return {
        "dataset": "digits",
        "model": "small_cnn",
        "frameworks": ["sleeping", "dozing"],
        "num_gpus": [1, 2],
        "per_device_batch_size": [64],
        "steps": 24,
        "warmup_steps": 2,
        "parity": "off",
        "quality": {"thresholds": [0.05, 0.99]},
        **changes,
    }


class Project:
    """A copy of the project in `folder`, run with this Python's Snakemake."""

    profile = "profiles/local"

    def __init__(self, folder: Path, fakes=("sleeping", "dozing")):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.folder / name)
            else:
                shutil.copy2(source, self.folder / name)
        (self.folder / ".venv").symlink_to(sys.prefix)
        (self.folder / KNOWN.parent).mkdir()
        (self.folder / KNOWN).write_text(analyse_code())
        for name in fakes:
            self.add_fake(name)

    def copy_to(self, folder: Path) -> "Project":
        """Copy the project with its results, preserving their times, to a folder that does not exist yet."""
        copied = Project.__new__(Project)
        copied.folder = folder
        shutil.copytree(self.folder, folder, symlinks=True, copy_function=shutil.copy2)
        return copied

    def add_fake(self, name: str, launcher: str = "plain", family: str = "fake", strategy: str | None = None) -> None:
        """Add a framework that sleeps. family, strategy: its file, which may be that of a real framework."""
        library, strategy = self.folder / "workflow" / "lib" / "howmanygpus", strategy or name
        folder = library / "measure" / "frameworks" / family
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
        shutil.copy2(SANDBOX / "fakes" / "sleeping.py", folder / f"{strategy}.py")
        if not (numbers := library / "measure" / "frameworks" / family / "number_formats.py").exists():
            shutil.copy2(SANDBOX / "fakes" / "numbers.py", numbers)
        for declared in (library / "measure" / "models" / "layers").glob("*.py"):
            (folder / "layers").mkdir(exist_ok=True)
            (folder / "layers" / declared.name).touch()
        with open(library / "registry.py", "a") as file:
            file.write(REGISTRY_ENTRY.format(name=name, launcher=launcher, family=family, strategy=strategy))
        (self.folder / "envs" / "fake-cpu.txt").write_text("-r measured.txt\n")
        self.record_fake_environment()

    def record_fake_environment(self) -> None:
        """Record this Python as the fake environment, as its rule would after building one."""
        pins = hash_requirements([self.folder / "envs" / f"{name}.txt" for name in ("fake-cpu", "measured")])[:8]
        record = self.folder / "results" / "environments" / f"fake-cpu-{pins}.json"
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps({"name": "fake-cpu", "python": sys.executable}))

    def take_environment(self, record: Path) -> None:
        """Use a record that sandbox/environments.py made instead of one that the workflow's jobs would build."""
        taken = self.folder / environment_record(record.stem)
        taken.parent.mkdir(parents=True, exist_ok=True)
        for suffix in (".json", ".horovod.json"):
            if record.with_suffix(suffix).exists():
                shutil.copy2(record.with_suffix(suffix), taken.with_suffix(suffix))

    def take_prepared(self, other: "Project") -> None:
        """Use the data and weights of another project instead of those that jobs would make."""
        for name in ("prepared", "weights"):
            shutil.copytree(other.folder / "results" / name, self.folder / "results" / name)

    def write_config(self, path: str = "config/config.yaml", **studies) -> None:
        (self.folder / path).write_text(yaml.safe_dump({"studies": studies}))

    def behave(self, **behaviours) -> None:
        """Set the fakes' behaviours. The keys are parts of run paths, with `__` for `/`."""
        named = {part.replace("__", "/"): behaviour for part, behaviour in behaviours.items()}
        (self.folder / "fake_behaviour.json").write_text(json.dumps(named))

    def edit(self, path: str, addition: str) -> None:
        with open(self.folder / path, "a") as file:
            file.write(addition)

    def leave_figures_blank(self) -> None:
        """Leave figures empty, for tests that do not check them: drawing one takes longer than training a fake."""
        (self.folder / "workflow" / "scripts" / "draw_figures.py").write_text(BLANK)

    def replace(self, path: str, **changes) -> None:
        """Give other values to constants of a module. Each constant has a line of its own."""
        text = self.read(path)
        for name, value in changes.items():
            text, count = re.subn(rf"^{name} = .*$", f"{name} = {value!r}", text, flags=re.MULTILINE)
            assert count == 1, f"{name} stands {count} times in {path}"
        (self.folder / path).write_text(text)

    def environment(self) -> dict[str, str]:
        cleared = ("PYTHONPATH", "SNAKEMAKE_PROFILE", "HOWMANYGPUS_MACHINE")
        return {key: value for key, value in os.environ.items() if key not in cleared}

    def start(self, *arguments: str) -> subprocess.Popen:
        """Start Snakemake as a user would, in a process of its own."""
        return subprocess.Popen(
            [*STARTED_BY_USERS, "--profile", self.profile, *arguments],
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=listen_to_ctrl_c,
            pipesize=PIPE_BYTES,
        )

    def processes(self) -> list[psutil.Process]:
        """Return the living processes whose working directory is this copy."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.cwd() == str(self.folder) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def kill_processes(self) -> None:
        """Kill what still runs in this copy."""
        for process in self.processes():
            # It may end by itself at this moment.
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def snakemake(self, *arguments: str, expect: int = 0, timeout_s: float = HANG_S) -> str:
        """Run Snakemake to the end, assert its exit status, and return what it printed."""
        output = self.folder / "printed.txt"
        options = ["--profile", self.profile, *arguments]
        status = run_snakemake(options, self.folder, self.environment(), output, timeout_s)
        printed = output.read_text()
        assert status == expect, printed[-4000:]
        return printed

    def read_last_log(self) -> str:
        """Return Snakemake's own log of the last call, which has every job that it began."""
        return max((self.folder / ".snakemake" / "log").glob("*.log")).read_text()

    def planned(self, *arguments: str) -> list[str]:
        """Return the jobs that a call would run now, sorted: names of rules or, for runs, their paths."""
        output = self.snakemake("--dry-run", *LISTED, *arguments)
        jobs = []
        for block in re.split(r"\n(?=(?:local)?rule \w+:)", output)[1:]:
            rule = re.match(r"(?:local)?rule (\w+):", block)[1]
            run = re.search(r"output: results/runs/(\S+)/run\.json", block)
            study_name = re.search(r"wildcards: study=(\w+)", block)
            if run:
                jobs.append(run[1])
            elif study_name and not run:
                jobs.append(f"{rule} {study_name[1]}")
            else:
                jobs.append(rule)
        return sorted(jobs)

    def planned_runs(self, *arguments: str) -> list[str]:
        return [job for job in self.planned(*arguments) if "/" in job]

    def read_records(self) -> dict[str, dict]:
        """Return the records of all finished runs, by their path under results/runs/."""
        runs = self.folder / "results" / "runs"
        return {str(path.parent.relative_to(runs)): json.loads(path.read_text()) for path in runs.rglob("run.json")}

    def read_rows(self) -> list[dict[str, str]]:
        """Return the rows of the studies' tables of runs."""
        paths = sorted((self.folder / "results" / "tables").glob("*/runs.tsv"))
        return [row for path in paths for row in csv.DictReader(path.read_text().splitlines(), delimiter="\t")]

    def read(self, path: str) -> str:
        return (self.folder / path).read_text()

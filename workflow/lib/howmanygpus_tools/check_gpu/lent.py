"""
Check a GPU that is lent for minutes, on a machine that may have no network: what is worth most is done first.

It notes facts about the machine and installs the workflow from a folder of wheels. `make check-gpu` gets the rest of
the time. Everything that exists is copied to a folder after each part, and when the program is told to end. The same
call continues: what has an outcome is not repeated.

The site's Python starts it. It uses only the standard library, because nothing is installed yet.
"""

import argparse
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import traceback
from pathlib import Path
from typing import NoReturn

from howmanygpus_tools.check_gpu import NETWORKS, STEPS
from howmanygpus_tools.check_gpu.expert import FIRST_WAYS, WAYS
from howmanygpus_tools.sessions import explain_end, run_until

FOLDER, PAGE = Path("results/check_gpu"), Path("results/check_gpu.md")
LOG, FACTS = FOLDER / "log.txt", FOLDER / "machine.txt"
PYTHON, SNAKEMAKE = ".venv/bin/python", ".venv/bin/snakemake"
ARCHIVED = [Path("results") / name for name in ("runs", "attempts", "logs", "check_gpu", "parity", "environments")]
NOT_ARCHIVED = (".npy", ".npz", ".safetensors")
"""Arrays and weights, which are large."""
RESERVED_S = 45.0
"""Seconds at the end in which the check is stopped (howmanygpus_tools/sessions.py) and everything is saved."""
ENDING_S = 35.0
"""Seconds in which the check stops what it does and writes its page."""
MIN_TIME_S = 10.0
"""A part is not begun with less time, in seconds."""
INSTALL_S, FACT_S = 120.0, 20.0
"""Limits in seconds of the installation, and of each program that is asked about the machine."""
LAST_LINES = 40
"""Lines of the log that are printed at the end."""
PACKAGES = "from importlib.metadata import distributions as d; print(*sorted(f'{e.name}=={e.version}' for e in d()))"
VARIABLES = "echo CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES LD_LIBRARY_PATH=$LD_LIBRARY_PATH XLA_FLAGS=$XLA_FLAGS"
ASKED = (
    *(["date"], ["nvidia-smi"], ["nvidia-smi", "topo", "-m"], ["uname", "-a"], ["ldd", "--version"], ["nproc"]),
    *(["free", "-g"], ["df", "-h", ".", "/tmp"], ["which", "make", "gcc", "git", "flock"], ["sh", "-c", VARIABLES]),
    [sys.executable, "-c", "import os, sysconfig; os.system('ls ' + sysconfig.get_path('include') + '/Python.h')"],
)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def archive(path: Path) -> None:
    """Write the records that exist, while processes may still write them, to an archive."""
    with tarfile.open(path, "w:gz") as tar:
        for file in sorted(file for folder in ARCHIVED for file in folder.rglob("*")):
            try:
                if file.suffix in NOT_ARCHIVED or not file.is_file():
                    continue
                content, member = file.read_bytes(), tar.gettarinfo(file)
            except FileNotFoundError:
                continue
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def save(to: Path) -> None:
    """Copy what exists to a folder. A file that is there is replaced as a whole."""
    to.mkdir(parents=True, exist_ok=True)
    for path in (*FOLDER.glob("*"), PAGE, Path("results/parity/parity.html")):
        if path.is_file():
            shutil.copy(path, to)
    partial = to / ".records.tgz"
    archive(partial)
    partial.replace(to / "records.tgz")


class Lent:
    """The parts of one call."""

    def __init__(self, arguments: argparse.Namespace):
        self.given, self.started = arguments, time.monotonic()
        self.wheels, self.site = arguments.wheels.resolve(), arguments.site
        self.failed: list[str] = []
        FOLDER.mkdir(parents=True, exist_ok=True)
        self.environment = os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": "workflow/lib"}
        if self.wheels.is_dir():
            self.environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": self.wheels.as_uri()}

    def left_s(self) -> float:
        """Return the seconds that are left for parts."""
        return self.given.seconds - RESERVED_S - (time.monotonic() - self.started)

    def say(self, text: str) -> None:
        line = f"[{time.monotonic() - self.started:.0f} s] {text}"
        print(line, flush=True)
        with open(LOG, "a") as log:
            log.write(f"{line}\n")

    def do(self, name: str, command: list[str], most_s: float, **variables: str) -> bool:
        """Run a part until its limit, and return whether it ended well; it prints to the log."""
        if self.left_s() < MIN_TIME_S:
            self.say(f"{name}: no time is left")
            self.failed.append(name)
            return False
        self.say(name)
        with open(LOG, "ab") as log:
            options = {"env": self.environment | variables, "stdout": log, "stderr": log}
            status = run_until(time.monotonic() + most_s, command, **options)
        if status:
            self.say(f"{explain_end(name, status)}, see {LOG}")
        elif status is None:
            self.say(f"{name} was stopped at its limit")
        if status != 0:
            self.failed.append(name)
        return status == 0

    def note_facts(self) -> None:
        """Write what the machine's own programs say about it."""
        with open(FACTS, "w") as facts:
            for command in (*ASKED, *([python, "-c", PACKAGES] for python in self.site)):
                facts.write(f"$ {' '.join(command)}\n")
                facts.flush()
                try:
                    subprocess.run(command, timeout=FACT_S, stdout=facts, stderr=facts)
                except (OSError, subprocess.TimeoutExpired) as error:
                    facts.write(f"{error}\n")
        save(self.given.save_to)

    def install(self) -> bool:
        """Install the workflow from the wheels, unless it is there."""
        if Path(SNAKEMAKE).exists():
            return True
        pip = ":".join(map(str, self.wheels.glob("pip-*.whl")))
        command = [sys.executable, "-m", "howmanygpus_tools.wheelhouse.install", "--wheels", str(self.wheels)]
        command += ["--link", ".venv"]
        return self.do("install", command, min(INSTALL_S, self.left_s()), PYTHONPATH=f"workflow/lib:{pip}")

    def check(self) -> None:
        """Call what `make check-gpu` calls, which ends in time by itself."""
        given, left_s = self.given, self.left_s()
        command = [PYTHON, "-m", "howmanygpus_tools.check_gpu", "--site", *self.site, "--device", given.device]
        command += ["--wheels", *([str(self.wheels)] if self.wheels.is_dir() else [])]
        command += ["--minutes", f"{max(left_s, 1.0) / 60:.2f}", "--save-to", str(given.save_to)]
        steps = [step for step in STEPS if step in given.models or step not in NETWORKS]
        self.do("check-gpu", [*command, "--ways", *given.ways, "--steps", *steps], left_s + ENDING_S)

    def run(self) -> None:
        """Do the parts in order of worth."""
        self.note_facts()
        if self.install():
            self.check()

    def end(self) -> NoReturn:
        """Save everything, print the end of the log, and exit with 0 if each part ended well."""
        self.say(f"not complete: {', '.join(self.failed)}" if self.failed else "complete")
        save(self.given.save_to)
        print(*LOG.read_text(errors="replace").splitlines()[-LAST_LINES:], sep="\n", flush=True)
        sys.exit(bool(self.failed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, required=True, help="time until this program ends")
    parser.add_argument("--save-to", type=Path, required=True, help="folder for everything that is to be kept")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu rehearses with small sizes")
    parser.add_argument("--wheels", type=Path, default=Path("wheels"), help="folder of `make wheelhouse`")
    parser.add_argument("--site", nargs="+", default=[sys.executable], help="Pythons that have frameworks")
    parser.add_argument("--models", nargs="*", choices=NETWORKS, default=NETWORKS, help="networks to train first")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=FIRST_WAYS, help="the expert's loops, in this order")
    lent = Lent(parser.parse_args())

    def interrupt(*_) -> NoReturn:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        lent.failed.append("all that was not done when this program was told to end")
        save(lent.given.save_to)  # at once, because stopping a part takes time
        raise KeyboardInterrupt

    for number in SIGNALS:
        signal.signal(number, interrupt)
    try:
        lent.run()
    except KeyboardInterrupt:
        pass  # it is noted and saved already
    except Exception as error:
        lent.say("".join(traceback.format_exception(error)))
        lent.failed.append(f"the parts after {type(error).__name__}")
    lent.end()

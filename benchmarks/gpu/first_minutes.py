"""
Spend the first minutes on a machine with a GPU, which may have no network: what is worth most is done first.

    python3 benchmarks/gpu/first_minutes.py --seconds 545 --save-to FOLDER

It notes facts about the machine, installs the workflow from a folder of wheels, looks for the site's frameworks, and
trains each network in an expert's loops (expert.py) and in the workflow (first_minutes.yaml). `make check-gpu` gets the
rest of the time. Each part has a limit of its own. After each part, and when the program is told to end, everything
that exists is copied to the folder. The same call continues: runs that have an outcome are not repeated.

The site's Python starts it. It uses only the standard library, because nothing is installed yet.
"""

import argparse
import io
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "workflow" / "lib")]

from expert import WAYS  # noqa: E402

from howmanygpus_tools.sessions import explain_end, run_until  # noqa: E402

FOLDER = Path("results/first_minutes")
CONFIG, OWN_CONFIG = Path("benchmarks/gpu/first_minutes.yaml"), FOLDER / "config.json"
LOG, FACTS, EXPERT, ABOUT = (FOLDER / name for name in ("log.txt", "machine.txt", "expert.jsonl", "about.json"))
MACHINE, PAGE = Path("results/check_gpu/machine.yaml"), Path("results/check_gpu.md")
PYTHON, SNAKEMAKE = ".venv/bin/python", ".venv/bin/snakemake"
MODELS, FIRST_WAYS = ("resnet50", "resnet44"), ("nhwc", "compile", "jax", "nchw")
SAVED = (LOG, FACTS, EXPERT, ABOUT, OWN_CONFIG, PAGE, Path("results/parity/parity.html"))
ARCHIVED = [Path("results") / name for name in ("runs", "attempts", "logs", "check_gpu", "parity", "environments")]
NOT_ARCHIVED = (".npy", ".npz", ".safetensors")
"""Arrays and weights, which are large."""
RESERVED_S = 45.0
"""Seconds at the end in which the last part is stopped (howmanygpus_tools/sessions.py) and everything is saved."""
ENDING_S = 35.0
"""Seconds in which check-gpu stops what it does and writes its page."""
MIN_TIME_S = 10.0
"""A part is not begun with less time, in seconds."""
INSTALL_S, SITE_S, EXPERT_S, STUDY_S, SUMMARY_S, FACT_S = 120.0, 120.0, 75.0, 240.0, 30.0, 20.0
"""Limits of the parts in seconds; that of an expert's loops is for each way."""
PACKAGES = "from importlib.metadata import distributions as d; print(*sorted(f'{e.name}=={e.version}' for e in d()))"
VARIABLES = "echo CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES LD_LIBRARY_PATH=$LD_LIBRARY_PATH XLA_FLAGS=$XLA_FLAGS"
ASKED = (
    *(["date"], ["nvidia-smi"], ["nvidia-smi", "topo", "-m"], ["uname", "-a"], ["ldd", "--version"], ["nproc"]),
    *(["free", "-g"], ["df", "-h", ".", "/tmp"], ["which", "make", "gcc", "git", "flock"], ["sh", "-c", VARIABLES]),
    [sys.executable, "-c", "import os, sysconfig; os.system('ls ' + sysconfig.get_path('include') + '/Python.h')"],
)
STEPS = {"cuda": 60, "cpu": 2}
"""Measured steps of an expert's loop."""
REHEARSAL = {
    "datasets": {"image_shape": [32, 32, 3], "num_classes": 10, "num_train": 64, "num_test": 16},
    "studies": {"devices": ["cpu"], "per_device_batch_size": [2], "loader_workers": 1}
    | {"steps": 6, "warmup_steps": 2, "window_steps": 2},
}
"""Options of every data set and keys of every study on a machine without a GPU."""
READ_YAML = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def find_commit(wheels: Path) -> str:
    """Return the commit of this tree; without `.git`, what was noted beside the wheels. Empty if nobody knows."""
    if Path(".git").exists() and shutil.which("git"):
        command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    noted = wheels / "commit"
    return noted.read_text().strip() if noted.exists() else ""


def read_yaml(path: Path) -> dict:
    """Read a file by the workflow's Python; that of the site may not have YAML."""
    command = [PYTHON, "-c", READ_YAML, str(path)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def make_config(device: str) -> dict:
    """Return the config of the workflow's runs, in small sizes on a CPU."""
    config = read_yaml(CONFIG)
    if device == "cpu":
        for dataset in config["datasets"].values():
            dataset["options"] |= REHEARSAL["datasets"]
        for study in config["studies"].values():
            study |= REHEARSAL["studies"]
    return config


def resolve_python(framework: str, device: str) -> str | None:
    """Return the Python in which the site's framework was found, or None. framework: `pytorch` or `jax`."""
    environments = read_yaml(MACHINE)["environments"] if MACHINE.exists() else {}
    for name, environment in environments.items():
        if name.startswith(f"{framework}-") and name.endswith("-cpu") == (device == "cpu"):
            return environment["python"]
    return None


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


class FirstMinutes:
    """The parts of one call."""

    def __init__(self, arguments: argparse.Namespace):
        self.given, self.started = arguments, time.monotonic()
        self.wheels, self.site = arguments.wheels.resolve(), arguments.site
        self.failed: list[str] = []
        for folder in (FOLDER, arguments.save_to):
            folder.mkdir(parents=True, exist_ok=True)
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

    def save(self) -> None:
        """Copy what exists to the folder. A file that is there is replaced as a whole."""
        for path in SAVED:
            if path.exists():
                shutil.copy(path, self.given.save_to)
        partial = self.given.save_to / ".records.tgz"
        archive(partial)
        partial.replace(self.given.save_to / "records.tgz")

    def do(
        self, name: str, command: list[str], most_s: float, ending_s: float = 0, output: Path = LOG, **variables: str
    ) -> bool:
        """Run a part, and return whether it ended well. output: what it prints; its errors are in the log.

        most_s, ending_s: its limit, and the time beyond it in which it ends by itself. variables: of the environment;
        empty ones are left out.
        """
        if self.left_s() < MIN_TIME_S:
            self.say(f"{name}: no time is left")
            self.failed.append(name)
            return False
        self.say(name)
        environment = {key: value for key, value in (self.environment | variables).items() if value}
        deadline = time.monotonic() + min(most_s, self.left_s()) + ending_s
        with open(output, "ab") as printed, open(LOG, "ab") as log:
            status = run_until(deadline, command, env=environment, stdout=printed, stderr=log)
        if status:
            self.say(f"{explain_end(name, status)}, see {LOG}")
        elif status is None:
            self.say(f"{name} was stopped at its limit")
        if status != 0:
            self.failed.append(name)
        self.save()
        return status == 0

    def note_facts(self) -> None:
        """Write what the machine's own programs say about it."""
        about = {"commit": find_commit(self.wheels), "device": self.given.device}
        ABOUT.write_text(json.dumps(about | {"started_at": datetime.now(UTC).isoformat(timespec="seconds")}))
        with open(FACTS, "w") as facts:
            for command in (*ASKED, *([python, "-c", PACKAGES] for python in self.site)):
                facts.write(f"$ {' '.join(command)}\n")
                try:
                    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
                    facts.write(subprocess.run(command, timeout=FACT_S, **options).stdout)
                except (OSError, subprocess.TimeoutExpired) as error:
                    facts.write(f"{error}\n")
        self.save()

    def install(self) -> bool:
        """Install the workflow from the wheels, unless it is there."""
        if Path(SNAKEMAKE).exists():
            return True
        pip = ":".join(map(str, self.wheels.glob("pip-*.whl")))
        command = [sys.executable, "-m", "howmanygpus_tools.wheelhouse.install", "--wheels", str(self.wheels)]
        return self.do("install", [*command, "--link", ".venv"], INSTALL_S, PYTHONPATH=f"workflow/lib:{pip}")

    def check_gpu(self, name: str, most_s: float, *options: str) -> bool:
        """Call what `make check-gpu` calls, which ends in time by itself."""
        command = [PYTHON, "-m", "howmanygpus_tools.check_gpu", "--site", *self.site, "--device", self.given.device]
        command += ["--minutes", f"{max(min(most_s, self.left_s()), 1.0) / 60:.2f}"]
        command += ["--wheels", *([str(self.wheels)] if self.wheels.is_dir() else []), *options]
        return self.do(name, command, most_s, ENDING_S)

    def train_as_expert(self, model: str) -> None:
        device = self.given.device
        for framework, group in itertools.groupby(self.given.ways, key=lambda way: WAYS[way][0]):
            ways, python = list(group), resolve_python(framework, device)
            if python is None:
                self.say(f"expert: no Python of {', '.join(self.site)} has {framework}")
                continue
            command = [python, "-W", "ignore", "benchmarks/gpu/expert.py", "--config", str(OWN_CONFIG)]
            command += ["--study", f"first_{model}", "--steps", str(STEPS[device]), *ways]
            self.do(f"expert: {model}, {' '.join(ways)}", command, EXPERT_S * len(ways), output=EXPERT)

    def run_study(self, model: str) -> None:
        command = [SNAKEMAKE, f"first_{model}", "--until", "train", "--profile", "profiles/local"]
        self.do(f"workflow: {model}", [*command, "--configfile", str(OWN_CONFIG)], STUDY_S, PYTHONPATH="")

    def run(self) -> None:
        """Do the parts in order of worth."""
        self.note_facts()
        if not self.install():
            return
        self.check_gpu("site", SITE_S, "--steps", "site")
        OWN_CONFIG.write_text(json.dumps(make_config(self.given.device), indent=1))
        for model in self.given.models:
            self.train_as_expert(model)
            self.run_study(model)
        self.check_gpu("check-gpu", self.left_s())

    def end(self) -> NoReturn:
        """Save everything, with a summary, and exit with 0 if each part ended well."""
        self.say(f"not complete: {', '.join(self.failed)}" if self.failed else "complete")
        self.save()
        if Path(PYTHON).exists():
            run_until(time.monotonic() + SUMMARY_S, [PYTHON, str(HERE / "summarize.py"), str(self.given.save_to)])
        sys.exit(bool(self.failed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, required=True, help="time until this program ends")
    parser.add_argument("--save-to", type=Path, required=True, help="folder for everything that is to be kept")
    parser.add_argument("--device", choices=STEPS, default="cuda", help="cpu rehearses with small sizes")
    parser.add_argument("--wheels", type=Path, default=Path("wheels"), help="folder of `make wheelhouse`")
    parser.add_argument("--site", nargs="+", default=[sys.executable], help="Pythons that have frameworks")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=MODELS, help="networks to train, in this order")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=FIRST_WAYS, help="the expert's loops, in this order")
    minutes = FirstMinutes(parser.parse_args())

    def interrupt(*_) -> NoReturn:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        minutes.failed.append("all that was not done when this program was told to end")
        minutes.save()  # at once, because stopping a part takes time
        raise KeyboardInterrupt

    for number in SIGNALS:
        signal.signal(number, interrupt)
    try:
        minutes.run()
    except KeyboardInterrupt:
        pass  # it is noted and saved already
    except Exception as error:
        minutes.say("".join(traceback.format_exception(error)))
        minutes.failed.append(f"the parts after {type(error).__name__}")
    minutes.end()


if __name__ == "__main__":
    main()

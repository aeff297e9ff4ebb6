"""
Check this machine's GPU in every framework that a site's Pythons have, and write the results to a page.

It looks for frameworks, writes a machine file and a config for those that it finds, and trains two networks in an
expert's loops and in the workflow. It calls Snakemake for the parity gate and the rates. Then it trains with each
framework's wait turned off in every other window, which must change no rate, and calls Snakemake for batch sizes that
double until the memory is full. The same call continues an earlier one. Ctrl-C and SIGTERM end a call like the time
limit, with a page of what there is.
"""

import argparse
import itertools
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import psutil
import yaml
from snakemake.utils import update_config

from howmanygpus.base.environment import build_surroundings
from howmanygpus.config.errors import ConfigError, refuse, refuse_choice
from howmanygpus.files import read_each, write_json_atomic, write_text_atomic
from howmanygpus.gate.variants import describe_variant
from howmanygpus.measure.host.devices import describe_host
from howmanygpus.measure.host.gpus import GIB, list_gpu_uuids, read_compute_capability, read_smallest_memory_gib
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.environments.find import resolve_python
from howmanygpus.site.jobs.completing import complete_attempts
from howmanygpus.site.jobs.invocations import list_living_calls
from howmanygpus.site.machine import read_machine
from howmanygpus.study.invalidation.pins import use_existing
from howmanygpus.study.plan import Plan
from howmanygpus_tools.check_gpu import NETWORKS, STEPS, findings, lent
from howmanygpus_tools.check_gpu.expert import FIRST_WAYS, WAYS
from howmanygpus_tools.check_gpu.findings import describe_wait
from howmanygpus_tools.check_gpu.lent import FOLDER, PAGE, SNAKEMAKE
from howmanygpus_tools.check_gpu.overlay import build_overlay, detect_frameworks, share_site_packages
from howmanygpus_tools.check_gpu.page import render_page
from howmanygpus_tools.check_gpu.steps import (
    BATCHES,
    BESIDE_EXPERT,
    EXPERT_STEPS,
    RATES,
    REFERENCE,
    add_size,
    describe_changes,
    describe_machine,
    describe_task,
    list_environments,
    list_wait_runs,
)
from howmanygpus_tools.check_gpu.waits import RunWithoutWait
from howmanygpus_tools.sessions import explain_end, run_until
from howmanygpus_tools.wheelhouse.wheelhouse import WheelhouseError

CONFIG = Path("config/check_gpu.yaml")
MACHINE, CHANGES, LOOPS = (FOLDER / name for name in ("machine.yaml", "config.yaml", "expert.jsonl"))
OPTIONS = ("--profile", "profiles/local", "--configfile", str(CONFIG), str(CHANGES))
ASKED_OF_SNAKEMAKE = {
    "gate": ("results/parity/parity.html", "write_parity_page"),
    "rates": (RATES, "train"),
    "batches": (BATCHES, "train"),
}
"""The target of a step, and the rule at which Snakemake ends."""
NOT_CHECKED = "not_checked"
LOCKS = Path(".snakemake/locks")
DEVICES = ("cuda", "cpu")
NUMBER = re.compile(r"\d+(\.\d+)?")
ABSENT = "ModuleNotFoundError"
"""Beginning of the reason why a Python does not have a framework. Any other reason is a failure of the check."""
EXPERT_S, NETWORK_S = 75.0, 240.0
"""Limits in seconds of an expert's loop, and of the workflow's runs of its network."""
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")


class StoppedError(Exception):
    """The check ends before its last step. The text says why."""


def check_options(arguments: argparse.Namespace) -> None:
    """Raise ConfigError, with the name of the variable of `make`, for a value that cannot be used."""
    device, minutes, wheels = arguments.device, arguments.minutes, arguments.wheels
    if device not in DEVICES:
        raise refuse_choice("DEVICE", device, "device of this check", DEVICES)
    known = [name for names in list_environments(device).values() for name in names]
    for name in arguments.frameworks:
        if name not in known:
            raise refuse_choice("FRAMEWORKS", name, f"framework for {device}", known)
    for way in arguments.ways:
        if way not in WAYS:
            raise refuse_choice("WAYS", way, "way of the expert", WAYS)
    for step in arguments.steps:
        if step not in STEPS:
            raise refuse_choice("STEPS", step, "step of this check", STEPS)
    if not NUMBER.fullmatch(minutes) or not float(minutes):
        raise refuse("MINUTES", minutes, "is no time", "write a number of minutes above 0, such as 120")
    for python in arguments.site:
        if shutil.which(python) is None:
            raise refuse("SITE", python, "is no program here", "name the Pythons that have your frameworks")
    if wheels and not wheels.is_dir():
        raise refuse("WHEELS", str(wheels), "is no folder here", "`make wheelhouse` fills one")


def detect_site(pythons: list[str], device: str, wheels: Path | None, named: list[str]) -> list[dict]:
    """Write the machine file, and return what was found: environment, version, python and reason of each.

    named: the only frameworks to look for, each of which must be found; all if it is empty. Raises SystemExit if one is
    missing, or if nothing can be checked.
    """
    known = list_environments(device)
    environments = sorted(name for name, frameworks in known.items() if not named or {*named} & {*frameworks})
    print(f"Looking for {', '.join(environments)} in {', '.join(pythons)}", flush=True)
    found = detect_frameworks(environments, pythons, on_gpu=device == "cuda")
    if REFERENCE not in environments:
        found += detect_frameworks([REFERENCE], pythons, on_gpu=False)
    answers = {answer.environment: answer for answer in found}
    versions = {name: answer for name, answer in answers.items() if answer.version}
    if REFERENCE not in versions:
        sys.exit(
            f"SITE: no Python of {', '.join(pythons)} has PyTorch, with which the gate's reference is computed "
            f"({answers[REFERENCE].reason}); name one that has"
        )
    reasons = "; ".join(f"{name}: {answers[name].reason}" for name in environments if name not in versions)
    if not set(versions) & set(environments):
        sys.exit(f"SITE: no framework of {', '.join(pythons)} can use {device}: {reasons}")
    if named and reasons:
        sys.exit(f"FRAMEWORKS: no Python of {', '.join(pythons)} has all of {', '.join(named)}: {reasons}")
    overlays = {python: build_overlay(python, wheels) for python in {each.python for each in versions.values()}}
    share_site_packages(list(overlays.values()), wheels)
    machine = describe_machine({name: overlays[answer.python] for name, answer in versions.items()})
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_text_atomic(MACHINE, yaml.safe_dump(machine))
    return [vars(answer) for answer in found]


def read_plan(changes: dict) -> Plan:
    """Write the changes of the config, and return the plan of both."""
    write_text_atomic(CHANGES, yaml.safe_dump(changes, sort_keys=False))
    config, machine = yaml.safe_load(CONFIG.read_text()), read_machine(MACHINE)
    update_config(config, changes)
    use_existing(machine.environments)
    return Plan(config, machine)


def run_for(most_s: float, deadline: float, command: list[str], **options) -> int | None:
    """Run a command for a time, and return as run_until. Raises StoppedError if it was stopped at the deadline."""
    end = time.monotonic() + most_s
    status = run_until(min(deadline, end), command, **options)
    if status is None and deadline <= end:
        raise StoppedError(findings.TIME_UP)
    return status


def call_snakemake(targets: Iterable[str], until: Iterable[str], deadline: float, most_s: float = math.inf) -> str:
    """Make targets, and return how Snakemake ended. until: rules at which it ends; deadline: by time.monotonic().

    most_s: its limit. Raises StoppedError if Snakemake was killed, or stopped at the deadline.
    """
    rules = ["--until", *until] if until else []
    status = run_for(most_s, deadline, [SNAKEMAKE, *targets, *rules, *OPTIONS], env=remove_own_path())
    if status is None:
        return f"Snakemake was stopped after {most_s:.0f} s"
    ended = explain_end("Snakemake", status)
    if status < 0:
        raise StoppedError(ended)
    return f"{ended}, see what it printed" if status else ended


def remove_own_path() -> dict[str, str]:
    """Return the environment variables for Snakemake, which finds the library itself."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def unlock(started: float) -> None:
    """Release this folder if a killed Snakemake has left it locked. started: when this check began, by time.time().

    A living call announces itself seconds after it has locked the folder. Its lock is left alone, which makes Snakemake
    say what to do, and so is any lock that is younger than this check.
    """
    locked_at = read_each(LOCKS, "*.lock", lambda path: path.stat().st_mtime)
    if locked_at and max(locked_at) < started and not list_living_calls():
        print("A killed call has left this folder locked", flush=True)
        subprocess.run([SNAKEMAKE, "--unlock", *OPTIONS], env=remove_own_path())


def plan_waits(plan: Plan, device: str) -> list[RunWithoutWait]:
    if device != "cuda":
        return list_wait_runs(plan, None)
    # A GPU without memory of its own shares the host's.
    return list_wait_runs(plan, read_smallest_memory_gib() or psutil.virtual_memory().total / GIB)


def run_without_waits(runs: list[RunWithoutWait], deadline: float, why: dict[str, str]) -> None:
    """Do the runs without wait that have no outcome and whose inputs exist, and say in `why` how each ended.

    deadline: by time.monotonic(). why: by framework. Raises StoppedError if there is no time for all.
    """
    environment = build_surroundings(os.environ) | {"PYTHONPATH": "workflow/lib"}
    for run in runs:
        if run.explain_refusal() or run.list_missing():
            continue
        if time.monotonic() >= deadline:
            raise StoppedError(findings.TIME_UP)
        command, log = run.create_attempt(resolve_python(Path(run.environment))), run.folder / "log.txt"
        print(f"Training {run.framework} without its wait, see {log}", flush=True)
        with open(log, "wb") as file:
            status = run_until(deadline, command, env=environment, stdout=file, stderr=subprocess.STDOUT)
        if status is None:
            raise StoppedError(findings.TIME_UP)
        complete_attempts(run.folder / "attempts")
        why[run.framework] = f"{explain_end('its launcher', status)}, see {log}"


class Check:
    """The steps of one call.

    changes: of the config, to which the batch sizes tried are added. steps: those asked for, of STEPS. deadline: by
    time.monotonic(). ways: of the expert. save_to: folder to which everything is copied after each part. commit: of
    this tree. why: how each
    step ended, by its name or, for runs without wait, by framework, and for the expert's loops by network and way.
    """

    def __init__(
        self,
        changes: dict,
        device: str,
        steps: list[str],
        deadline: float,
        ways: Iterable[str] = FIRST_WAYS,
        save_to: Path | None = None,
        commit: str = "",
    ):
        self.changes, self.device, self.steps, self.deadline = changes, device, steps, deadline
        self.ways, self.save_to, self.commit = list(ways), save_to, commit
        self.plan = read_plan(changes)
        self.why: dict[str, str] = {}

    def run(self) -> None:
        """Do the steps, as far as there is time."""
        try:
            for network in NETWORKS:
                if network in self.steps:
                    self._train_beside_expert(network)
            self._call("gate", "rates")
            if "waits" in self.steps:
                self._wait()
                self.save()
            if "batches" in self.steps:
                self._double_batches()
        except (StoppedError, KeyboardInterrupt) as end:
            said = str(end) or "the check was interrupted"
            print(f"The check ends here: {said}", flush=True)
            self.why = dict.fromkeys(STEPS, said) | self.why

    def save(self) -> None:
        """Write the file of the card, and copy everything that exists if that is asked for."""
        host = describe_host(list_gpu_uuids() if self.device == "cuda" else [])
        write_card(self.compare_with_expert(), self.commit, host["driver_version"])
        if self.save_to:
            lent.save(self.save_to)

    def list_ways(self) -> dict[str, str]:
        """Return the Python of each of the expert's ways whose framework was found."""
        pythons = {}
        for way in self.ways:
            environment = FRAMEWORKS[WAYS[way][0]].environments[self.device]
            if found := self.plan.machine.environments.get(environment):
                pythons[way] = found["python"]
        return pythons

    def _train_beside_expert(self, network: str) -> None:
        """Train a network in an expert's loops, in a process for each framework, and then in the workflow."""
        study = self.plan.studies[BESIDE_EXPERT[network]]
        task, loops = describe_task(study), findings.read_loops(LOOPS)
        done = [key for key, loop in loops.items() if "error" not in loop]
        size = task["model"], task["batch_size"]
        pythons = {way: python for way, python in self.list_ways().items() if (*size, way) not in done}
        environment = build_surroundings(os.environ) | {"PYTHONPATH": "workflow/lib"}
        for _, group in itertools.groupby(pythons, lambda way: WAYS[way][0]):
            ways = list(group)
            print(f"Training {network} as an expert would: {', '.join(ways)}", flush=True)
            command = [
                pythons[ways[0]],
                "-W",
                "ignore",
                "-m",
                "howmanygpus_tools.check_gpu.expert",
                "--task",
                json.dumps(task),
            ]
            command += ["--steps", str(EXPERT_STEPS[self.device]), *ways]
            with open(LOOPS, "ab") as printed:
                status = run_for(EXPERT_S * len(ways), self.deadline, command, env=environment, stdout=printed)
            ended = "its limit was reached" if status is None else explain_end("its process", status)
            self.why |= {f"{network} {way}": ended for way in ways}
            self.save()
        self.why[network] = call_snakemake([study.name], ["train"], self.deadline, NETWORK_S)
        self.save()

    def compare_with_expert(self) -> list[dict]:
        """Return the rows of the networks that were asked for."""
        loops, rows = findings.read_loops(LOOPS), []
        for network in [network for network in NETWORKS if network in self.steps]:
            study, why = self.plan.studies[BESIDE_EXPERT[network]], self.why.get(network, "")
            runs, ways = findings.tabulate(study.describe()), dict.fromkeys(self.list_ways(), why)
            ways |= {way: self.why[key] for way in ways if (key := f"{network} {way}") in self.why}
            rows += findings.compare_with_expert(runs, describe_task(study), ways, loops, why)
        return rows

    def _call(self, *steps: str) -> None:
        """Do those of the steps that were asked for, in one call of Snakemake."""
        asked = {step: ASKED_OF_SNAKEMAKE[step] for step in steps if step in self.steps}
        if asked:
            self.why = {step: how for step, how in self.why.items() if step not in asked}
            targets, rules = zip(*asked.values(), strict=True)
            self.why |= dict.fromkeys(asked, call_snakemake(targets, rules, self.deadline))
            self.save()

    def _wait(self) -> None:
        """Do the runs without wait. Without the step `rates`, Snakemake makes what they need."""
        runs = [run for run in plan_waits(self.plan, self.device) if run.shows_it and not run.read_outcome()]
        missing = {path for run in runs if not run.unsupported for path in run.list_missing()}
        ended = self.why.get("rates", "")
        if missing and not ended:
            ended = call_snakemake(sorted(missing), (), self.deadline)
        run_without_waits(runs, self.deadline, self.why)
        self.why["waits"] = ended

    def _double_batches(self) -> None:
        num_train = self.plan.studies[BATCHES].description.num_train
        study = self.plan.studies[BATCHES].config | self.changes["studies"][BATCHES]
        while True:
            self._call("batches")
            if not add_size(
                study, findings.list_completed_at_largest(self.plan.studies[BATCHES].describe()), num_train
            ):
                return
            self.changes["studies"][BATCHES] |= {key: study[key] for key in ("per_device_batch_size", "exclude")}
            self.plan = read_plan(self.changes)


def list_verdicts(plan: Plan) -> list[dict]:
    """Return framework, variant, precision, status and reason of each checked cell; no status for a missing verdict.

    A check without the gate leaves verdicts that say that nothing was checked.
    """
    cells = []
    for path in plan.checked_verdicts:
        cell = plan.parity_cells[path]
        verdict = json.loads(Path(path).read_text()) if Path(path).exists() else {"status": NOT_CHECKED}
        said = {key: "" if verdict["status"] == NOT_CHECKED else verdict[key] for key in ("status", "reason")}
        variant = describe_variant(cell.describe()) or cell.settings["tier"]
        cells.append({"framework": cell.framework, "variant": variant, "precision": cell.precision} | said)
    frameworks, variants = plan.studies[RATES].config["frameworks"], list(plan.studies[RATES].config["variants"])

    def place(cell: dict) -> tuple:
        return frameworks.index(cell["framework"]), variants.index(cell["variant"]), PRECISIONS.index(cell["precision"])

    return sorted(cells, key=place)


def describe_machine_seen(device: str, rates) -> dict:
    """Return the page's facts about the machine. rates: the table of runs, which names the device's model."""
    host = describe_host(list_gpu_uuids() if device == "cuda" else [])
    models = [model for model in rates["device_model"].dropna().unique() if model]
    return {
        "host": host["hostname"],
        "device": f"{device}: {', '.join(models) or 'no run has named it'}",
        "GPUs that may be used": len(host["gpu_uuids"]),
        "compute capability": read_compute_capability() if device == "cuda" else None,
        "memory, GiB": read_smallest_memory_gib() if device == "cuda" else None,
        "driver": host["driver_version"],
        "processor": f"{host['cpu_model']}, {len(os.sched_getaffinity(0))} cores",
        "Python of the workflow": host["python_version"],
    }


def find_commit(wheels: Path | None) -> str:
    """Return the commit of this tree; without `.git`, what was noted beside the wheels. Empty if nobody knows."""
    noted = Path(wheels or "", "commit")
    return describe_host([])["git_commit"] or (noted.read_text().strip() if wheels and noted.exists() else "")


def write_card(rows: list[dict], commit: str, driver: str | None) -> None:
    """Write the rates of a card to a file named by card and date, if anything was trained. rows: beside an expert."""
    cards = [row["device"] for row in rows if row["device"]]
    if cards:
        today = datetime.now(UTC).date().isoformat()
        name = re.sub(r"[^a-z0-9]+", "-", cards[0].lower()).strip("-")
        card = {"card": cards[0], "date": today, "commit": commit, "driver": driver, "rows": rows}
        write_json_atomic(FOLDER / f"{name}-{today}.json", card)


def write_page(check: Check, found: list[dict]) -> list[str]:
    """Write the page from the records of the steps that were asked for, and return the failures."""
    plan, device, steps, why = check.plan, check.device, check.steps, check.why
    on_gpu, num_train = device == "cuda", plan.studies[BATCHES].description.num_train
    rates, batches = (findings.tabulate(plan.studies[study].describe()) for study in (RATES, BATCHES))
    rates = rates if "rates" in steps else rates.iloc[:0]
    batches = batches if "batches" in steps else batches.iloc[:0]
    networks = check.compare_with_expert()
    verdicts, telemetry = list_verdicts(plan) if "gate" in steps else [], findings.add_telemetry(rates, on_gpu)
    wait_runs = plan_waits(plan, device) if "waits" in steps else []
    waits = [describe_wait(run, why.get(run.framework) or why["waits"]) for run in wait_runs]
    largest = findings.find_largest(batches, num_train, on_gpu, why.get("batches", ""))
    broken = [answer for answer in found if answer["reason"] and not answer["reason"].startswith(ABSENT)]
    failures = findings.list_failures(networks, verdicts, rates, telemetry, waits, largest, broken, why)
    machine = (
        describe_machine_seen(device, rates)
        | {"commit": check.commit}
        | ({} if {*steps} == {*STEPS} else {"steps": ", ".join(steps)})
    )
    write_text_atomic(PAGE, render_page(machine, found, networks, verdicts, rates, telemetry, waits, largest, failures))
    return failures


def read_arguments() -> argparse.Namespace:
    """Return the arguments; raise SystemExit for one that cannot be used."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", nargs="+", required=True, help="Pythons to look for frameworks in")
    parser.add_argument("--device", required=True, help="cuda, or cpu, which rehearses with small sizes")
    parser.add_argument("--wheels", type=Path, nargs="?", help="folder of wheels to install from, without a network")
    parser.add_argument("--minutes", required=True, help="time after which the page is written as it is")
    parser.add_argument("--frameworks", nargs="*", default=[], help="check these only (default: all that are found)")
    parser.add_argument("--ways", nargs="*", default=FIRST_WAYS, help="loops of the expert (default: all but `graphs`)")
    parser.add_argument("--save-to", type=Path, help="copy everything to this folder after each part")
    parser.add_argument("--steps", nargs="*", default=STEPS, help=f"do these only (default: {' '.join(STEPS)})")
    arguments = parser.parse_args()
    try:
        check_options(arguments)
    except ConfigError as error:
        sys.exit(str(error))
    arguments.steps = [step for step in STEPS if step in (STEPS[0], *arguments.steps)]
    return arguments


def main() -> None:
    arguments, started = read_arguments(), time.time()
    deadline = time.monotonic() + 60 * float(arguments.minutes)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if arguments.device == "cuda" and not list_gpu_uuids():
        sys.exit("DEVICE: no NVIDIA GPU may be used here (see `nvidia-smi -L`); DEVICE=cpu rehearses without one")
    try:
        found = detect_site(arguments.site, arguments.device, arguments.wheels, arguments.frameworks)
    except WheelhouseError as error:
        sys.exit(str(error))
    environments = list_environments(arguments.device)
    versions = {answer["environment"] for answer in found if answer["version"]}
    frameworks = [name for environment in environments if environment in versions for name in environments[environment]]
    frameworks = arguments.frameworks or frameworks
    changes = describe_changes(frameworks, arguments.device, str(MACHINE), has_gate="gate" in arguments.steps)
    commit = find_commit(arguments.wheels)
    check = Check(changes, arguments.device, arguments.steps, deadline, arguments.ways, arguments.save_to, commit)
    unlock(started)
    check.run()
    failures = write_page(check, found)
    check.save()
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{PAGE}: {len(failures)} failures")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()

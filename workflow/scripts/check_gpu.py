"""
Check this machine's GPU in every framework that a site's Pythons have, and write the results to a page.

It looks for frameworks, writes a machine file and a config for those that it finds, and calls Snakemake for the parity
gate and the rates. Then it trains with each framework's wait turned off in every other window, which must change no
rate, and calls Snakemake for batch sizes that double until the memory is full. The same call continues an earlier one.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import yaml
from snakemake.utils import update_config

from howmanygpus.environments.find import find_python
from howmanygpus.environments.site import build_overlay, find_frameworks, lend_packages
from howmanygpus.environments.wheelhouse import WheelhouseError
from howmanygpus.files import write_text_atomic
from howmanygpus.plan.check_gpu import (
    BATCHES,
    RATES,
    REFERENCE,
    add_size,
    describe_changes,
    describe_machine,
    list_environments,
    list_wait_runs,
)
from howmanygpus.plan.config.errors import ConfigError, refuse, refuse_choice
from howmanygpus.plan.config.machine import read_machine
from howmanygpus.plan.invalidation.pins import use_existing
from howmanygpus.plan.plan import Plan
from howmanygpus.report.check_gpu import findings
from howmanygpus.report.check_gpu.page import render_page
from howmanygpus.report.check_gpu.waits import describe_wait
from howmanygpus.report.parity.page import describe_variant
from howmanygpus.surroundings.environment import build_surroundings
from howmanygpus.train.host.devices import describe_host
from howmanygpus.train.host.gpus import GIB, find_compute_capability, find_smallest_memory_gib, list_gpu_uuids
from howmanygpus.train.preflight.waits import WaitRun

CONFIG, FOLDER, PAGE = Path("config/check_gpu.yaml"), Path("results/check_gpu"), Path("results/check_gpu.md")
MACHINE, CHANGES = FOLDER / "machine.yaml", FOLDER / "config.yaml"
UNTIL = ("train", "write_parity_page")
DEVICES = ("cuda", "cpu")
NUMBER = re.compile(r"\d+(\.\d+)?")
ABSENT = "ModuleNotFoundError"
"""Beginning of the reason why a Python does not have a framework. Any other reason is a failure of the check."""
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
STOPPING_S = 30.0
"""Maximum time in seconds for Snakemake or a launcher to end after Ctrl-C."""


def check_options(site: list[str], device: str, minutes: str, wheels: Path | None) -> None:
    """Raise ConfigError, with the name of the variable of `make`, for a value that cannot be used."""
    if device not in DEVICES:
        raise refuse_choice("DEVICE", device, "device of this check", DEVICES)
    if not NUMBER.fullmatch(minutes) or not float(minutes):
        raise refuse("MINUTES", minutes, "is no time", "write a number of minutes above 0, such as 120")
    for python in site:
        if shutil.which(python) is None:
            raise refuse("SITE", python, "is no program here", "name the Pythons that have your frameworks")
    if wheels and not wheels.is_dir():
        raise refuse("WHEELS", str(wheels), "is no folder here", "`make wheelhouse` fills one")


def look_at_site(pythons: list[str], device: str, wheels: Path | None) -> list[dict]:
    """Write the machine file, and return what was found: environment, version, python and reason of each.

    Raises SystemExit if nothing can be checked.
    """
    environments = sorted(list_environments(device))
    print(f"Looking for {', '.join(environments)} in {', '.join(pythons)}", flush=True)
    found = find_frameworks(environments, pythons, on_gpu=device == "cuda")
    if REFERENCE not in environments:
        found += find_frameworks([REFERENCE], pythons, on_gpu=False)
    answers = {answer.environment: answer for answer in found}
    versions = {name: answer for name, answer in answers.items() if answer.version}
    if REFERENCE not in versions:
        sys.exit(
            f"SITE: no Python of {', '.join(pythons)} has PyTorch, with which the gate's reference is computed "
            f"({answers[REFERENCE].reason}); name one that has"
        )
    if not set(versions) & set(environments):
        reasons = "; ".join(f"{answer.environment}: {answer.reason}" for answer in found if not answer.version)
        sys.exit(f"SITE: no framework of {', '.join(pythons)} can use {device}: {reasons}")
    overlays = {python: build_overlay(python, wheels) for python in {each.python for each in versions.values()}}
    lend_packages(list(overlays.values()), wheels)
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


def call_snakemake(study: str, deadline: float) -> bool:
    """Do the missing runs of a study; return whether there was time for all. deadline: by time.monotonic()."""
    command = [".venv/bin/snakemake", study, "results/parity/parity.html", "--until", *UNTIL]
    command += ["--profile", "profiles/local", "--configfile", str(CONFIG), str(CHANGES)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return run_until(deadline, command, env=environment)


def run_until(deadline: float, command: list[str], **options) -> bool:
    """Run a command; return whether it has ended by itself. deadline: of time.monotonic(). options: of Popen."""
    child = subprocess.Popen(command, preexec_fn=begin_session, **options)
    try:
        child.wait(timeout=max(deadline - time.monotonic(), 1))
        return True
    except subprocess.TimeoutExpired:
        return False
    finally:
        if child.returncode is None:
            stop(child)


def plan_waits(plan: Plan, device: str) -> list[WaitRun]:
    if device != "cuda":
        return list_wait_runs(plan, None)
    # A GPU without memory of its own shares the host's.
    return list_wait_runs(plan, find_smallest_memory_gib() or psutil.virtual_memory().total / GIB)


def try_waits(runs: list[WaitRun], deadline: float) -> bool:
    """Do the runs without wait that have no outcome; return whether there was time for all. deadline: as above."""
    environment = build_surroundings(os.environ) | {"PYTHONPATH": "workflow/lib"}
    for run in runs:
        if not run.shows_it or run.explain_refusal() or not run.has_inputs() or run.find_outcome():
            continue
        if time.monotonic() >= deadline:
            return False
        command, log = run.create_attempt(find_python(Path(run.environment))), run.folder / "log.txt"
        print(f"Training {run.framework} without its wait, see {log}", flush=True)
        with open(log, "wb") as file:
            if not run_until(deadline, command, env=environment, stdout=file, stderr=subprocess.STDOUT):
                return False
    return True


def begin_session() -> None:
    """Become a session of its own that Ctrl-C can stop; a job in the background of a shell would ignore it."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def stop(child: subprocess.Popen) -> None:
    """Stop a session like Ctrl-C in a terminal, which reaches Snakemake and its jobs, and make sure that it ends."""
    os.killpg(child.pid, signal.SIGINT)
    try:
        child.wait(timeout=STOPPING_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def describe_study(plan: Plan, study: str) -> dict:
    """Return the plan of a study for the tables. One machine without prices has no billing."""
    return plan.studies[study].describe() | {"billing": {}}


def run_all(changes: dict, device: str, deadline: float) -> Plan:
    """Run both studies, and between them the runs without wait, as far as there is time; return the last plan.

    The batch sizes tried are added to `changes`.
    """
    plan = read_plan(changes)
    num_train = plan.studies[BATCHES].description.num_train
    study = plan.studies[BATCHES].config | changes["studies"][BATCHES]
    in_time = call_snakemake(RATES, deadline) and try_waits(plan_waits(plan, device), deadline)
    while in_time and (in_time := call_snakemake(BATCHES, deadline)):
        if not add_size(study, findings.find_growing(describe_study(plan, BATCHES)), num_train):
            break
        changes["studies"][BATCHES] |= {key: study[key] for key in ("per_device_batch_size", "exclude")}
        plan = read_plan(changes)
    return plan


def list_verdicts(plan: Plan) -> list[dict]:
    """Return framework, variant, precision, status and reason of each checked cell; no status for a missing verdict."""
    cells = []
    for path in plan.checked_verdicts:
        cell = plan.parity_cells[path]
        verdict = json.loads(Path(path).read_text()) if Path(path).exists() else {"status": "", "reason": ""}
        said = {key: verdict[key] for key in ("status", "reason")}
        variant = describe_variant(cell.describe()) or cell.path.tier
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
        "compute capability": find_compute_capability() if device == "cuda" else None,
        "memory, GiB": find_smallest_memory_gib() if device == "cuda" else None,
        "driver": host["driver_version"],
        "processor": f"{host['cpu_model']}, {len(os.sched_getaffinity(0))} cores",
        "Python of the workflow": host["python_version"],
        "commit": host["git_commit"],
    }


def write_page(plan: Plan, found: list[dict], device: str) -> list[str]:
    """Write the page from the records of all runs, and return the failures."""
    on_gpu, num_train = device == "cuda", plan.studies[BATCHES].description.num_train
    rates, batches = (findings.tabulate(describe_study(plan, study)) for study in (RATES, BATCHES))
    verdicts, telemetry = list_verdicts(plan), findings.add_telemetry(rates, on_gpu)
    waits = [describe_wait(run) for run in plan_waits(plan, device)]
    largest = findings.find_largest(batches, num_train, on_gpu)
    broken = [answer for answer in found if answer["reason"] and not answer["reason"].startswith(ABSENT)]
    failures = findings.list_failures(verdicts, rates, telemetry, waits, largest, broken)
    machine = describe_machine_seen(device, rates)
    write_text_atomic(PAGE, render_page(machine, found, verdicts, rates, telemetry, waits, largest, failures))
    return failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", nargs="+", required=True, help="Pythons to look for frameworks in")
    parser.add_argument("--device", required=True, help="cuda, or cpu, which rehearses with small sizes")
    parser.add_argument("--wheels", type=Path, nargs="?", help="folder of wheels to install from, without a network")
    parser.add_argument("--minutes", required=True, help="time after which the page is written as it is")
    arguments = parser.parse_args()
    try:
        check_options(arguments.site, arguments.device, arguments.minutes, arguments.wheels)
    except ConfigError as error:
        sys.exit(str(error))
    deadline = time.monotonic() + 60 * float(arguments.minutes)
    if arguments.device == "cuda" and not list_gpu_uuids():
        sys.exit("DEVICE: no NVIDIA GPU may be used here (see `nvidia-smi -L`); DEVICE=cpu rehearses without one")
    try:
        found = look_at_site(arguments.site, arguments.device, arguments.wheels)
    except WheelhouseError as error:
        sys.exit(str(error))
    environments = list_environments(arguments.device)
    versions = {answer["environment"] for answer in found if answer["version"]}
    frameworks = [name for environment in environments if environment in versions for name in environments[environment]]
    changes = describe_changes(frameworks, arguments.device, str(MACHINE))
    failures = write_page(run_all(changes, arguments.device, deadline), found, arguments.device)
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{PAGE}: {len(failures)} failures")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()

"""
Validate config and machine file, expand the studies into runs once, and answer the rules' questions about them.
"""

import atexit
import gc
import json
import re
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake.utils import update_config

sys.path.insert(0, str(Path(workflow.basedir) / "workflow" / "lib"))

from benchplan import attempts, code
from benchplan.defaults import retype
from benchplan.errors import ConfigError
from benchplan.estimate import describe_device_hours
from benchplan.machine import find_machine_file, read_machine
from benchplan.plan import Plan
from benchplan.plugin import forget_requests, mend_planning, mend_plugin, mend_scheduler
from benchreport import figures

# Snakemake keeps millions of small objects for a large grid: look for garbage among them less often.
gc.set_threshold(100_000, 50, 100)

mend_planning()
if workflow.remote_exec:
    forget_requests()
code.let_jobs_find_it()

update_config(config, retype(workflow.config_settings.config))

try:
    MACHINE = read_machine(find_machine_file(config.get("machine"), sys.argv), config.get("packed", False))
    code.use_existing(MACHINE.environments)
    PLAN = Plan(config, MACHINE)
except ConfigError as error:
    raise WorkflowError(str(error)) from None

# The report describes the method from the complete configuration, defaults included.
config["studies"] = {name: study.config for name, study in PLAN.studies.items()}

for shortage in PLAN.find_shortages():
    logger.warning(shortage)

# Said last, below the list of jobs. While Snakemake reads this, it does not know yet that nothing is to be done.
if {"--dry-run", "--dryrun", "-n", "-np"} & set(sys.argv):
    atexit.register(print, describe_device_hours(PLAN), end="", file=sys.stderr)


def settle_attempts():
    if MACHINE.is_cluster:
        for record in attempts.settle():
            logger.info(f"{record.parent} had ended without a word; see its attempt.json")


onstart:
    settle_attempts()
    mend_scheduler()
    if MACHINE.submits:
        mend_plugin()
    if shortages := PLAN.find_shortages():
        raise WorkflowError("\n".join(shortages))


onsuccess:
    settle_attempts()


onerror:
    settle_attempts()
    logger.error(
        "Some steps failed; each failed run keeps its files and log under results/logs/train/. The target `available` "
        "builds tables and figures from the runs that exist; the next call tries the missing ones again."
    )


wildcard_constraints:
    study="[a-z][a-z0-9_]*",
    dataset="[a-z][a-z0-9_]*",
    form="png|jpeg",
    model="[a-z][a-z0-9_]*",
    framework="[a-z][a-z0-9_]*",
    variant="[a-z][a-z0-9_]*",
    device="[a-z][a-z0-9-]*",
    num_gpus=r"\d+",
    cell=r"[a-z]+_[a-z0-9]+_[a-z0-9-]+_gpus\d+_batch\d+_repeat\d+",
    environment="[a-z0-9-]+",
    pins_hash="[0-9a-f]{8}",
    table="runs|scaling|time_to_accuracy|evaluations|variants",
    task="[a-z0-9_]+_[0-9]+x[0-9]+x[0-9]+_classes[0-9]+_(local|synchronized)",
    checked="[a-z0-9_-]+-[0-9a-f]{8}",
    batchnorm="local|synchronized",
    height=r"\d+",
    width=r"\d+",
    channels=r"\d+",
    num_classes=r"\d+",
    seed=r"\d+",
    shard=r"\d+",
    num_shards=r"\d+",


def get_run(wildcards):
    return PLAN.runs[f"{wildcards.study}/{wildcards.framework}/{wildcards.variant}/{wildcards.cell}"]


def get_study(wildcards):
    return PLAN.studies[wildcards.study]


def get_collecting_code(wildcards):
    metric = get_study(wildcards).config["quality"]["metric"]
    return code.script("collect_runs", f"benchreport.metrics.{metric}")


def get_thresholding_code(wildcards):
    metric = get_study(wildcards).config["quality"]["metric"]
    return code.script("compute_time_to_accuracy", f"benchreport.metrics.{metric}")


def get_training_code(wildcards):
    run, study = get_run(wildcards), get_study(wildcards)
    return code.training_code(run.framework, study.config["model"], study.variants[run.variant]["loader"])


def get_environment(wildcards):
    run = get_run(wildcards)
    return code.environment_record(get_study(wildcards).parity_cell(run).environment)


def get_verdict(wildcards):
    return PLAN.verdicts[get_run(wildcards).path]


def get_parity_cell(wildcards):
    path = f"results/parity/{wildcards.task}/{wildcards.checked}.json"
    return PLAN.parity_cells[path]


def get_parity_layouts(wildcards):
    """Devices x nodes of the gate."""
    cell = get_parity_cell(wildcards)
    return cell.layouts(MACHINE.device(cell.device))


def match_unchecked_cells():
    """A regular expression of the verdicts that no study asks for, without folder and suffix."""
    unchecked = PLAN.parity_cells.keys() - PLAN.checked_verdicts
    names = [re.escape(path.removeprefix("results/parity/").removesuffix(".json")) for path in sorted(unchecked)]
    return "|".join(names) or "(?!)"


def get_data_dir(wildcards):
    return get_study(wildcards).data_dir(get_run(wildcards))


def get_weights_record(wildcards):
    return str(Path(get_study(wildcards).weights_file(get_run(wildcards))).with_suffix(".json"))


def get_planned_records(study):
    """run.json of every run of a study that can be run."""
    runs = [run for run in PLAN.studies[study].runs if not run.unsupported and not PLAN.is_left_out(run)]
    return [f"results/runs/{run.path}/run.json" for run in runs]


def existing_if_available(paths):
    """All of the files; the existing ones alone where the target is `available`."""
    if "available" in workflow.dag_settings.targets:
        return [path for path in paths if Path(path).exists()]
    return paths


def get_records(wildcards):
    return existing_if_available(get_planned_records(wildcards.study))


def get_verdicts(wildcards):
    return existing_if_available(list(PLAN.parity_cells))


def get_probe_of_cell(wildcards):
    """What was found on the devices of a cell of the gate; nothing on one machine."""
    return f"results/probe/{get_parity_cell(wildcards).device}.json" if MACHINE.is_cluster else []


def get_probes(wildcards=None):
    """A probe of every device that runs use, on a cluster."""
    if not MACHINE.is_cluster:
        return []
    return existing_if_available([f"results/probe/{device}.json" for device in PLAN.devices])


STUDY_TABLES = ("scaling.tsv", "time_to_accuracy.tsv", "variants.tsv", "answer.txt")


def get_study_products(study):
    """Tables, answer and figures of one study."""
    tables = [f"results/tables/{study}/{file}" for file in STUDY_TABLES]
    names = figures.list_figures(PLAN.studies[study].config, MACHINE.is_cluster and MACHINE.slurm["preflight"])
    return tables + [f"results/figures/{study}/{figure}.svg" for figure in names]


def get_all_products():
    """The products of every study of the config, and the tables and answers of all together."""
    merged = [f"results/tables/{file}" for file in ("runs.tsv", *STUDY_TABLES, "parity.tsv")]
    products = [product for study in PLAN.studies for product in get_study_products(study)]
    probes = ["results/tables/probes.tsv"] if MACHINE.is_cluster else []
    return [*merged, *probes, "results/parity/parity.html", *products]


def get_all_records():
    return [record for study in PLAN.studies for record in get_planned_records(study)]

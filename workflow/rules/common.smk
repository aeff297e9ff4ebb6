"""
Read the machine file, plan all runs once, and create the objects whose methods the rules use.

The logic is in workflow/lib/howmanygpus/plan/. This file connects it to Snakemake.
"""

import atexit
import gc
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from howmanygpus import snakemake_patches
from howmanygpus.plan.cluster import retrying
from howmanygpus.plan.cluster.checking import find_misfits
from howmanygpus.plan.cluster.concurrency import describe_concurrency, limit_measurements
from howmanygpus.plan.config.errors import ConfigError
from howmanygpus.plan.config.machine import find_machine_file, read_machine
from howmanygpus.plan.estimate import describe_device_hours
from howmanygpus.plan.invalidation.code import hash_reference, hash_script
from howmanygpus.plan.invalidation.pins import environment_record, use_existing
from howmanygpus.plan.plan import Plan
from howmanygpus.plan.rules.cluster import ClusterRules
from howmanygpus.plan.rules.data import DataRules
from howmanygpus.plan.rules.environments import EnvironmentRules
from howmanygpus.plan.rules.parity import ParityRules
from howmanygpus.plan.rules.products import Products
from howmanygpus.plan.rules.training import TrainingRules
from howmanygpus.report import figures, tables
from howmanygpus.report.files import read_answers
from howmanygpus.train.start.settling import OlderResultsError, refuse_older_results, settle

IS_DRY_RUN = bool({"--dry-run", "--dryrun", "-n", "-np"} & set(sys.argv))

if not Path(".venv/bin/python").exists():
    raise WorkflowError(".venv: the Python of the workflow's steps is not there; run `make .venv/installed`")

# For a large grid Snakemake keeps millions of small objects, so the garbage collector runs less often.
gc.set_threshold(100_000, 50, 100)

snakemake_patches.patch_every_process(is_job=bool(workflow.remote_exec))
if workflow.is_main_process:
    retrying.note_start()

try:
    refuse_older_results()
    MACHINE = read_machine(find_machine_file(config.get("machine"), sys.argv), config.get("packed", False))
    use_existing(MACHINE.environments)
    PLAN = Plan(config, MACHINE)
except (ConfigError, OlderResultsError) as error:
    raise WorkflowError(str(error)) from None

# The report describes the method by the complete configuration, including defaults.
config["studies"] = {name: study.config for name, study in PLAN.studies.items()}

# The report's first page begins with the answers.
config["answers"] = read_answers(PLAN.studies)
config["concurrency"] = describe_concurrency(MACHINE)

if limit := limit_measurements(MACHINE):
    workflow.register_resource("measurement", limit)

training, parity, data = TrainingRules(PLAN), ParityRules(PLAN), DataRules(PLAN)
cluster, environments = ClusterRules(PLAN), EnvironmentRules(MACHINE)
products = Products(
    PLAN,
    lambda: "available" in workflow.dag_settings.targets,
    tables.list_tables,
    figures.list_figures,
    tables.list_merged(),
)

SHORTAGES = PLAN.find_shortages() + find_misfits(PLAN) if workflow.is_main_process else []
DOUBTS = [*PLAN.find_excesses(), *PLAN.find_doubts()] if workflow.is_main_process else []
for warning in [*DOUBTS, *SHORTAGES]:
    logger.warning(warning)

# The estimate is printed at exit, so that it appears below the list of jobs.
if IS_DRY_RUN:
    atexit.register(print, describe_device_hours(PLAN), end="", file=sys.stderr)


def settle_attempts():
    for record in settle():
        logger.info(f"{record.parent} had ended without a word; see its attempt.json")


# Tables are made from the records of attempts, so these are completed before Snakemake reads them.
if not workflow.remote_exec and not IS_DRY_RUN:
    settle_attempts()


onstart:
    snakemake_patches.patch_scheduling(submits=MACHINE.submits)
    if SHORTAGES:
        raise WorkflowError("\n".join(SHORTAGES))


onsuccess:
    settle_attempts()


onerror:
    settle_attempts()
    logger.error(
        "Some steps failed; each failed run keeps its files under results/attempts/ and its log under "
        "results/logs/train/. The target `available` builds tables and figures from the runs that exist; the next "
        "call tries the missing ones again."
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
    run=r"(?:[a-z][a-z0-9_]*/){3}[a-z]+_[a-z0-9]+_[a-z0-9-]+_gpus\d+_batch\d+_repeat\d+",
    environment="[a-z0-9-]+",
    pins_hash="[0-9a-f]{8}",
    table="|".join(tables.list_merged()),
    task="[a-z0-9_]+_[0-9]+x[0-9]+x[0-9]+_classes[0-9]+_(local|synchronized)",
    checked="[a-z0-9_-]+-[0-9a-f]{8}",
    group="[a-z0-9_-]+-[0-9a-f]{8}",
    batchnorm="local|synchronized",
    height=r"\d+",
    width=r"\d+",
    channels=r"\d+",
    num_classes=r"\d+",
    seed=r"\d+",
    shard=r"\d+",
    num_shards=r"\d+",

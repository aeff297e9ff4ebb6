"""
Read the machine file, plan all runs once, and create the objects whose methods the rules use.

The logic is in workflow/lib/howmanygpus/plan/. This file connects it to Snakemake.
"""

import atexit
import sys
import uuid
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.io import IOFile
from snakemake.logging import logger

from howmanygpus import snakemake_patches
from howmanygpus.call import deciding, ending, existing, passes, starting, waiting
from howmanygpus.call.disk import find_full_disks, find_lack_of_space, list_folders
from howmanygpus.ledger.settling import settle_jobs
from howmanygpus.environments.cache import CacheError, check_cache
from howmanygpus.plan.cluster import retrying
from howmanygpus.plan.cluster.checking import find_misfits
from howmanygpus.plan.cluster.concurrency import describe_concurrency, limit_measurements
from howmanygpus.plan.config.errors import ConfigError
from howmanygpus.plan.config.machine import find_machine_file, read_machine
from howmanygpus.plan.dry_run.printing import summarize_dry_run
from howmanygpus.plan.invalidation.code import hash_script
from howmanygpus.plan.invalidation.pins import environment_record, use_existing
from howmanygpus.plan.plan import Plan
from howmanygpus.plan.rules.cluster import ClusterRules
from howmanygpus.plan.rules.data import DataRules
from howmanygpus.plan.rules.environments import EnvironmentRules
from howmanygpus.plan.rules.largest import LargestRules
from howmanygpus.plan.rules.parity import ParityRules
from howmanygpus.plan.rules.products import Products
from howmanygpus.plan.rules.training import TrainingRules
from howmanygpus.plan.rules.weights import DOWNLOADS, OwnModelRules, WeightRules, fetch_first
from howmanygpus.prepare.acquire.acquisition import AcquisitionError
from howmanygpus.plan.study.published import describe_sources
from howmanygpus.report import figures, tables
from howmanygpus.report.files import read_first_page
from howmanygpus.snakemake_patches.interrupting import find_interruption
from howmanygpus.surroundings.secrets import hide_everywhere
from howmanygpus.train.start.calls import InUseError, announce, refuse_to_unlock
from howmanygpus.train.start.settling import OlderResultsError, refuse_older_results, settle

IS_DRY_RUN = workflow.output_settings.dryrun

if not Path(".venv/bin/python").exists():
    raise WorkflowError(".venv: the Python of the workflow's steps is not there; run `make .venv/installed`")

snakemake_patches.patch_every_process(is_job=bool(workflow.remote_exec))
if workflow.is_main_process and passes.find_number() == 1:
    retrying.note_start()

try:
    refuse_to_unlock(sys.argv)
    refuse_older_results()
    if not workflow.remote_exec:
        check_cache()
    MACHINE = read_machine(find_machine_file(config.get("machine"), sys.argv), config.get("packed", False))
    use_existing(MACHINE.environments)
    PLAN = Plan(config, MACHINE)
except (CacheError, ConfigError, InUseError, OlderResultsError) as error:
    # As in config.smk.
    sys.exit(f"snakemake: {error}")

deciding.take_decisions(PLAN, is_job=bool(workflow.remote_exec))

# The report begins with the answers, and describes the method by the complete configuration.
config |= read_first_page(PLAN.studies, sys.argv) | {"concurrency": describe_concurrency(MACHINE)}
config["studies"] = {name: hide_everywhere(study.config) for name, study in PLAN.studies.items()}
config["sources"] = {name: describe_sources(study.config) for name, study in PLAN.studies.items()}

if limit := limit_measurements(MACHINE):
    workflow.register_resource("measurement", limit)

training, parity = TrainingRules(PLAN, lambda path: workflow.persistence.input(IOFile(path))), ParityRules(PLAN)
data = DataRules(
    PLAN, lambda path: None if workflow.remote_exec else workflow.persistence.params(IOFile(path)), logger.info
)
cluster, environments, own_models = ClusterRules(PLAN), EnvironmentRules(MACHINE), OwnModelRules(PLAN)
weights, largest = WeightRules(PLAN), LargestRules(PLAN)
products = Products(
    PLAN, lambda: existing.takes_existing(workflow), tables.list_tables, figures.list_figures, tables.list_merged()
)

SHORTAGES, DOUBTS = [], []
if workflow.is_main_process:
    SHORTAGES = PLAN.find_shortages() + find_misfits(PLAN) + find_lack_of_space(PLAN)
    DOUBTS = [*PLAN.find_excesses(), *PLAN.find_doubts(), *PLAN.list_remarks()]
for warning in [*DOUBTS, *SHORTAGES]:
    logger.warning(warning)

if not workflow.remote_exec:
    atexit.register(data.save_contents)

if IS_DRY_RUN:
    summarize_dry_run(workflow, PLAN, logger)


def settle_attempts():
    for record in settle():
        logger.info(f"{record.parent} had ended without a word; see its attempt.json")


# Tables are made from the records of attempts, so these are completed before Snakemake reads them.
if not workflow.remote_exec and not IS_DRY_RUN:
    if "--unlock" not in sys.argv and (full := find_full_disks(list_folders())):
        raise WorkflowError("\n".join(full))
    settle_attempts()


onstart:
    snakemake_patches.patch_scheduling(submits=MACHINE.submits)
    if refused := starting.refuse_to_start(PLAN, workflow, SHORTAGES, logger.warning):
        raise WorkflowError("\n".join(refused))
    try:
        fetch_first(workflow.dag.needrun_jobs(), MACHINE.published_weights)
    except AcquisitionError as error:
        raise WorkflowError(str(error)) from None
    deciding.leave_decisions(PLAN)
    starting.announce_gate(workflow, logger.info)
    # The names of all jobs of a call end with this.
    announce(getattr(workflow.scheduler._executor, "run_uuid", f"local-{uuid.uuid4()}"), logger.warning)
    if MACHINE.submits and workflow.executor_settings:
        every_s = workflow.executor_settings.init_seconds_before_status_checks
        waiting.watch_queue(workflow.scheduler._executor.run_uuid, every_s, logger.warning)


onsuccess:
    settle_attempts()
    settle_jobs()
    if not deciding.end_pass(PLAN, logger.info, is_last=bool(find_interruption())):
        made = [path for job in workflow.dag.jobs for path in job.output]
        if answered := ending.describe_success(made, sys.argv, workflow.dag_settings.targets):
            logger.info(answered)


onerror:
    settle_attempts()
    settle_jobs()
    is_last = bool(find_interruption()) or not workflow.execution_settings.keep_going
    deciding.end_pass(PLAN, logger.info, is_last, has_failed=True)
    cause, targets = snakemake_patches.failing.find_first_cause(), workflow.dag_settings.targets
    logger.error(ending.describe_end(find_interruption(), MACHINE.submits, sys.argv, targets, cause))

"""One call of Snakemake: its plan, the objects whose methods the rules use, and what happens around its jobs."""

import atexit
import sys
from collections.abc import Callable
from contextlib import chdir
from functools import wraps
from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError
from snakemake.io import IOFile
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from howmanygpus.base.secrets import hide_everywhere
from howmanygpus.base.version import VERSION
from howmanygpus.config.errors import ConfigError
from howmanygpus.config.findings import Finding, Severity
from howmanygpus.invocation import (
    available,
    closing_message,
    deciding,
    internals,
    interrupting,
    modules,
    passes,
    patches,
    starting,
    versions,
    waiting,
)
from howmanygpus.invocation.cluster import find_closures, find_misfits
from howmanygpus.invocation.disk import find_lack_of_space, list_folders, list_full_disks, refuse_lost_links
from howmanygpus.invocation.dry_run.printing import summarize_dry_run
from howmanygpus.invocation.failing import Failures, name_run, write_quietly
from howmanygpus.invocation.progress import adopting
from howmanygpus.invocation.rules.cluster import ClusterRules
from howmanygpus.invocation.rules.data import DataRules
from howmanygpus.invocation.rules.environments import EnvironmentRules
from howmanygpus.invocation.rules.functions import RuleFunctions
from howmanygpus.invocation.rules.largest import LargestRules
from howmanygpus.invocation.rules.parity import ParityRules
from howmanygpus.invocation.rules.products import ProductRules
from howmanygpus.invocation.rules.training import TrainingRules
from howmanygpus.invocation.rules.weights import OwnModelRules, WeightRules, fetch_first
from howmanygpus.paths import JOB_LOGS
from howmanygpus.prepare.acquire.acquisition import AcquisitionError
from howmanygpus.report.pages.first_page import read_first_page
from howmanygpus.site import retrying
from howmanygpus.site.concurrency import describe_concurrency, limit_measurements
from howmanygpus.site.environments.cache import CacheError, check_cache
from howmanygpus.site.jobs.completing import OlderResultsError, complete_attempts, refuse_older_results
from howmanygpus.site.jobs.invocations import InUseError, announce, refuse_folder_of_another, refuse_to_unlock
from howmanygpus.site.jobs.ledger import complete_and_list_jobs
from howmanygpus.site.machine import Machine, read_machine, resolve_machine_file
from howmanygpus.study.invalidation.pins import use_existing
from howmanygpus.study.plan import Plan
from howmanygpus.study.published import describe_sources


def in_place(method: Callable[["Invocation"], None]) -> Callable[["Invocation"], None]:
    """Return a method that Snakemake calls while no job runs, in the folder that holds `results/`."""

    @wraps(method)
    def call(self: "Invocation") -> None:
        with chdir(self.place):
            method(self)

    return call


class Invocation:
    """The call that reads the Snakefile: in a job on a cluster, it only has the plan and the rules' objects.

    workflow, config, logger: Snakemake's. config gets what the report shows.
    """

    def __init__(self, workflow: Any, config: dict, logger: Any):
        self._workflow, self._logger, self._is_job = workflow, logger, bool(workflow.remote_exec)
        self._is_module, self.place = modules.is_module(workflow), modules.find_place(workflow)
        self.place.mkdir(parents=True, exist_ok=True)
        RuleFunctions.root = self.place
        self._start = internals.find_start()
        if self.place != Path():
            self._start = self._start.resolve()
        self._is_dry_run = workflow.output_settings.dryrun
        self._findings: list[Finding] = []
        self._progress = None if self._is_module else adopting.adopt(workflow, logger)
        self._failures = Failures(workflow, logger.error)
        self._fit_into_snakemake()
        with chdir(self.place):
            self._prepare(config)

    def _prepare(self, config: dict) -> None:
        """Plan, and make what the rules use."""
        workflow = self._workflow
        self.machine, self.plan = self._plan(config)
        deciding.apply_decisions(self.plan, is_job=self._is_job)
        self._describe(config)
        self._make_rules()
        if not self._is_job and (wrong := self.products.find_wrong_timelines(sys.argv)):
            sys.exit("\n".join(f"snakemake: {message}" for message in wrong))
        if workflow.is_main_process:
            self._warn()
        if self._is_dry_run and not self._is_module:
            summarize_dry_run(workflow, self.plan, self._logger)
        if not self._is_job:
            atexit.register(self.data.save_contents)
            passes.fail_at_end(self._describe_untrained)
        if not (self._is_job or self._is_dry_run):
            if "--unlock" not in sys.argv and (full := list_full_disks(list_folders())):
                raise WorkflowError("\n".join(full))
            # Tables are made from the records of attempts, so these are completed before Snakemake reads them.
            self._settle_attempts()
            if self._is_module:
                # Snakemake calls `onstart` of a module only if the other workflow's `onstart` does.
                deciding.write_decisions(self.plan)

    def _fit_into_snakemake(self) -> None:
        patches.apply()
        interrupting.end_without_traceback()
        # A site's Snakemake may have no plugin for SLURM.
        if ExecutorPluginRegistry().is_installed("slurm"):
            from howmanygpus.invocation import executor

            executor.adopt()
            if self._is_job:
                executor.forget_requests()
        if self._workflow.is_main_process and passes.begin_pass() == 1:
            retrying.record_call_start()
            for untested in versions.list_untested():
                self._logger.warning(untested)

    def _plan(self, config: dict) -> tuple[Machine, Plan]:
        try:
            refuse_lost_links()
            if not self._is_job:
                refuse_folder_of_another()
            refuse_to_unlock(sys.argv)
            refuse_older_results()
            if not self._is_job:
                check_cache()
            packed = config.get("packed", False)
            machine = read_machine(resolve_machine_file(config.get("machine"), sys.argv, self._start), packed)
            use_existing(machine.environments)
            return machine, Plan(config, machine)
        except (CacheError, ConfigError, InUseError, OlderResultsError) as error:
            # A WorkflowError would name a file and a line as if the workflow were wrong.
            sys.exit(f"snakemake: {error}")

    def _describe(self, config: dict) -> None:
        """Add what the report shows: it begins with the answers, and describes the method by the whole config."""
        configs = {name: study.config for name, study in self.plan.studies.items()}
        config["first_page"] = read_first_page(configs, sys.argv)
        config["workflow_version"] = VERSION
        config["concurrency"] = describe_concurrency(self.machine)
        config["studies"] = {name: hide_everywhere(study.config) for name, study in self.plan.studies.items()}
        config["sources"] = {name: describe_sources(study.config) for name, study in self.plan.studies.items()}

    def _make_rules(self) -> None:
        # Snakemake has no persistence yet.
        plan, workflow = self.plan, self._workflow
        # Snakemake has no executor yet, and a number of jobs to submit only if it will submit some.
        submits = self.machine.submits and workflow.resource_settings.nodes is not None
        # Not in the profile: one --resources or --default-resources of a user drops all of a profile's.
        if limit := limit_measurements(self.machine, submits):
            workflow.register_resource("measurement", limit)
        if not submits:
            # Any other job takes a part, so that none runs beside a measured run.
            internals.set_default(workflow, "measurement", 1)
        place, is_job = self.place, self._is_job

        def find_inputs(path: str) -> list[str] | None:
            return workflow.persistence.input(IOFile(str(place / path)))

        self.training = TrainingRules(plan, find_inputs)
        self.data = DataRules(
            plan,
            lambda path: None if is_job else workflow.persistence.params(IOFile(str(place / path))),
            self._logger.info,
        )
        self.cluster = ClusterRules(plan)
        self.environments = EnvironmentRules(plan)
        self.parity, self.own_models = ParityRules(plan, find_inputs), OwnModelRules(plan)
        self.weights, self.largest = WeightRules(plan), LargestRules(plan)
        self.products = ProductRules(
            plan,
            lambda: available.builds_from_existing(workflow),
            lambda: available.makes_all(workflow, not self._is_module),
        )

    def _warn(self) -> None:
        """Print all that planning found; its errors refuse the call when it starts, so that a dry run goes on."""
        plan, workflow = self.plan, self._workflow
        account, partition = (starting.read_default(workflow, f"slurm_{what}") for what in ("account", "partition"))
        self._findings = [
            *starting.warn_about_deployment(workflow.deployment_settings.deployment_method),
            *starting.leave_out_requests(self.machine),
            *find_closures(plan, account, partition),
            *plan.find(),
            *find_misfits(plan),
            *find_lack_of_space(plan),
        ]
        for finding in self._findings:
            self._logger.warning(str(finding))

    def _describe_untrained(self) -> str:
        """Return the last message of a call that has done its steps and trained nothing; otherwise empty."""
        workflow = self._workflow
        if self._is_dry_run or self._is_module or workflow.touch or getattr(workflow, "scheduler", None) is None:
            return ""
        with chdir(self.place):
            return closing_message.describe_untrained(filter(None, map(name_run, workflow.dag.jobs)))

    def _settle_attempts(self) -> None:
        for record in complete_attempts():
            self._logger.info(f"{record.parent} had ended without a word; see its attempt.json")

    @in_place
    def start(self) -> None:
        """Refuse a call that cannot work, and follow its jobs. This is `onstart`."""
        workflow, warn = self._workflow, self._logger.warning
        interrupting.note_signals(workflow.scheduler)
        write_quietly(self._logger.handlers)
        if not self._is_module:
            self._logger.addFilter(self._failures)
        errors = [finding for finding in self._findings if finding.severity == Severity.ERROR]
        if refused := starting.refuse_to_start(self.plan, workflow, errors, warn):
            raise WorkflowError("\n".join(map(str, refused)))
        try:
            fetch_first(workflow.dag.needrun_jobs(), self.machine.published_weights)
        except AcquisitionError as error:
            raise WorkflowError(str(error)) from None
        deciding.write_decisions(self.plan)
        starting.announce_gate(workflow, self._logger.info)
        # The names of all jobs of a call end with this.
        name, logs = internals.name_call(workflow), internals.find_job_logs(workflow, JOB_LOGS)
        announce(name, warn, logs)
        if self.machine.submits and not workflow.local_exec:
            every_s = workflow.executor_settings.init_seconds_before_status_checks
            waiting.watch_queue(name, every_s, warn)
        if self._progress and not workflow.touch:
            self._progress.begin(self.plan, workflow)

    @in_place
    def succeed(self) -> None:
        """Complete the records, and let another pass follow or tell where the answer is. This is `onsuccess`."""
        self._end_jobs()
        workflow = self._workflow
        if not deciding.end_pass(self.plan, self._logger.info, is_last=bool(interrupting.find_interruption())):
            made = [path for job in workflow.dag.jobs for path in job.output]
            if answered := closing_message.describe_success(made, sys.argv, workflow.dag_settings.targets):
                self._logger.info(answered)

    @in_place
    def fail(self) -> None:
        """Complete the records, and tell what failed or interrupted the call. This is `onerror`."""
        self._end_jobs()
        self._failures.end_call()
        interruption, targets = interrupting.find_interruption(), self._workflow.dag_settings.targets
        is_last = bool(interruption) or not self._workflow.execution_settings.keep_going
        deciding.end_pass(self.plan, self._logger.info, is_last, has_failed=True)
        cause = next(iter(self._failures.causes), "")
        self._logger.error(closing_message.describe_end(interruption, self.machine.submits, sys.argv, targets, cause))

    def _end_jobs(self) -> None:
        interrupting.heed_signals()
        if self._progress:
            self._progress.end()
        self._logger.removeFilter(self._failures)
        self._settle_attempts()
        executor = self._workflow.scheduler._executor
        if hasattr(executor, "note_again") and (lost := executor.note_again()):
            self._logger.warning(f"The bill lacks the jobs {', '.join(lost)}: the disk is full, so nothing notes them.")
        complete_and_list_jobs()

"""Computes inputs, parameters and resources for the rules that plan and train."""

import json
from collections.abc import Callable

from howmanygpus.invocation.rules.functions import RuleFunctions
from howmanygpus.invocation.rules.products import list_judged_allreduces
from howmanygpus.measure.spec import INDEPENDENT
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.requests import JobSize, job_resources, placement
from howmanygpus.site.retrying import FIRST, Growth, compute_growth
from howmanygpus.study.invalidation.code import hash_program, hash_reference, hash_script, hash_training, hash_weights
from howmanygpus.study.invalidation.pins import environment_record
from howmanygpus.study.own.folder import ModelFolder
from howmanygpus.study.plan import Plan
from howmanygpus.study.program.study import LAUNCHERS as PROGRAM_LAUNCHERS
from howmanygpus.study.program.study import ProgramStudy
from howmanygpus.study.runs import Run
from howmanygpus.study.study import Study


class TrainingRules(RuleFunctions):
    """The wildcard of a run is `run`, its path. The plan and the tables of a study have the wildcard `study`.

    Snakemake compares parameters with those of the last execution, except parameters whose function takes `input`.
    """

    def __init__(self, plan: Plan, find_inputs: Callable[[str], list[str] | None] = lambda path: None):
        """find_inputs: returns the inputs of a file as Snakemake has recorded them, or None."""
        super().__init__(plan)
        self._find_inputs = find_inputs

    def run(self, wildcards) -> Run:
        return self._plan.runs[wildcards.run]

    def study(self, wildcards) -> Study:
        return self._plan.studies[wildcards.study]

    def code(self, wildcards) -> str:
        """Return the hash of the code that the run executes."""
        run = self.run(wildcards)
        study = self._plan.studies[run.study]
        if study.is_program:
            return hash_program()
        settings = study.settings_of(run)
        more = settings["trace"], settings["independent"]
        return hash_training(run.framework, study.code_of_model, settings["loader"], *more)

    def table_code(self, tables: list[str], uses_metric: bool) -> Callable:
        """Return a function from wildcards to the hash of the code that makes tables.

        The hash includes the study's quality metric if a table uses it.
        """

        def hash_code(wildcards) -> str:
            metric = [f"report.metrics.{self.study(wildcards).config['quality']['metric']}"] if uses_metric else []
            return hash_script("make_tables", *(f"report.tables.{table}" for table in tables), *metric)

        return hash_code

    def settings(self, wildcards) -> str:
        """Return as JSON the run's settings that differ from their defaults."""
        return self._plan.settings[wildcards.run]

    def data(self, wildcards) -> str | list:
        """Return the record of the prepared data, or nothing for a program of the user."""
        run = self.run(wildcards)
        study = self._plan.studies[run.study]
        return [] if study.is_program else f"{study.data_dir(run)}/dataset.json"

    def weights(self, wildcards) -> str | list:
        """Return the record of the initial weights, or nothing for a program. The weights are stored beside it."""
        run = self.run(wildcards)
        study = self._plan.studies[run.study]
        return [] if study.is_program else study.weights_file(run).removesuffix(".safetensors") + ".json"

    def network_options(self, wildcards) -> str:
        """Return as JSON the options of a network, whose name consists of the wildcards `model` and `options`."""
        return json.dumps(self._plan.networks[wildcards.model + wildcards.options] if wildcards.options else {})

    def weights_code(self, wildcards) -> str:
        """Return the hash of the code that draws the initial weights of a network."""
        return hash_weights(self._collect_code(wildcards))

    def reference_code(self, wildcards) -> str:
        """Return the hash of the code of the gate's reference for a network."""
        return hash_reference(self._collect_code(wildcards))

    def noise_code(self, wildcards) -> str:
        """Return the hash of the code that measures what reduced precision may change in the gate's task."""
        return hash_reference(self._collect_code(wildcards), "gate.rounding_noise")

    def _collect_code(self, wildcards) -> str | ModelFolder:
        return self._plan.model_folders.get(wildcards.model, wildcards.model)

    def model_folder(self, wildcards, input) -> str:
        """Return the user's folder that a network is in, or nothing for one of the workflow.

        As a parameter that depends on `input`, it reruns nothing by itself.
        """
        folder = self._plan.model_folders.get(wildcards.model)
        return folder.path if folder else ""

    def environment(self, wildcards) -> str | list:
        """Return the record of the run's environment, or nothing for a program that brings its own."""
        run = self.run(wildcards)
        study = self._plan.studies[run.study]
        if not isinstance(study, ProgramStudy):
            return environment_record(self._plan.cells[wildcards.run].environment)
        name = study.environment(run)
        return environment_record(name) if name else []

    def verdict(self, wildcards) -> str | list:
        """Return the verdict of the parity gate, or nothing for a program."""
        return self._plan.verdicts.get(wildcards.run, [])

    def probe(self, wildcards) -> list[str]:
        """Return the probe of a program's devices on a cluster. Other runs wait for it by their verdict.

        With `judge_network: refuse` there is the all-reduce measurement of the run's devices, without which it does
        not begin. A run that was made without these inputs is not repeated for them.
        """
        run = self.run(wildcards)
        if not self._machine.is_cluster:
            return []
        study = self._plan.studies[run.study]
        needed = [f"results/probe/{run.device}.json"] if study.is_program else []
        needed += list_judged_allreduces(self._machine, study, run)
        inputs = self._find_inputs(f"results/runs/{run.path}/run.json") if needed else None
        return [path for path in needed if inputs is None or path in inputs]

    def launch(self, wildcards, input) -> str:
        """Return as JSON the settings that affect no result: the effect of a failed gate (`parity`), and how processes
        start.

        With a budget it has the minutes that are left for the run (`limit_min`). It has the place of a user's model,
        because the model's code is a parameter of its own, and `reference`, with which site.reference finds out how
        the reference kernel is measured. It is one parameter, because each one costs planning time.
        """
        run = self.run(wildcards)
        study, how = self._plan.studies[run.study], placement(self._machine, self._machine.device(run.device))
        own, limit_min = study.own_model, self._plan.limits_min.get(wildcards.run)
        place = "".join(f', "{key}": {json.dumps(path)}' for key, path in (own.place if own else {}).items())
        place += "" if limit_min is None else f', "limit_min": {limit_min}'
        place += f', "reference": {self._describe_reference(run.device)}' if self._machine.reference_kernel else ""
        return f'{{"parity": "{study.config["parity"]}", "placement": {how}{place}}}'

    def _describe_reference(self, name: str) -> str:
        """Return as JSON how many devices of a name a node has, and the environment that measures them."""
        device = self._machine.device(name)
        environments = FRAMEWORKS["pytorch_ddp"].environments
        record = environment_record(environments["cuda"]) if device.kind == "cuda" else None
        return json.dumps({"environment": record, "num_devices": device.devices_per_node})

    def priority(self, wildcards) -> int:
        return self._plan.priorities[wildcards.run]

    def num_gpus(self, wildcards) -> int:
        return self.run(wildcards).num_gpus

    def size(self, wildcards) -> JobSize:
        run = self.run(wildcards)
        device, limit_min = self._machine.device(run.device), self._plan.studies[run.study].config["time_limit_min"]
        study = self._plan.studies[run.study]
        if isinstance(study, ProgramStudy):
            launcher = PROGRAM_LAUNCHERS[study.program["start"]]
        elif study.settings_of(run)["independent"]:
            launcher = INDEPENDENT
        else:
            launcher = FRAMEWORKS[run.framework].launcher
        return JobSize(device, launcher, run.num_gpus, self._machine.count_nodes(run), limit_min)

    def requested(self, wildcards, resources) -> str:
        """Return as JSON the resources of a run's first job, with the account that the profile names for all jobs."""
        found = job_resources(self._machine, self.size(wildcards), FIRST)
        return json.dumps(found | {"slurm_account": resources.get("slurm_account")})

    def growth(self, wildcards, attempt) -> Growth:
        """Return how much more an attempt requests than the first one in this call."""
        return compute_growth(wildcards.run, attempt)

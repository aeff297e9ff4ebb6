"""Computes inputs, parameters and resources for the rules whose jobs use devices."""

import json
from collections.abc import Callable

from howmanygpus.invocation.rules.functions import RuleFunctions, with_signature
from howmanygpus.invocation.rules.products import OF_PROGRAM
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.machine import Device
from howmanygpus.site.offer import Offer, ask_for_offer
from howmanygpus.site.requests import JobSize, expectation, job_resources, list_resources, placement
from howmanygpus.site.retrying import FIRST, Growth, compute_growth_of_job
from howmanygpus.study.invalidation.code import hash_allreduce
from howmanygpus.study.invalidation.pins import environment_record
from howmanygpus.study.plan import Plan

LIMIT_MIN = 10
"""Time limit in minutes of the probe and of the all-reduce measurement."""


class ClusterRules(RuleFunctions):
    """The wildcards are `device`, which is a name of the machine file, `num_gpus`, `spread` and `weights`.

    `spread` is empty for the fewest nodes that hold the devices, else `_nodes2` for two nodes, for example.
    """

    def __init__(self, plan: Plan):
        super().__init__(plan)
        self._offers: dict[tuple, Offer] = {}

    def resources(self, get_size: Callable[..., JobSize], get_growth: Callable[..., Growth]) -> dict[str, Callable]:
        """Return the resources of a rule whose jobs use devices.

        get_size: maps wildcards to the size of the job. get_growth: maps wildcards and the number of the attempt to
        what the attempt requests. If runs are not jobs of a cluster, the only resource is the time limit. Otherwise
        site.requests lists the resources.
        """

        def ask(resource: str) -> Callable:
            def get(wildcards, attempt):
                size, growth = get_size(wildcards), get_growth(wildcards, attempt)
                offer = self._offer(size.device) if growth != FIRST else None
                return job_resources(self._machine, size, growth, offer)[resource]

            return with_signature(get)

        return {resource: ask(resource) for resource in list_resources(self._machine)}

    def _offer(self, device: Device) -> Offer | None:
        """Return what the cluster offers to jobs on a device. An answer is kept, since it seldom changes."""
        key = tuple(device.options[name] for name in ("partition", "request", "constraint"))
        is_new = self._machine.submits and key not in self._offers
        if is_new and (offer := ask_for_offer(device.options)):
            self._offers[key] = offer
        return self._offers.get(key)

    def growth(self, rule: str) -> Callable[..., Growth]:
        """Return a function from wildcards and attempt to the growth of a rule's job that is no run."""
        return lambda wildcards, attempt: compute_growth_of_job(rule, wildcards, attempt)

    def probe_size(self, wildcards) -> JobSize:
        """Return the size of the probe's job, which is one whole node."""
        device = self._machine.device(wildcards.device)
        return JobSize(device, "plain", device.devices_per_node, 1, LIMIT_MIN)

    def expectation(self, wildcards) -> str:
        """Return as JSON what the machine file states about a device and what the studies require of it."""
        device = self._machine.device(wildcards.device)
        frameworks = {run.framework for run in self._plan.runs.values() if run.device == wildcards.device}
        frameworks &= FRAMEWORKS.keys()  # a program of the user is none
        studies = [study for study in self._plan.studies.values() if study.is_program]
        used = [study for study in studies if any(run.device == wildcards.device for run in study.runs)]
        modules = [study.config["program"]["modules"] for study in used]
        longest_min = self._longest_job_min(wildcards.device)
        return json.dumps(expectation(self._machine, device, frameworks, modules, longest_min))

    def _longest_job_min(self, device: str) -> float:
        """Return the longest time limit in minutes of a job on a device, at its first attempt.

        With a quality of service it is 0, because such a job may exceed the limit of its partition.
        """
        if self._machine.device(device).options.get("qos") is not None:
            return 0
        studies = [study for study in self._plan.studies.values() if any(run.device == device for run in study.runs)]
        limits = [study.config["time_limit_min"] for study in studies]
        return max(limits, default=0) + self._machine.slurm["overhead_min"]

    def probe_of_device(self, wildcards) -> str | list:
        """Return the probe of a device, or nothing if the machine is not a cluster."""
        return f"results/probe/{wildcards.device}.json" if self._machine.is_cluster else []

    def allreduce_code(self, wildcards) -> str:
        return hash_allreduce()

    def allreduce_environment(self, wildcards) -> str:
        environments = FRAMEWORKS["pytorch_ddp"].environments
        return environment_record(environments[self._machine.device(wildcards.device).kind])

    def gradients(self, wildcards) -> str:
        """Return the record of the weights with the gradients, or of a run whose program reports its parameters."""
        if not wildcards.weights.startswith(OF_PROGRAM):
            return f"results/weights/{wildcards.weights}.json"
        study = self._plan.studies[wildcards.weights.removeprefix(OF_PROGRAM)]
        own = [run for run in study.runs if run.variant == next(iter(study.variants)) and not run.unsupported]
        return f"results/runs/{min(own, key=lambda run: (run.num_gpus, run.repeat)).path}/run.json"

    def allreduce_device(self, wildcards) -> str:
        """Return as JSON the device of a measurement, as measure.allreduce expects it."""
        device, name = self._machine.device(wildcards.device), wildcards.device
        return json.dumps({"device": name, "device_kind": device.kind, "cores_per_device": device.cores_per_device})

    def allreduce_size(self, wildcards) -> JobSize:
        device, num_gpus = self._machine.device(wildcards.device), int(wildcards.num_gpus)
        return JobSize(device, "per_device", num_gpus, self.num_nodes(wildcards), LIMIT_MIN)

    def num_nodes(self, wildcards) -> int:
        fewest = self._machine.device(wildcards.device).num_nodes(int(wildcards.num_gpus))
        return int(wildcards.spread.removeprefix("_nodes") or fewest)

    def link(self, wildcards) -> str:
        """Return as JSON what the links of a device can do, as the machine file states it."""
        return json.dumps(self._machine.device(wildcards.device).options.get("link_gb_per_s") or {})

    def judge(self, wildcards) -> str:
        """Return what an all-reduce below its link leads to."""
        return self._machine.slurm["judge_network"] if self._machine.is_cluster else "report"

    def placement(self, wildcards, input) -> str:
        return placement(self._machine, self._machine.device(wildcards.device))

"""What the rules of environments ask."""

import json

from howmanygpus.environments.pins import HOROVOD_SOURCE, find_horovod_base, find_horovod_tools, find_pins
from howmanygpus.plan.config.machine import Machine
from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.plan.invalidation.pins import EXISTING, environment_record
from howmanygpus.plan.rules.answers import Answers


class EnvironmentRules(Answers):
    """Wildcards: `environment` and `pins_hash`."""

    def __init__(self, machine: Machine):
        super().__init__()
        self._machine = machine

    def pins(self, wildcards) -> list[str]:
        return [str(path) for path in find_pins(wildcards.environment)]

    def existing(self, wildcards) -> str:
        """JSON: the interpreter of the machine file that takes the environment's place, or null."""
        return json.dumps(EXISTING.get(wildcards.environment))

    def wheels(self, wildcards) -> str | list:
        """Record of wheels fetched before, if environments are built in jobs without a network."""
        if self._machine.slurm["compute_nodes_have_network"] or wildcards.environment in self._machine.environments:
            return []
        return f"results/environments/{wildcards.environment}-{wildcards.pins_hash}.wheels.json"

    def horovod(self, wildcards) -> str | list:
        """Record of the Horovod wheel that was built for an environment, if it has one."""
        if find_horovod_base(wildcards.environment) is None or wildcards.environment in self._machine.environments:
            return []
        return f"results/environments/{wildcards.environment}-{wildcards.pins_hash}.horovod.json"

    def horovod_base(self, wildcards) -> str:
        base = find_horovod_base(wildcards.environment)
        assert base is not None, f"{wildcards.environment} has no Horovod"
        return environment_record(base)

    def horovod_family(self, wildcards) -> str:
        entries = FRAMEWORKS.values()
        return next(entry.family for entry in entries if wildcards.environment in entry.environments.values())

    def horovod_device(self, wildcards) -> str:
        return "cpu" if wildcards.environment.endswith("-cpu") else "cuda"

    def horovod_tools(self, wildcards) -> list[str]:
        """Pins of what builds the environment's Horovod; nothing if it has none."""
        tools = find_horovod_tools(wildcards.environment) if find_horovod_base(wildcards.environment) else ()
        return [str(path) for path in tools]

    def horovod_source(self, wildcards) -> str | list:
        return str(HOROVOD_SOURCE) if find_horovod_base(wildcards.environment) else []

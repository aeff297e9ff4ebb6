"""Computes inputs and parameters for the rules that build environments."""

import json
from pathlib import Path

from howmanygpus.clone import CLONE
from howmanygpus.invocation.rules.functions import RuleFunctions
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.environments.pins import HOROVOD_SOURCE, list_horovod_tools, list_pin_files, resolve_horovod_base
from howmanygpus.study.invalidation.pins import EXISTING, environment_record
from howmanygpus.study.invalidation.recorded import AliasedParameter


class EnvironmentRules(RuleFunctions):
    """The wildcards are `environment` and `pins_hash`."""

    def pins(self, wildcards) -> list[str]:
        return list(map(_record_briefly, list_pin_files(wildcards.environment)))

    def existing(self, wildcards) -> str:
        """Return as JSON the interpreter of the machine file that replaces the environment, or null."""
        return json.dumps(EXISTING.get(wildcards.environment))

    def wheels(self, wildcards) -> str | list:
        """Return the record of the wheels fetched in advance, if jobs without a network build the environment."""
        if self._machine.slurm["compute_nodes_have_network"] or wildcards.environment in self._machine.environments:
            return []
        return f"results/environments/{wildcards.environment}-{wildcards.pins_hash}.wheels.json"

    def horovod(self, wildcards) -> str | list:
        """Return the record of the Horovod wheel built for an environment, if the environment contains Horovod."""
        if resolve_horovod_base(wildcards.environment) is None or wildcards.environment in self._machine.environments:
            return []
        return f"results/environments/{wildcards.environment}-{wildcards.pins_hash}.horovod.json"

    def horovod_base(self, wildcards) -> str:
        base = resolve_horovod_base(wildcards.environment)
        assert base is not None, f"{wildcards.environment} has no Horovod"
        return environment_record(base)

    def horovod_family(self, wildcards) -> str:
        entries = FRAMEWORKS.values()
        return next(entry.family for entry in entries if wildcards.environment in entry.environments.values())

    def horovod_device(self, wildcards) -> str:
        return "cpu" if wildcards.environment.endswith("-cpu") else "cuda"

    def horovod_tools(self, wildcards) -> list[str]:
        """Return the pin files of the tools that build Horovod, or nothing if the environment has no Horovod."""
        tools = list_horovod_tools(wildcards.environment) if resolve_horovod_base(wildcards.environment) else ()
        return list(map(_record_briefly, tools))

    def horovod_source(self, wildcards) -> str | list:
        return _record_briefly(HOROVOD_SOURCE) if resolve_horovod_base(wildcards.environment) else []


def _record_briefly(path: Path) -> str:
    """Return the path of a file of the workflow, recorded without the folder that has the workflow."""
    return AliasedParameter(str(path), str(path.relative_to(CLONE)))

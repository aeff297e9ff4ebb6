"""Computes inputs, parameters and resources for the rule that searches the largest batch."""

import json

from howmanygpus.invocation.rules.functions import RuleFunctions
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.requests import JobSize, placement
from howmanygpus.study.invalidation.code import hash_program_search, hash_search
from howmanygpus.study.invalidation.pins import environment_record
from howmanygpus.study.largest.search import ProgramSearch, Search
from howmanygpus.study.program.study import LAUNCHERS, ProgramStudy
from howmanygpus.study.runs import usual_layout
from howmanygpus.study.study import Study

LIMIT_MIN = 120
"""Time limit in minutes of a search. A further attempt goes on from the tries of the first."""


class LargestRules(RuleFunctions):
    """The wildcard is `search`, the name of a search. Studies that share it agree in everything that affects a try."""

    def _search(self, wildcards) -> Search | ProgramSearch:
        return self._plan.searches[wildcards.search][0]

    def _studies(self, wildcards) -> list[Study]:
        return self._plan.searches[wildcards.search][1]

    def request(self, wildcards) -> str:
        return self._search(wildcards).request()

    def code(self, wildcards) -> str:
        """Return the hash of the code that a try executes, and that decides what is tried."""
        study = self._studies(wildcards)[0]
        if study.is_program:
            return hash_program_search()
        return hash_search(self._search(wildcards).framework, study.code_of_model)

    def weights(self, wildcards) -> str | list:
        """Return the record of the initial weights, which are stored beside it, or nothing for a program."""
        search = self._search(wildcards)
        return [] if isinstance(search, ProgramSearch) else search.weights_file.removesuffix(".safetensors") + ".json"

    def environment(self, wildcards) -> str | list:
        """Return the record of the environment, or nothing for a program that brings its own."""
        study = self._studies(wildcards)[0]
        if not isinstance(study, ProgramStudy):
            return environment_record(self._plan.search_cells[wildcards.search][0].environment)
        name = study.environment_on(self._machine.device(self._search(wildcards).device))
        return environment_record(name) if name else []

    def verdict(self, wildcards) -> str | list:
        """Return a verdict of the parity gate on the framework; the same one in whatever order the studies are.

        There is none on a program.
        """
        if isinstance(self._search(wildcards), ProgramSearch):
            return []
        return min(cell.verdict for cell in self._plan.search_cells[wildcards.search])

    def studies(self, wildcards, input) -> list[str]:
        """Return the names of the studies that share the bill of a search."""
        return [study.name for study in self._studies(wildcards)]

    def launch(self, wildcards, input) -> str:
        """Return as JSON the settings that affect no result. They depend on `input`, so they rerun nothing."""
        search, studies = self._search(wildcards), self._studies(wildcards)
        device, own = self._machine.device(search.device), studies[0].own_model
        gates = {study.config["parity"] for study in studies}
        how = {
            "parity": next(mode for mode in ("off", "report", "required") if mode in gates),
            "placement": json.loads(placement(self._machine, device)),
            "usual_kind": usual_layout(search.device)["device_kind"],
            "memory_mb": device.options["memory_per_device_mb"] if self._machine.submits else None,
            "devices_of_host": max(1, device.devices_per_node),
        }
        return json.dumps(how | (own.place if own else {}))

    def size(self, wildcards) -> JobSize:
        search = self._search(wildcards)
        device = self._machine.device(search.device)
        study = self._studies(wildcards)[0]
        if isinstance(study, ProgramStudy):
            return JobSize(device, LAUNCHERS[study.program["start"]], 1, 1, LIMIT_MIN)
        return JobSize(device, FRAMEWORKS[search.framework].launcher, 1, 1, LIMIT_MIN)

"""What the rules of the parity gate ask."""

import re

from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.plan.invalidation.code import hash_parity
from howmanygpus.plan.invalidation.pins import environment_record
from howmanygpus.plan.jobs import JobSize, placement
from howmanygpus.plan.parity import ParityCell
from howmanygpus.plan.plan import Plan
from howmanygpus.plan.rules.answers import Answers

LIMIT_MIN = 30
"""Time limit of the gate in minutes; resnet44 on every layout takes a few."""


class ParityRules(Answers):
    """Wildcards: `task` and `checked`, folder and file of a verdict."""

    def __init__(self, plan: Plan):
        super().__init__()
        self._plan, self._machine = plan, plan.machine

    def cell(self, wildcards) -> ParityCell:
        return self._plan.parity_cells[f"results/parity/{wildcards.task}/{wildcards.checked}.json"]

    def request(self, wildcards) -> str:
        return self.cell(wildcards).request()

    def code(self, wildcards) -> str:
        cell = self.cell(wildcards)
        return hash_parity(cell.framework, cell.model)

    def environment(self, wildcards) -> str:
        return environment_record(self.cell(wildcards).environment)

    def probe(self, wildcards) -> str | list:
        """What was found on the cell's devices; nothing on one machine."""
        return f"results/probe/{self.cell(wildcards).device}.json" if self._machine.is_cluster else []

    def layouts(self, wildcards) -> list[str]:
        """Devices x nodes that are checked."""
        cell = self.cell(wildcards)
        return cell.layouts(self._machine.device(cell.device))

    def placement(self, wildcards, input) -> str:
        return placement(self._machine, self._machine.device(self.cell(wildcards).device))

    def size(self, wildcards) -> JobSize:
        """The job's size: the maximum over the cell's layouts."""
        cell = self.cell(wildcards)
        layouts = [tuple(map(int, layout.split("x"))) for layout in self.layouts(wildcards)]
        num_nodes = max(nodes for _, nodes in layouts)
        num_gpus = num_nodes * max(devices // nodes for devices, nodes in layouts)
        launcher = FRAMEWORKS[cell.framework].launcher
        return JobSize(self._machine.device(cell.device), launcher, num_gpus, num_nodes, LIMIT_MIN)

    def num_gpus(self, wildcards) -> int:
        return self.size(wildcards).num_gpus

    def match_unchecked(self) -> str:
        """Regular expression of the verdicts that no study asks for, without folder and suffix."""
        unchecked = self._plan.parity_cells.keys() - self._plan.checked_verdicts
        names = [re.escape(path.removeprefix("results/parity/").removesuffix(".json")) for path in sorted(unchecked)]
        return "|".join(names) or "(?!)"

    def unchecked_request(self, wildcards) -> str:
        return self._plan.parity_cells[f"results/parity/{wildcards.unchecked}.json"].request()

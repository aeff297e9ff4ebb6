"""Computes inputs, parameters and resources for the rules of the parity gate."""

import json
import re
from collections.abc import Callable

from howmanygpus.invocation.rules.functions import RuleFunctions
from howmanygpus.invocation.rules.products import list_judged_allreduces
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.concurrency import MEASURED_RUN
from howmanygpus.site.machine import Machine
from howmanygpus.site.requests import JobSize, placement
from howmanygpus.study.gate_cells import ParityCell, ParityGroup, list_gated_defaults
from howmanygpus.study.invalidation.code import hash_parity
from howmanygpus.study.invalidation.pins import environment_record
from howmanygpus.study.plan import Plan

LIMIT_MIN = 30
"""Time limit in minutes for the observation of a group. The model resnet44 takes a few minutes on all layouts."""


def resolve_limit_min(machine: Machine) -> int:
    """Return the time limit in minutes for the observation of a group; the machine file of a cluster may change it."""
    return machine.slurm.get("gate_limit_min", LIMIT_MIN) if machine.is_cluster else LIMIT_MIN


def name_task(wildcards) -> str:
    """Return the name of a task's folder. The wildcards are those of a network's task, or of a user's own model's."""
    network = getattr(wildcards, "own_model", None) or wildcards.model
    size = f"{wildcards.height}x{wildcards.width}x{wildcards.channels}_classes{wildcards.num_classes}"
    return f"{network}{wildcards.options}_{size}_{wildcards.batchnorm}{wildcards.variation}"


class ParityRules(RuleFunctions):
    """The wildcards are `group` (name of a group's observations), `task` and `checked` (a verdict's path)."""

    def __init__(self, plan: Plan, find_inputs: Callable[[str], list[str] | None] = lambda path: None):
        """find_inputs: returns the inputs of a file as Snakemake has recorded them, or None."""
        super().__init__(plan)
        self._find_inputs = find_inputs

    def _group(self, wildcards) -> ParityGroup:
        return self._plan.parity_groups[wildcards.group]

    def _cell(self, wildcards) -> ParityCell:
        return self._plan.parity_cells[f"results/parity/{wildcards.task}/{wildcards.checked}.json"]

    def observing_code(self, wildcards) -> str:
        """Return the hashes of the observing code that no run executes. The group's name covers the other code."""
        group = self._group(wildcards)
        models = dict.fromkeys(cell.code_of_model for cell in group.cells)
        return " ".join(hash_parity(group.first.framework, model) for model in models)

    def group_request(self, wildcards) -> str:
        return self._group(wildcards).request()

    def defaults(self, wildcards, input) -> str:
        """Return as JSON the default of each setting that the task does not choose.

        As it depends on `input`, it reruns nothing.
        """
        return json.dumps(list_gated_defaults())

    def references(self, wildcards) -> list[str]:
        return self._group(wildcards).references

    def environment(self, wildcards) -> str:
        return environment_record(self._group(wildcards).first.environment)

    def probe(self, wildcards) -> str | list:
        """Return the record of the probe of the group's devices, or nothing if the machine is not a cluster."""
        return self._probe(self._group(wildcards).first.device)

    def allreduces(self, wildcards) -> list[str]:
        """Return the all-reduce measurements that runs of the group's cells wait for; see list_judged_allreduces.

        What is observed for them costs devices too. A group that was observed without them is not observed again.
        """
        plan, verdicts = self._plan, {cell.verdict for cell in self._group(wildcards).cells}
        runs = [plan.runs[path] for path, verdict in plan.verdicts.items() if verdict in verdicts]
        asked = filter(plan.is_asked_for, runs)
        needed = [path for run in asked for path in list_judged_allreduces(self._machine, plan.studies[run.study], run)]
        inputs = self._find_inputs(f"results/parity/observed/{wildcards.group}.json") if needed else None
        return [path for path in dict.fromkeys(needed) if inputs is None or path in inputs]

    def probe_of_unchecked(self, wildcards) -> str | list:
        return self._probe(self._plan.parity_cells[f"results/parity/{wildcards.unchecked}.json"].device)

    def _probe(self, device: str) -> str | list:
        return f"results/probe/{device}.json" if self._machine.is_cluster else []

    def layouts(self, wildcards) -> str:
        """Return as JSON the keys of the cells to observe, by layout (devices x nodes)."""
        return json.dumps(self._group(wildcards).layouts)

    def studies(self, wildcards, input) -> str:
        """Return as JSON the studies that need each cell of the group, by the cell's key. They share its bill."""
        needing: dict[str, list[str]] = {}
        for study, cell in self._plan.gated:
            for needed in filter(None, (cell, cell.strict)):
                names = needing.setdefault(needed.verdict, [])
                names += [study.name] if study.name not in names and study.config["parity"] != "off" else []
        return json.dumps({cell.key: needing[cell.verdict] for cell in self._group(wildcards).cells})

    def placement(self, wildcards, input) -> str:
        return placement(self._machine, self._group(wildcards).first.hardware)

    def devices(self, wildcards) -> list[int]:
        """Return the numbers of devices on which cells of a task are observed, with those of an earlier reference.

        Calls for one and for several devices that take turns repeat nothing.
        """
        found = {*self._read_earlier(wildcards, "devices")}
        for cell in self._cells_of_task(wildcards):
            found |= {int(layout.split("x")[0]) for layout in cell.layouts}
        return sorted(found)

    def precisions(self, wildcards) -> list[str]:
        """Return the precisions of the cells of a task, with those of an earlier reference."""
        found = {cell.precision for cell in self._cells_of_task(wildcards)}
        return sorted(found.union(self._read_earlier(wildcards, "precisions")))

    def _cells_of_task(self, wildcards) -> list[ParityCell]:
        cells = (self._plan.parity_cells[verdict] for verdict in self._plan.checked_verdicts)
        return [cell for cell in cells if cell.task == name_task(wildcards)]

    def _read_earlier(self, wildcards, key: str) -> list:
        """Return a list from the reference of a task that was computed before; empty if there is none."""
        earlier = self.root / "results" / "parity" / name_task(wildcards) / "reference.json"
        return json.loads(earlier.read_text()).get(key, []) if earlier.exists() else []

    def size(self, wildcards) -> JobSize:
        """Return the size of the group's job, which is the maximum over its layouts."""
        cell = self._group(wildcards).first
        layouts = [tuple(map(int, layout.split("x"))) for layout in self._group(wildcards).layouts]
        num_nodes = max(nodes for _, nodes in layouts)
        num_gpus = num_nodes * max(devices // nodes for devices, nodes in layouts)
        limit_min = resolve_limit_min(self._machine)
        return JobSize(cell.hardware, FRAMEWORKS[cell.framework].launcher, num_gpus, num_nodes, limit_min)

    def measurement(self, wildcards) -> int:
        """Return the part of `measurement` that observing takes.

        Nothing is timed then. On one machine, references and noise may be computed beside it, but no run is measured,
        and no other group is observed, whose devices would be the same.
        """
        return MEASURED_RUN if self._machine.submits else MEASURED_RUN // 2 + 1

    def num_gpus(self, wildcards) -> int:
        return self.size(wildcards).num_gpus

    def observed(self, wildcards) -> str:
        """Return the record of the observations on which the verdict is based."""
        cell = self._cell(wildcards)
        name = next(name for name, group in self._plan.parity_groups.items() if cell in group.cells)
        return f"results/parity/observed/{name}.json"

    def key(self, wildcards) -> str:
        """Return the name of the cell within its group."""
        return self._cell(wildcards).key

    def strict(self, wildcards) -> str | list:
        """Return the verdict that this one requires: that on the strict cell, unless this is one."""
        strict = self._cell(wildcards).strict
        return strict.verdict if strict else []

    def noise(self, wildcards) -> str | list:
        """Return the record of the changes by reduced precision, if this verdict needs it."""
        return self._cell(wildcards).noise or []

    def request(self, wildcards) -> str:
        return self._cell(wildcards).request()

    def cell_layouts(self, wildcards) -> list[str]:
        return self._cell(wildcards).layouts

    def planned(self, wildcards) -> dict[str, dict]:
        """Return what the runs behind each verdict do, by the verdict's path; see describe_planned."""
        return self._plan.planned

    def match_unchecked(self) -> str:
        """Return a regular expression that matches the unchecked verdicts, without results/parity/ and suffix."""
        unchecked = self._plan.parity_cells.keys() - self._plan.checked_verdicts
        names = [re.escape(path.removeprefix("results/parity/").removesuffix(".json")) for path in sorted(unchecked)]
        return "|".join(names) or "(?!)"

    def match_task(self) -> str:
        """Return a regular expression for the task of a checked verdict.

        It looks ahead and refuses unchecked verdicts, observations and references. Otherwise Snakemake would try both
        rules for each of them, and would print an exception for each run.
        """
        return rf"(?!(?:{self.match_unchecked()}|observed/[^/]+|[^/]+/(?:reference|noise))\.json$)[^/]+"

    def unchecked_request(self, wildcards) -> str:
        return self._plan.parity_cells[f"results/parity/{wildcards.unchecked}.json"].request()

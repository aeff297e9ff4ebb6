"""A study of a user's own program: the same grid, without data, weights and parity gate of the workflow."""

import itertools
from typing import Any

from howmanygpus.plan.config.checks import check_quality, check_seeds
from howmanygpus.plan.config.errors import Errors
from howmanygpus.plan.config.machine import Device, Machine
from howmanygpus.plan.config.schema import drop_defaults, fill_defaults, read_schema, study_defaults
from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.plan.largest.resolving import refuse_max
from howmanygpus.plan.program.axes import expand_axes
from howmanygpus.plan.program.checks import (
    check_command,
    check_keys,
    check_name,
    check_report,
    check_surroundings,
    doubt_files,
    doubt_programs,
    doubt_ranks,
    doubt_report,
)
from howmanygpus.plan.program.files import expand_paths, hash_program_files
from howmanygpus.plan.runs import Run, drop_usual_layout, usual_layout
from howmanygpus.plan.study.cells import choose_runs, list_batches
from howmanygpus.plan.study.counts import take_counts
from howmanygpus.plan.study.grid import check_layouts, check_number, resolve_devices
from howmanygpus.plan.study.placing import choose_nodes, find_misplacement, take_numbers
from howmanygpus.plan.study.published import check_published
from howmanygpus.plan.study.study import Study

INPUT, DATASET = "program", "own_data"
"""Input and data set in paths and tables, because only the program knows the real ones."""
LAUNCHERS = {"once": "plain", "per_node": "per_node", "per_device": "per_device", "mpirun": "mpirun"}
"""Launchers of train.start.launchers, by how the program starts."""


def program_defaults() -> dict:
    schema = read_schema("config")
    return fill_defaults({"command": ""}, schema["$defs"]["program"], schema)


def complete_program_spec(run: Run, settings: dict) -> dict:
    """Return the complete specification of a run: the fields of howmanygpus.train.program.spec.ProgramSpec.

    settings: all values that differ from their defaults, as ProgramStudy.settings returns them.
    """
    defaults = study_defaults()
    program = program_defaults() | settings["program"]
    return {
        **run.identity,
        **{"dataset": DATASET, "model": run.framework, "model_options": {}},
        **{key: settings.get(key, usual) for key, usual in usual_layout(run.device).items()},
        "accumulate": 1,
        "global_batch_size": run.num_gpus * run.per_device_batch_size,
        "seed": settings.get("seed", defaults["seed"]) + run.repeat - 1,
        **{"family": "program", "strategy": program["start"], "launcher": LAUNCHERS[program["start"]]},
        "warmup_steps": settings.get("warmup_steps", defaults["warmup_steps"]),
        "program": {key: value for key, value in program.items() if key != "name"},
    }


class ProgramStudy(Study):
    """One study with a program. Its framework and its model are the program's name, and its variants the axes."""

    is_program = True
    own_model = None

    def __init__(self, name: str, given: dict, machine: Machine, schema: dict, place: str):
        self.name, self.place, self.machine = name, place, machine
        self.defaults = study_defaults()
        check_keys(place, given)
        filled = fill_defaults(given, schema["$defs"]["study"], schema)
        where = f"{place}.program"
        self.program = expand_paths(where, filled["program"])
        program_name = self.program["name"] or name
        self.variants = expand_axes(f"{where}.axes", self.program["axes"])
        errors = Errors()
        with errors.collect():
            check_name(where, program_name)
        with errors.collect():
            check_published(place, filled["published"])
        with errors.collect():
            check_surroundings(where, self.program)
            check_command(where, self.program, filled)
        with errors.collect():
            check_quality(f"{place}.quality", filled["quality"])
            check_report(where, self.program, filled["quality"], "thresholds" in given.get("quality", {}))
        errors.raise_all()
        self.files = hash_program_files(f"{where}.files", self.program["files"])
        own = {"dataset": DATASET, "model": program_name, "frameworks": [program_name], "inputs": [INPUT]}
        self._accumulations = {}
        take_numbers(filled)
        refuse_max(place, filled)
        self.lacking = take_counts(place, filled, machine)
        self.config = filled | own | {"parity": "off", "variants": {variant: {} for variant in self.variants}}
        self.runs = self._expand()
        check_layouts(self)
        check_seeds(place, filled)

    def _expand(self) -> list[Run]:
        config = self.config
        devices = resolve_devices(self.place, config["devices"], self.machine)
        axes = [self.variants, config["precision"], devices, list_batches(self), config["num_nodes"] or [None]]
        check_number(self.place, axes, config["repeats"])
        cells = itertools.product(*axes, range(1, config["repeats"] + 1))
        runs = []
        for variant, precision, device, (num_gpus, size), wanted, repeat in cells:
            known = self.machine.device(device)
            nodes = choose_nodes(known, num_gpus, wanted)
            layout = (num_gpus, nodes or known.num_nodes(num_gpus))
            reason = find_misplacement(known, num_gpus, wanted) or self._find_unsupported_reason(known, layout)
            cell = (config["model"], variant, INPUT, precision, device, num_gpus, size, repeat)
            runs.append(Run(self.name, *cell, nodes, reason))
        return choose_runs(self, runs)

    def _find_unsupported_reason(self, device: Device, layout: tuple[int, int]) -> str:
        (num_gpus, nodes), environment = layout, self.program["environment"]
        if self.program["start"] == "once" and nodes > 1:
            return f"a program that starts once uses one node, and {num_gpus} devices are on {nodes}"
        if environment and device.kind not in FRAMEWORKS[environment].environments:
            return f"{environment} has no environment for {device.kind} devices"
        return ""

    def settings(self, run: Run) -> dict:
        """Return the settings whose change reruns a run. Settings that have their default value are left out."""
        program = drop_defaults(self.program, program_defaults(), ()) | {"command": self.program["command"]}
        # The name is in the path, and the files' hashes replace their list.
        program = {key: value for key, value in program.items() if key not in ("name", "files")}
        program |= {"axes": self.variants[run.variant], "files": self.files}
        device = self.machine.device(run.device)
        layout: dict[str, Any] = {"num_nodes": self.machine.count_nodes(run), "device_kind": device.kind}
        layout["cores_per_device"] = device.cores_per_device
        kept = {key: self.config[key] for key in ("warmup_steps", "seed")}
        return {"program": program, **drop_defaults(kept, self.defaults, ()), **drop_usual_layout(layout, run.device)}

    def spec(self, run: Run) -> dict:
        return complete_program_spec(run, self.settings(run))

    def environment(self, run: Run) -> str | None:
        """Return the name of the environment that the program runs in, if it is one of the workflow's."""
        framework = self.program["environment"]
        return FRAMEWORKS[framework].environments[self._device(run).kind] if framework else None

    def find_doubts(self) -> list[str]:
        place = f"{self.place}.program"
        doubts = [*doubt_files(place, self.program, self.files), *doubt_programs(place, self.program)]
        num_nodes = max((self.machine.count_nodes(run) for run in self.runs if not run.unsupported), default=1)
        doubts += doubt_ranks(place, self.program, num_nodes)
        return [*doubts, *doubt_report(place, self.program, self.config["quality"]["metric"])]

    @property
    def places(self) -> dict[str, str]:
        """Empty: a program starts in the folder of its files, so that their paths are part of what it does."""
        return {}

    def _describe_more(self) -> dict:
        return {"machinery": {}}

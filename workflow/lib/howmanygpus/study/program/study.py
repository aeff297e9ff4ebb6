"""
A study of a user's own program: the same grid, without data, weights and parity gate of the workflow.

The axes of a program become variants.
"""

import itertools
import re
from dataclasses import dataclass, field
from typing import Any

from howmanygpus.config.errors import Errors, refuse
from howmanygpus.config.findings import Finding
from howmanygpus.config.schema import drop_defaults, fill_defaults, read_schema, study_defaults
from howmanygpus.measure.program.command import PLACEHOLDERS
from howmanygpus.prepare.sources import Description
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.checks.controls import check as check_controls
from howmanygpus.study.checks.runs import check_layouts, check_seeds
from howmanygpus.study.config.metrics import check_quality
from howmanygpus.study.controls import add_controls
from howmanygpus.study.fill import FilledStudy, fill
from howmanygpus.study.grid import expand, resolve_counts
from howmanygpus.study.largest.resolving import check_max, resolve_max
from howmanygpus.study.largest.search import CONTEXT, STUDY, Find
from howmanygpus.study.program.checks import (
    check_command,
    check_keys,
    check_name,
    check_report,
    check_surroundings,
    warn_about_files,
    warn_about_launcher,
    warn_about_numbers,
    warn_about_programs,
    warn_about_ranks,
    warn_about_report,
)
from howmanygpus.study.program.files import expand_paths, hash_program_files
from howmanygpus.study.published import check_published
from howmanygpus.study.runs import HOW, Run, usual_layout
from howmanygpus.study.study import Study

BASE = "base"
RESERVED_NAMES = (*PLACEHOLDERS, "framework", "variant", "input", "device", "study", "dataset", "program")
"""Names that an axis cannot have, because a placeholder, a key of `exclude` or a column has them."""
LONGEST = 100
"""Maximum number of characters of a variant's name, which names a folder."""


def expand_axes(place: str, axes: dict[str, list]) -> dict[str, dict]:
    """Return the values of each variant by its name, such as model_small for {model: [small, large]}.

    Raises ConfigError for a name that is taken, for true and false, and for values whose names in paths are the same.
    """
    for name, given in axes.items():
        if name in RESERVED_NAMES:
            raise refuse(f"{place}.{name}", name, "is a name of the workflow's own", "choose another name")
        for position, value in enumerate(given):
            if isinstance(value, bool):
                problem = f"is read by YAML, also where {'yes or on' if value else 'no or off'} was written"
                remedy = 'write the text that the command gets in quotes, such as "no" or "false"'
                raise refuse(f"{place}.{name}[{position}]", value, problem, remedy)
    variants: dict[str, dict] = {}
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        variant = "_".join(f"{name}_{slug(value)}" for name, value in chosen.items()) or BASE
        if variant in variants:
            problem = f"has the same name in paths as {list(variants[variant].values())}"
            raise refuse(place, list(values), problem, "change one of them by a letter or a digit")
        if len(variant) > LONGEST:
            raise refuse(place, list(values), f"makes a name of {len(variant)} characters", "give shorter values")
        variants[variant] = chosen
    return variants


def describe_variants(variants: dict[str, dict], same_work: list[str]) -> dict[str, dict]:
    """Return of each variant the values of its axes, and the name of its work, which all variants share that differ
    only in axes of same_work; empty if all do the same work.
    """
    described = {}
    for variant, values in variants.items():
        others = (f"{name}_{slug(value)}" for name, value in values.items() if name not in same_work)
        described[variant] = {"axes": values, "work": "_".join(others)}
    return described


def slug(value: str | float) -> str:
    """Return a value as part of a path: lower-case letters, digits and underscores."""
    return re.sub(r"[^a-z0-9]+", "_", str(value).lower().replace("-", "m" if _is_number(value) else "_"))


def _is_number(value) -> bool:
    return isinstance(value, int | float)


INPUT, DATASET = "program", "own_data"
"""Input and data set in paths and tables, because only the program knows the real ones."""
NO_DATA = Description((0, 0, 0), 0, 0, 0)
LAUNCHERS = {"once": "plain", "per_node": "per_node", "per_device": "per_device", "mpirun": "mpirun"}
"""Launchers of measure.launch.launchers, by how the program starts."""


NAMES = ("name", "unit", "same_work")
"""Keys of a program that rerun nothing by themselves: the name is in the path, and the others only in the report."""


def program_defaults() -> dict:
    schema = read_schema("config")
    return fill_defaults({"command": ""}, schema["$defs"]["program"], schema)


def complete_program_spec(run: Run, settings: dict) -> dict:
    """Return the complete specification of a run: the fields of howmanygpus.measure.program.spec.ProgramSpec.

    settings: all values that differ from their defaults, as ProgramStudy.settings returns them.
    """
    defaults = study_defaults()
    program = program_defaults() | settings["program"]
    return {
        **run.identity,
        "dataset": DATASET,
        "model": run.framework,
        "model_options": {},
        **{key: settings.get(key, usual) for key, usual in usual_layout(run.device).items()},
        "accumulate": 1,
        "global_batch_size": run.num_gpus * run.per_device_batch_size,
        "seed": settings.get("seed", defaults["seed"]) + run.repeat - 1,
        "family": "program",
        "strategy": program["start"],
        "launcher": LAUNCHERS[program["start"]],
        "warmup_steps": settings.get("warmup_steps", defaults["warmup_steps"]),
        "program": {key: value for key, value in program.items() if key not in NAMES},
    }


def complete_program_try(request: dict, batch: int, is_confirmation: bool) -> dict:
    """Return the complete specification of a try of a batch size. request: as ProgramSearch.request returns it."""
    settings = request["settings"]
    program = settings["program"] | {"stop_after": request["steps"][is_confirmation]}
    identity = (request["framework"], request["variant"], INPUT, request["precision"], request["device"])
    context = {key: settings[key] for key in CONTEXT if key in settings}
    return complete_program_spec(Run(STUDY, *identity, 1, batch, 1), context | {"program": program})


@dataclass(frozen=True, eq=False)
class ProgramStudy(Study):
    """One study with a program. Its framework and its model are the program's name, and its variants the axes.

    program: the key of that name, complete. files: their hashes. The data that a program reads is not known.
    """

    is_program = True

    program: dict = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    def settings(self, run: Run) -> dict:
        """Return the settings whose change reruns a run. Settings that have their default value are left out."""
        program = drop_defaults(self.program, program_defaults(), ()) | {"command": self.program["command"]}
        # The files' hashes replace their list.
        program = {key: value for key, value in program.items() if key not in (*NAMES, "files")}
        control = self._find_control(run)
        program |= {"axes": self.variants[(control.base if control else run).variant], "files": self.files}
        program |= {"control": control.name} if control else {}
        kept = {key: self.config[key] for key in ("warmup_steps", "seed")}
        return {"program": program, **drop_defaults(kept, self.defaults, ()), **self._describe_layout(run)}

    def spec(self, run: Run) -> dict:
        return complete_program_spec(run, self.settings(run))

    def explain_unsupported(self, device: Device, layout: tuple[int, int], *others: Any) -> str:
        (num_gpus, nodes), environment = layout, self.program["environment"]
        if self.program["start"] == "once" and nodes > 1:
            return f"a program that starts once uses one node, and {num_gpus} devices are on {nodes}"
        if environment and device.kind not in FRAMEWORKS[environment].environments:
            return f"{environment} has no environment for {device.kind} devices"
        return ""

    def environment(self, run: Run) -> str | None:
        """Return the name of the environment that the program runs in, if it is one of the workflow's."""
        return self.environment_on(self._device(run))

    def environment_on(self, device: Device) -> str | None:
        framework = self.program["environment"]
        return FRAMEWORKS[framework].environments[device.kind] if framework else None

    def _describe_more(self) -> dict:
        more = {"largest": self.largest.describe()} if self.largest else {}
        axes = [f"program.axes.{axis}" for axis in self.program["same_work"]]
        return more | {"machinery": {}, "protocols": self._describe_protocols(), "how": (*HOW, *axes)}

    def count_evaluated(self, run: Run) -> int | None:
        """Return None: nobody knows what a program evaluates."""

    @property
    def places(self) -> dict[str, str]:
        """Empty: a program starts in the folder of its files, so that their paths are part of what it does."""
        return {}


def make_program_study(name: str, given: dict, machine: Machine, place: str, find: Find) -> ProgramStudy:
    """Return a study with a program. given: as the config gives it. Raises ConfigError.

    find: returns the result of a search for the largest batch.
    """
    check_keys(place, given)
    study = resolve_max(expand(_resolve(fill(name, place, given), machine)), find)
    check_layouts(study)
    check_seeds(study)
    check_controls(study)
    return add_controls(study)


def _resolve(filled: FilledStudy, machine: Machine) -> ProgramStudy:
    """Return a study without runs. Raises ConfigError."""
    place, config, where = filled.place, filled.config, f"{filled.place}.program"
    program = expand_paths(where, config["program"])
    program_name = program["name"] or filled.name
    variants = expand_axes(f"{where}.axes", program["axes"])
    errors = Errors()
    with errors.collect():
        check_name(where, program_name)
    with errors.collect():
        check_published(place, config["published"])
    with errors.collect():
        check_surroundings(where, program)
        check_command(where, program, config)
    with errors.collect():
        check_quality(f"{place}.quality", config["quality"])
        check_report(where, program, config["quality"], "thresholds" in filled.given.get("quality", {}))
    errors.raise_all()
    files = hash_program_files(f"{where}.files", program["files"])
    check_max(place, config)
    num_gpus, lacking = resolve_counts(place, config, machine)
    own = {"dataset": DATASET, "model": program_name, "frameworks": [program_name], "inputs": [INPUT]}
    own |= {"num_gpus": num_gpus, "parity": "off", "variants": describe_variants(variants, program["same_work"])}
    return ProgramStudy(
        name=filled.name,
        place=place,
        machine=machine,
        config=config | own,
        variants=variants,
        dataset_options={},
        description=NO_DATA,
        given_model=program_name,
        lacking=lacking,
        program=program,
        files=files,
    )


def doubt_program(study: ProgramStudy) -> list[Finding]:
    """Return each value that is possible, but probably a mistake."""
    place = f"{study.place}.program"
    doubts = [*warn_about_files(place, study.program, study.files), *warn_about_programs(place, study.program)]
    num_nodes = max((study.machine.count_nodes(run) for run in study.runs if not run.unsupported), default=1)
    doubts += warn_about_ranks(place, study.program, num_nodes)
    doubts += [*warn_about_launcher(place, study.program), *warn_about_numbers(place, study.program)]
    return [*doubts, *warn_about_report(place, study.program, study.config["quality"]["metric"])]

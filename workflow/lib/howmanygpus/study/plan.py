"""Combines all studies of a config into one plan, and checks it before anything starts."""

import itertools
import json
import random
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from howmanygpus.config.errors import check_schema
from howmanygpus.config.findings import Finding, find_error
from howmanygpus.config.schema import fill_defaults, read_schema
from howmanygpus.prepare.checks.remarks import read_remarks
from howmanygpus.site.machine import Machine
from howmanygpus.study.adaptive.configurations import Decision
from howmanygpus.study.adaptive.keys import PROBE, split_probes
from howmanygpus.study.checks.doubts import find_doubts
from howmanygpus.study.config.datasets import expand_paths
from howmanygpus.study.config.models import split_models
from howmanygpus.study.gate_cells import ParityCell, ParityGroup, describe_planned, group_cells
from howmanygpus.study.largest.search import Find, ProgramSearch, Search, read_found
from howmanygpus.study.making import make_studies
from howmanygpus.study.own.folder import ModelFolder
from howmanygpus.study.own.model import OwnModel
from howmanygpus.study.own.resolve import check_names
from howmanygpus.study.program.study import ProgramStudy, doubt_program
from howmanygpus.study.runs import Run
from howmanygpus.study.study import PREPARED, Study


class Plan:
    """All studies of a config. The constructor raises ConfigError for an invalid config.

    groups: the studies that the config gives, by name. Each consists of one study for each of its models, and one of
    probes for each of these that trains only its best cells. decisions: on the runs of adaptive studies, by study; jobs
    on a cluster, which only do what was decided, have none.
    """

    decisions: Mapping[str, Decision] = {}
    limits_min: Mapping[str, float] = {}
    """Minutes that the budget of a study has for each run that is done now, by the run's path."""

    def __init__(self, config: dict, machine: Machine, find_largest: Find = read_found):
        """find_largest: returns the result of a search for the largest batch."""
        schema = read_schema("config")
        check_schema(config, schema, root="config")
        self._given, self._find_largest = dict(config), find_largest
        self.machine = machine
        given = {key: value for key, value in config.items() if key != "studies"}
        self._datasets = expand_paths(fill_defaults(given, schema, schema)["datasets"])
        self.groups = split_probes(split_models(config["studies"]))
        self.studies, self._descriptions = make_studies(self.groups, self._datasets, machine, find_largest)
        check_names([(study.place, study.own_model) for study in self._with_data if study.own_model])
        self.runs = {run.path: run for study in self.studies.values() for run in study.runs}

    def plan_again(self) -> "Plan":
        """Return a new plan of the same config with the present results of searches."""
        return Plan(self._given, self.machine, self._find_largest)

    @cached_property
    def probes(self) -> dict[str, str]:
        """The name of the study of probes of each study that trains only its best cells."""
        studies = self.studies.values()
        return {study.name: f"{study.name}{PROBE}" for study in studies if study.config["train_best"] is not None}

    @cached_property
    def priorities(self) -> dict[str, int]:
        """The priority of each run: the first repeats come before the second ones, each block in a seeded random order.

        Drift of the machine then does not look like scaling, and reaches all configurations of a block alike.
        """
        priorities: dict[str, int] = {}
        for name, study in self.studies.items():
            generator = random.Random(f"{name}{study.config['seed']}")
            blocks: dict[int, list[str]] = {}
            for run in study.runs:
                blocks.setdefault(run.repeat, []).append(run.path)
            order = []
            for _, block in sorted(blocks.items()):
                order += generator.sample(block, len(block))
            priorities |= {path: len(order) - place for place, path in enumerate(order)}
        return priorities

    @cached_property
    def settings(self) -> dict[str, str]:
        """The settings of each run as JSON, by the run's path."""
        return {
            run.path: json.dumps(study.settings(run), sort_keys=True)
            for study in self.studies.values()
            for run in study.runs
        }

    @property
    def _with_data(self) -> list[Study]:
        """The studies that train the workflow's networks; the data and networks of users' programs are not known."""
        return [study for study in self.studies.values() if not study.is_program]

    @cached_property
    def _supported(self) -> list[tuple[Study, Run]]:
        """The runs that the parity gate covers, if nothing else keeps them from being done."""
        return [(study, run) for study in self._with_data for run in study.runs if not run.unsupported]

    @cached_property
    def cells(self) -> dict[str, ParityCell]:
        """The cell of the parity gate that covers each run, by the run's path."""
        return {run.path: study.parity_cell(run) for study, run in self._supported}

    @cached_property
    def searches(self) -> dict[str, tuple[Search | ProgramSearch, list[Study]]]:
        """The searches for the largest batch, by their names, each with the studies that need it."""
        found: dict[str, tuple[Search | ProgramSearch, list[Study]]] = {}
        for study, search, _ in self._searched:
            studies = found.setdefault(search.name, (search, []))[1]
            studies += [study] if study not in studies else []
        return found

    @cached_property
    def search_cells(self) -> dict[str, list[ParityCell]]:
        """The cells of the parity gate that cover the runs behind each search, by its name."""
        cells: dict[str, list[ParityCell]] = {}
        for study, search, run in self._searched:
            if not study.is_program:
                cells.setdefault(search.name, []).append(study.parity_cell(run))
        return cells

    @property
    def _searched(self) -> list[tuple[Study, Search | ProgramSearch, Run]]:
        """Each series that needs a search, with its first run."""
        return [
            (study, search, study.largest.samples[series])
            for study in self.studies.values()
            if study.largest
            for series, search in study.largest.searches.items()
        ]

    @cached_property
    def gated(self) -> list[tuple[Study, ParityCell]]:
        """The cells of all runs, and of those behind searches, each with its study."""
        runs = [(study, self.cells[run.path]) for study, run in self._supported]
        searched = [(study, run) for study, _, run in self._searched if not study.is_program]
        return [*runs, *((study, study.parity_cell(run)) for study, run in searched)]

    @cached_property
    def verdicts(self) -> dict[str, str]:
        """The file of the parity verdict that each run depends on, by the run's path."""
        return {path: configuration.verdict for path, configuration in self.cells.items()}

    @cached_property
    def planned(self) -> dict[str, dict]:
        """What the runs behind each verdict do that the gate may not have looked at, by the file of the verdict."""
        done: dict[str, list[tuple[tuple[int, int], dict]]] = {}
        for study, run in self._supported:
            settings = study.settings_of(run)
            layout = (1, 1) if settings["independent"] else (run.num_gpus, self.machine.count_nodes(run))
            done.setdefault(self.verdicts[run.path], []).append((layout, settings))
        return {verdict: describe_planned(runs) for verdict, runs in done.items()}

    @cached_property
    def _strict_cells(self) -> dict[str, ParityCell]:
        """The strict cells that verdicts on checked cells require, by the file of their verdict."""
        checked = [configuration for study, configuration in self.gated if study.config["parity"] != "off"]
        return {strict.verdict: strict for configuration in checked if (strict := configuration.strict)}

    @cached_property
    def parity_cells(self) -> dict[str, ParityCell]:
        """All cells of the parity gate, by the file of their verdict."""
        return {configuration.verdict: configuration for _, configuration in self.gated} | self._strict_cells

    @property
    def needed_verdicts(self) -> list[str]:
        """The verdicts of all runs that this call asks for, and the strict ones that these require."""
        asked = [(study, self.cells[run.path]) for study, run in self._supported if self.is_asked_for(run)]
        strict = [configuration.strict for study, configuration in asked if study.config["parity"] != "off"]
        needed = {configuration.verdict for _, configuration in asked} | {
            configuration.verdict for configuration in strict if configuration
        }
        return [verdict for verdict in self.parity_cells if verdict in needed]

    @cached_property
    def checked_verdicts(self) -> set[str]:
        """The verdicts that are checked. A cell is not checked if parity is off in all studies that use it."""
        checked = {configuration.verdict for study, configuration in self.gated if study.config["parity"] != "off"}
        return checked | self._strict_cells.keys()

    @cached_property
    def parity_groups(self) -> dict[str, ParityGroup]:
        """The groups of the checked cells, by the name of the group's observations."""
        checked = [self.parity_cells[verdict] for verdict in sorted(self.checked_verdicts)]
        return {group.name: group for group in group_cells(checked)}

    @cached_property
    def networks(self) -> dict[str, dict]:
        """The options that each network is built with, by the network's name. Others have their model's defaults."""
        return {study.network_name: study.network[1] for study in self.studies.values()}

    @cached_property
    def models(self) -> dict[str, str]:
        """The model of each network, by the network's name."""
        return {study.network_name: study.network[0] for study in self._with_data}

    @cached_property
    def initial_weights_files(self) -> dict[str, str]:
        """The users' files of initial weights, by their part of the weights' names."""
        starts = [start for study in self._with_data for start in study.starts.values()]
        return {start.name: start.path for start in starts if start.path}

    @cached_property
    def own_models(self) -> dict[str, OwnModel]:
        """The users' models in one file, by the names of their networks."""
        models = {study.network_name: study.own_model for study in self._with_data}
        return {name: model for name, model in models.items() if isinstance(model, OwnModel)}

    @cached_property
    def model_folders(self) -> dict[str, ModelFolder]:
        """The users' models with a file per family, by their names."""
        models = (study.own_model for study in self._with_data)
        return {model.name: model for model in models if isinstance(model, ModelFolder)}

    @cached_property
    def devices(self) -> list[str]:
        """The names of all devices that runs use."""
        return list(dict.fromkeys(run.device for run in self.runs.values()))

    @cached_property
    def dataset_options(self) -> dict[str, dict]:
        """Source and options of all data sets: those of the config, and those that studies name by their source."""
        return self._datasets | {study.config["dataset"]: study.dataset_options for study in self._with_data}

    @property
    def targets(self) -> dict[str, list[str]]:
        """The studies that each target stands for, by the target's name. A study with probes asks for them, too."""
        groups = {name: list(studies) for name, studies in self.groups.items()}
        return {name: [*filter(None, [self.probes.get(name)]), name] for name in self.studies} | groups

    def is_left_out(self, run: Run) -> bool:
        """Say whether this call skips a run, because the run does not fit on the single node of a packed allocation."""
        return self.machine.packed and self.machine.count_nodes(run) > 1

    def is_asked_for(self, run: Run) -> bool:
        """Return whether a run is part of the grid, given the measurements so far; every run of a fixed grid is."""
        return run.study not in self.decisions or self.decisions[run.study].asks_for(run.path)

    def is_undecided(self, study: str) -> bool:
        """Say whether later passes decide about runs of a study, or about those of the study whose probes it has."""
        return study in self.decisions and not self.decisions[study].is_final

    def describe_data(self) -> list[str]:
        """Return one line for each data set, with its numbers of images and classes."""
        return [
            f"datasets.{name}: {found.num_train:,} training and {found.num_test:,} test images of "
            f"{' x '.join(map(str, found.image_shape))} in {found.num_classes} classes"
            for name, found in self._descriptions.items()
        ]

    def find(self) -> list[Finding]:
        """Return all that the plan finds by itself, what the machine lacks last."""
        return [*self.find_excesses(), *self.find_doubts(), *self.list_remarks(), *self.find_shortages()]

    def list_remarks(self) -> list[Finding]:
        """Return remarks of planning and of preparing data sets that stop nothing."""
        return [
            Finding(f"datasets.{name}", "", remark)
            for name, description in self._descriptions.items()
            for remark in dict.fromkeys([*description.remarks, *read_remarks(Path(PREPARED, name, "arrays"))])
        ]

    def find_shortages(self) -> list[Finding]:
        """Return each number of devices that a study requests and the machine lacks."""
        shortages = []
        for study in self.studies.values():
            runs = [run for run in study.runs if not self.is_left_out(run)]
            for device in dict.fromkeys(run.device for run in runs):
                wanted = max(run.num_gpus for run in runs if run.device == device)
                available = self.machine.count(device)
                if not available:
                    problem = f"cannot be used ({self.machine.path}): {self.machine.explain_absence(device)}"
                    remedy = "choose another device or another profile"
                    shortages.append(find_error(f"{study.place}.devices", repr(device), problem, remedy))
                elif wanted > available:
                    devices = f"{device} device{'s' * (available > 1)}"
                    problem = f"exceeds the {available} {devices} of this machine ({self.machine.path})"
                    remedy = "lower it or choose another profile"
                    shortages.append(find_error(f"{study.place}.num_gpus", wanted, problem, remedy))
                shortages += self._find_lack_of_nodes(study, [run for run in runs if run.device == device])
        # The studies of a list of models have the same shortages, at the same place.
        return list(dict.fromkeys(shortages))

    def _find_lack_of_nodes(self, study: Study, runs: list[Run]) -> list[Finding]:
        """Return an error if a study asks for more nodes than the machine has. runs: its runs on one device."""
        device, wanted = self.machine.device(runs[0].device), max(map(self.machine.count_nodes, runs))
        if not (study.config["num_nodes"] and device.count) or wanted <= device.max_nodes:
            return []
        if self.machine.is_cluster:
            problem = f"exceeds the {device.max_nodes} of {self.machine.path}: devices.{runs[0].device}.max_nodes"
            remedy = "lower it, or raise max_nodes if the cluster has them"
        else:
            problem = f"exceeds the one node of this machine ({self.machine.path})"
            remedy = "write 1, leave it out, or choose the profile of a cluster"
        return [find_error(f"{study.place}.num_nodes", wanted, problem, remedy)]

    def find_doubts(self) -> list[Finding]:
        """Return each value that is possible, but probably a mistake.

        Probes have none, because they are meant to be shorter than their learning-rate schedules.
        """
        trained = [study for study in self.studies.values() if study.name not in self.probes.values()]
        doubts = (doubt_program(study) if isinstance(study, ProgramStudy) else find_doubts(study) for study in trained)
        return list(dict.fromkeys(itertools.chain.from_iterable(doubts)))

    def find_excesses(self) -> list[Finding]:
        """Return each used device whose number in the machine file exceeds that of this machine."""
        return [self.machine.excesses[device].finding for device in self.devices if device in self.machine.excesses]

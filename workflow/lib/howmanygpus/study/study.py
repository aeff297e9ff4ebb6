"""A study of the config as data, and what follows from it for each of its planned runs."""

import platform
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from howmanygpus.config.schema import drop_defaults, study_defaults
from howmanygpus.gate.task_forms import Variation, name_form
from howmanygpus.measure.spec import RANDOM_INPUTS, SYNTHETIC
from howmanygpus.prepare.sources import Description
from howmanygpus.registry import FRAMEWORKS, explain_missing_wheels, explain_unsupported
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.adaptive.keys import drop_rules
from howmanygpus.study.batches import accumulate_batches, compute_curves
from howmanygpus.study.config.datasets import options_of_runs
from howmanygpus.study.config.images import compute_image_shape
from howmanygpus.study.config.learning import resolve_optimizer
from howmanygpus.study.gate_cells import ParityCell, select_settings
from howmanygpus.study.initial_weights import InitialWeights
from howmanygpus.study.largest.largest import Largest, get_series
from howmanygpus.study.largest.sizes import UNRESOLVED, list_numbers
from howmanygpus.study.loaders import SHARED, explain_missing_loader
from howmanygpus.study.networks import name_network
from howmanygpus.study.own.folder import ModelFolder
from howmanygpus.study.own.model import OwnModel
from howmanygpus.study.protocols import FULL_BATCHES, OTHER_IMAGES
from howmanygpus.study.runs import HOW, Run, complete_spec, drop_usual_layout

PREPARED = "results/prepared"
NESTED_KEYS = ("optimizer", "quality", "protocols")
"""Keys of a study whose values are objects; each of their keys has its own default."""


@dataclass(frozen=True)
class Control:
    """A control run, see study.controls. name: what it leaves out or replaces. base: the run that it repeats.

    settings: its complete training settings.
    """

    name: str
    base: Run
    settings: dict


@dataclass(frozen=True, eq=False)
class Study:
    """One study: its complete configuration, and its runs once they are planned. Each step of planning returns another.

    place: where the config gives it. config: with every default filled in. variants: the training settings of each.
    unfair: those of each unfair protocol with runs of its own, by framework. lacking: rules that exclude device counts
    that a device lacks. given_model: the model as the config gives it, which can be a path. starts: the initial weights
    of each variant. largest: the batch sizes that `max` stands for, by series; None without
    `per_device_batch_size: max`. controls: its control runs, which are among its runs, by their paths.
    """

    is_program: ClassVar[bool] = False
    """Whether it starts a program of the user; see study.program."""

    name: str
    place: str
    machine: Machine
    config: dict
    variants: dict[str, dict]
    dataset_options: dict
    description: Description
    given_model: str
    own_model: OwnModel | ModelFolder | None = None
    unfair: dict[str, dict[str, dict]] = field(default_factory=dict)
    lacking: list[dict] = field(default_factory=list)
    starts: dict[str, InitialWeights] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    largest: Largest | None = None
    controls: dict[str, Control] = field(default_factory=dict)
    _accumulations: dict[tuple[int, ...], dict[int, dict[int, int]]] = field(default_factory=dict, init=False)

    @property
    def defaults(self) -> dict:
        return study_defaults()

    def explain_unsupported(
        self, device: Device, layout: tuple[int, int], framework: str, precision: str, source: str, settings: dict
    ) -> str:
        """Return why a combination is not supported; empty if it is.

        layout: the numbers of devices and nodes. source: the input. settings: the complete training settings.
        """
        own_model, reason = self.own_model, ""
        if FRAMEWORKS[framework].environments.get(device.kind) in self.machine.environments:
            # For which GPUs a site's own build is, only the framework itself can say.
            device = replace(device, compute_capability=None)
        else:
            reason = explain_missing_wheels(framework, device.kind, platform.machine())
        if isinstance(own_model, OwnModel):
            reason = reason or own_model.explain_unsupported(framework, precision)
        reason = reason or explain_unsupported(framework, device, precision, layout, settings)
        return reason or explain_missing_loader(framework, source, settings)

    def settings_of(self, run: Run) -> dict:
        """Return the complete training settings of a run."""
        if control := self._find_control(run):
            return control.settings
        if run.variant in self.unfair:
            return self.unfair[run.variant][run.framework]
        return self.variants[run.variant]

    @property
    def network(self) -> tuple[str, dict]:
        """The model, and its options that differ from its own."""
        return self.config["model"], self.config["model_options"]

    @property
    def network_name(self) -> str:
        """The part of file names that distinguishes the network."""
        own, options = self.own_model, self.config["model_options"]
        return own.name_network(options) if own else name_network(*self.network)

    @property
    def code_of_model(self) -> str | OwnModel | ModelFolder:
        return self.own_model or self.config["model"]

    def _find_control(self, run: Run) -> Control | None:
        return self.controls.get(run.path) if self.controls else None

    def _start_of(self, run: Run) -> InitialWeights:
        return self.starts[run.variant if run.variant in self.variants else next(iter(self.variants))]

    @cached_property
    def curves(self) -> dict[str, list[int]]:
        """The batch sizes that each scaling mode keeps fixed: per device (weak scaling) or global (strong scaling)."""
        sizes = list_numbers(self.config)
        if self.largest:
            numbers = {size for run in self.runs for size in self.largest.list_sizes(get_series(run))}
            sizes += sorted(numbers - set(sizes))
        return compute_curves(self.config, sizes)

    def accumulations(self, sizes: list[int]) -> dict[int, dict[int, int]]:
        """Return the batches for one optimizer step, by device count and by the distinct batch sizes per device."""
        if (key := tuple(sizes)) not in self._accumulations:
            self._accumulations[key] = accumulate_batches(self.place, self.config, sizes)
        return self._accumulations[key]

    def accumulate(self, run: Run) -> int:
        """Return how many batches each device of a run takes for one optimizer step."""
        if control := self._find_control(run):
            return self.accumulate(control.base)
        if run.per_device_batch_size == UNRESOLVED:
            return self.config["accumulate"]
        sizes = self.largest.list_sizes(get_series(run)) if self.largest else list_numbers(self.config)
        return self.accumulations(sizes)[run.num_gpus][run.per_device_batch_size]

    def global_batch_size(self, run: Run) -> int:
        return run.num_gpus * run.per_device_batch_size * self.accumulate(run)

    def data_dir(self, run: Run) -> str:
        """Return the folder of a run's images. Resident images are synthetic ones."""
        form = SYNTHETIC if run.input in RANDOM_INPUTS else run.input
        return f"{PREPARED}/{self.config['dataset']}/{form}"

    def image_shape(self, run: Run) -> tuple[int, int, int]:
        """Return height, width and channels of the images that the network of a run gets."""
        return compute_image_shape(self.settings_of(run), self.description.image_shape)

    def weights_file(self, run: Run) -> str:
        height, width, channels = self.image_shape(run)
        shape = f"{height}x{width}x{channels}_classes{self.description.num_classes}"
        start = self._start_of(run).suffix
        return f"results/weights/{self.network_name}_{shape}_seed{self.seed(run)}{start}.safetensors"

    def num_images(self, run: Run) -> int:
        """Return how many training images a run uses, each counted as often as it is used."""
        settings, global_batch_size = self.settings_of(run), self.global_batch_size(run)
        step_images = global_batch_size // (run.num_gpus if settings["independent"] else 1)
        steps = settings["steps"] or settings["epochs"] * (self.description.num_train // step_images)
        return steps * global_batch_size

    def count_evaluated(self, run: Run) -> int | None:
        """Return how many test images `eval_other_images` evaluates after a run, the first of the split.

        None if the run is compared with nothing: its framework evaluates all, or it is not of the first variant.
        """
        rule = self.config["protocols"][OTHER_IMAGES].get(run.framework)
        if rule is None or run.variant != next(iter(self.variants)) or run.input in RANDOM_INPUTS:
            return None
        num_test, settings = self.description.num_test, self.settings_of(run)
        if rule != FULL_BATCHES:
            return rule
        is_alone = settings["independent"] or settings["eval_devices"] != "all"
        devices = 1 if is_alone else run.num_gpus
        batch = devices * (settings["eval_batch_size"] or run.per_device_batch_size)
        return num_test // batch * batch

    def seed(self, run: Run) -> int:
        return self.config["seed"] + run.repeat - 1

    def parity_cell(self, run: Run) -> ParityCell:
        """Return the cell of the parity gate that covers a run."""
        if control := self._find_control(run):
            return self.parity_cell(control.base)
        settings = self.settings_of(run)
        return ParityCell(
            framework=run.framework,
            model=self.config["model"],
            model_options=self.config["model_options"],
            own_model=self.own_model,
            shape=self.image_shape(run),
            num_classes=self.description.num_classes,
            precision=run.precision,
            device=run.device,
            hardware=self._device(run),
            over_nodes=self.machine.count_nodes(run) > 1,
            settings=select_settings(run.framework, run.input, settings),
            variation=Variation(
                multi_label=self.description.multi_label,
                label_smoothing=settings["label_smoothing"],
                accumulates=self.accumulate(run) > 1,
                resizes=settings["loader"] != SHARED and settings["random_resized_crop"] is not None,
                frozen_batches=settings.get("frozen_batches", False),
                optimizer=name_form(resolve_optimizer(settings["optimizer"], run.framework)),
            ),
        )

    def spec(self, run: Run) -> dict:
        settings = self.settings(run) | (self.own_model.place if self.own_model else {})
        return complete_spec(run, settings, self.data_dir(run), self.weights_file(run))

    def _device(self, run: Run) -> Device:
        return self.machine.device(run.device)

    def settings(self, run: Run) -> dict:
        """Return the settings whose change reruns a run. Settings that have their default value are left out."""
        training = self.settings_of(run) | {"seed": self.config["seed"]}
        training["accumulate"] = self.accumulate(run)
        training["init"] = self._start_of(run).identity
        if not FRAMEWORKS[run.framework].measures_noise:
            training["gradient_noise_every_epochs"] = None
        training["optimizer"] = resolve_optimizer(training["optimizer"], run.framework)
        settings = {key: self.config[key] for key in ("dataset", "model")}
        settings |= {"model_options": self.config["model_options"]} if self.config["model_options"] else {}
        settings["options"] = options_of_runs(self.dataset_options)
        different = drop_defaults(training, self.defaults, NESTED_KEYS)
        return settings | different | self._describe_layout(run)

    def _describe_layout(self, run: Run) -> dict[str, Any]:
        """Return what differs from the usual layout of a device."""
        device = self._device(run)
        layout: dict[str, Any] = {"num_nodes": self.machine.count_nodes(run), "device_kind": device.kind}
        layout["cores_per_device"] = device.cores_per_device
        return drop_usual_layout(layout, run.device)

    def describe(self) -> dict:
        """Return the content of results/plans/{study}.json, from which tables are made, apart from `stale`.

        It lacks the keys that say which runs are done, because they change tables only through the runs.
        """
        runs = {run.path: {"spec": self.spec(run), "unsupported": run.unsupported} for run in self.runs}
        devices = dict.fromkeys(run.device for run in self.runs)
        plan = {
            "study": self.name,
            "config": drop_rules(self.config),
            "curves": self.curves,
            "runs": runs,
            "billing": {name: prices for name in devices if (prices := self.machine.billing(name))},
            "defaults": self.defaults,
            "how": HOW,
        }
        plan |= {"predict": self.predicted} if self.config["predict"] else {}
        return plan | self._describe_more()

    @cached_property
    def predicted(self) -> list[dict[str, Any]]:
        """The layouts that `predict` names: device, num_gpus and num_nodes of each."""
        asked = self.config["predict"] or {"num_gpus": [], "num_nodes": None}
        layouts = []
        for name in dict.fromkeys(run.device for run in self.runs):
            for count in asked["num_gpus"]:
                for nodes in asked["num_nodes"] or [self.machine.device(name).num_nodes(count)]:
                    if nodes <= count and count % nodes == 0:
                        layouts.append({"device": name, "num_gpus": count, "num_nodes": nodes})
        return layouts

    def _describe_more(self) -> dict:
        """Return what only studies without a program have in their plans."""
        machinery = {
            variant: {name: FRAMEWORKS[name].resolve_machinery(settings) for name in self.config["frameworks"]}
            for variant, settings in self.variants.items()
        }
        more = {"largest": self.largest.describe()} if self.largest else {}
        return more | {"machinery": machinery, "protocols": self._describe_protocols()}

    def _describe_protocols(self) -> dict[str, dict]:
        """Return the facts about protocols that tables need, by the path of each run.

        protocol: the one that a run follows. control: what a control run leaves out. evaluates: how many images
        `eval_other_images` evaluates after it.
        """
        found: dict[str, dict] = {}
        for run in self.runs:
            if control := self._find_control(run):
                found[run.path] = {"control": control.name}
            elif run.variant in self.unfair:
                found[run.path] = {"protocol": run.variant}
            elif (count := self.count_evaluated(run)) is not None:
                found[run.path] = {"evaluates": count}
        return found

    @property
    def predicted_at_hand(self) -> set[tuple[str, int, int]]:
        """The predicted layouts that the machine has: device, devices, and nodes, which are 0 for the fewest."""
        found = set()
        for each in self.predicted:
            device, count, nodes = self.machine.device(each["device"]), each["num_gpus"], each["num_nodes"]
            if count <= self.machine.count(each["device"]) and nodes <= device.max_nodes:
                found.add((each["device"], count, 0 if nodes == device.num_nodes(count) else nodes))
        return found

    @property
    def places(self) -> dict[str, str]:
        """Names of the user's model and files of weights, by the paths that a plan has of them."""
        own = {self.own_model.path: self.config["model"]} if self.own_model else {}
        starts = {self.variants[variant]["init"]: start for variant, start in self.starts.items()}
        return own | {given: start.identity for given, start in starts.items() if start.path}


AnyStudy = TypeVar("AnyStudy", bound=Study)

"""A study of the config: its complete configuration, its checks, and its planned runs."""

from functools import cached_property
from typing import Any

from howmanygpus.plan.adaptive.keys import leave_rules_out
from howmanygpus.plan.config.checks import locate
from howmanygpus.plan.config.datasets import describe_or_refuse, options_of_runs
from howmanygpus.plan.config.errors import Errors
from howmanygpus.plan.config.images import check_crops, check_labels, find_image_shape
from howmanygpus.plan.config.learning import resolve_optimizer
from howmanygpus.plan.config.machine import Device, Machine
from howmanygpus.plan.config.schema import drop_defaults, fill_defaults, study_defaults
from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.plan.gated import find_more
from howmanygpus.plan.largest.known import Find, read_found
from howmanygpus.plan.largest.resolving import Largest, find_series, take_max
from howmanygpus.plan.largest.sizes import MAX, UNRESOLVED, list_numbers
from howmanygpus.plan.loaders import NATIVE, check_inputs
from howmanygpus.plan.networks import choose_options, name_network
from howmanygpus.plan.own.folder import ModelFolder
from howmanygpus.plan.own.model import OwnModel, short_name
from howmanygpus.plan.own.taking import take_own_model
from howmanygpus.plan.parity import ParityCell, TrainingPath
from howmanygpus.plan.runs import HOW, Run, complete_spec, drop_usual_layout
from howmanygpus.plan.study import protocols
from howmanygpus.plan.study.batches import accumulate_batches, find_curves
from howmanygpus.plan.study.cells import expand
from howmanygpus.plan.study.checks import check_names, check_runs, check_shapes, doubt_study
from howmanygpus.plan.study.counts import take_counts
from howmanygpus.plan.study.grid import resolve_devices
from howmanygpus.plan.study.placing import take_numbers
from howmanygpus.plan.study.start import Start, check_normalization, check_starts, doubt_normalization, find_start
from howmanygpus.prepare.sources import Description
from howmanygpus.settings import TRAINING_KEYS
from howmanygpus.train.parity.optimizers import name_form
from howmanygpus.train.parity.variation import Variation
from howmanygpus.train.spec import RANDOM_INPUTS, SYNTHETIC

PREPARED = "results/prepared"
NESTED_KEYS = ("optimizer", "quality", "protocols")
"""Keys of a study whose values are objects; each of their keys has its own default."""


class Study:
    """One study: its complete configuration and its runs.

    `given` is the study as the config gives it, and `config` is the same study with every default filled in.
    `place` is where the config gives it. `variants` has the training settings of each variant, and `unfair` those of
    each unfair protocol with runs of its own, by framework. The constructor raises ConfigError for errors that the
    schema cannot detect.
    """

    is_program = False
    """Whether it starts a program of the user; see plan.program."""

    largest: Largest | None = None
    """The numbers in place of `max` in its runs, if it has this batch size."""

    def __init__(
        self,
        name: str,
        given: dict,
        datasets: dict,
        machine: Machine,
        schema: dict,
        place: str,
        find_largest: Find = read_found,
    ):
        """find_largest: returns the result of a search for the largest batch."""
        self.name, self.place, self.machine = name, place, machine
        self.defaults = study_defaults()
        self.config = fill_defaults(given, schema["$defs"]["study"], schema)
        take_numbers(self.config)
        take_max(self.place, self.config)
        self.lacking = take_counts(self.place, self.config, machine)
        # Defaults filled into a variant's optimizer would override the study's values.
        self.config["variants"] = {
            variant: self.config["variants"][variant] | {key: own[key] for key in ("optimizer",) if key in own}
            for variant, own in given.get("variants", self.defaults["variants"]).items()
        }
        self._accumulations: dict[tuple[int, ...], dict[int, dict[int, int]]] = {}
        self.variants = {variant: self._training_settings(given) for variant, given in self.config["variants"].items()}
        self.dataset_options = datasets.get(self.config["dataset"], {"source": self.config["dataset"], "options": {}})
        self.given_model = self.config["model"]
        self.own_model = take_own_model(self.place, self._place_of_options, self.config)
        errors = Errors()
        with errors.collect():
            check_names(self.place, self.config, self.variants, self.own_model)
            self.config["model_options"] = self._choose_options()
        with errors.collect():
            self.description = self._describe_dataset(datasets)
        with errors.collect():
            resolve_devices(self.place, self.config["devices"], machine)
        errors.raise_all()
        self._check_data()
        self.unfair = protocols.complete_overrides(self.config["protocols"], next(iter(self.variants.values())))
        protocols.check_names(self)
        self.starts = {variant: self._find_start(variant) for variant in self.variants}
        check_starts(self)
        self.runs = expand(self)
        if MAX in self.config["per_device_batch_size"]:
            self.largest = Largest(self, self.runs, find_largest)
            self.runs = self.largest.resolve(self.runs)
        check_runs(self)
        if not (self.largest and self.largest.is_open):
            protocols.check_evaluations(self)

    def _check_data(self) -> None:
        """Raise ConfigError if the images or labels of the data set do not fit the study."""
        source, shape = self.dataset_options["source"], self.description.image_shape
        check_inputs(f"{self.place}.inputs", self.config["inputs"], source, shape)
        check_labels(self.place, self.variants, self.config, self.description)
        check_crops(self.place, self.variants, self.config["variants"], shape)
        check_shapes(self)
        check_normalization(self)

    def settings_of(self, run: Run) -> dict:
        """Return the complete training settings of a run."""
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

    @property
    def _place_of_options(self) -> str:
        place = f"{self.place}.model_options"
        # A list of models has the options of each below its name.
        return place + ("" if self.place == f"studies.{self.name}" else f".{short_name(self.config['model'])}")

    def _choose_options(self) -> dict:
        options = self.config["model_options"]
        if self.own_model is not None:
            return options
        return choose_options(self._place_of_options, self.config["model"], options)

    def _training_settings(self, overrides: dict) -> dict:
        settings = {key: self.config[key] for key in TRAINING_KEYS} | overrides
        return settings | {"optimizer": self.config["optimizer"] | overrides.get("optimizer", {})}

    def _describe_dataset(self, datasets: dict) -> Description:
        name = self.config["dataset"]
        place = "" if name in datasets else f"{self.place}.dataset"
        return describe_or_refuse(name, self.dataset_options, place, datasets)

    def _find_start(self, variant: str) -> Start:
        place = locate("init", self.place, variant, self.config["variants"])
        return find_start(place, self.variants[variant]["init"])

    def _start_of(self, run: Run) -> Start:
        return self.starts[next(iter(self.variants)) if run.variant in self.unfair else run.variant]

    @cached_property
    def curves(self) -> dict[str, list[int]]:
        """The batch sizes that each scaling mode keeps fixed: per device (weak scaling) or global (strong scaling)."""
        sizes = list_numbers(self.config)
        if self.largest:
            numbers = {size for run in self.runs for size in self.largest.list_sizes(find_series(run))}
            sizes += sorted(numbers - set(sizes))
        return find_curves(self.config, sizes)

    def accumulations(self, sizes: list[int]) -> dict[int, dict[int, int]]:
        """Return the batches for one optimizer step, by device count and by the distinct batch sizes per device."""
        if (key := tuple(sizes)) not in self._accumulations:
            self._accumulations[key] = accumulate_batches(self.place, self.config, sizes)
        return self._accumulations[key]

    def accumulate(self, run: Run) -> int:
        """Return how many batches each device of a run takes for one optimizer step."""
        if run.per_device_batch_size == UNRESOLVED:
            return self.config["accumulate"]
        sizes = self.largest.list_sizes(find_series(run)) if self.largest else list_numbers(self.config)
        return self.accumulations(sizes)[run.num_gpus][run.per_device_batch_size]

    def global_batch_size(self, run: Run) -> int:
        return run.num_gpus * run.per_device_batch_size * self.accumulate(run)

    def find_doubts(self) -> list[str]:
        """Return a message for each value that is possible, but probably a mistake."""
        return [*doubt_study(self), *doubt_normalization(self)]

    def data_dir(self, run: Run) -> str:
        """Return the folder of a run's images. Resident images are synthetic ones."""
        form = SYNTHETIC if run.input in RANDOM_INPUTS else run.input
        return f"{PREPARED}/{self.config['dataset']}/{form}"

    def image_shape(self, run: Run) -> tuple[int, int, int]:
        """Return height, width and channels of the images that the network of a run gets."""
        return find_image_shape(self.settings_of(run), self.description.image_shape)

    def weights_file(self, run: Run) -> str:
        height, width, channels = self.image_shape(run)
        shape = f"{height}x{width}x{channels}_classes{self.description.num_classes}"
        start = self._start_of(run).suffix
        return f"results/weights/{self.network_name}_{shape}_seed{self.seed(run)}{start}.safetensors"

    def num_images(self, run: Run) -> int:
        """Return how many training images a run uses, each counted as often as it is used."""
        settings, global_batch_size = self.settings_of(run), self.global_batch_size(run)
        steps = settings["steps"] or settings["epochs"] * (self.description.num_train // global_batch_size)
        return steps * global_batch_size

    def seed(self, run: Run) -> int:
        return self.config["seed"] + run.repeat - 1

    def parity_cell(self, run: Run) -> ParityCell:
        """Return the cell of the parity gate that covers a run."""
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
            batchnorm=settings["batchnorm"],
            loss_on_every_device=settings["loss_on_every_device"],
            device_kind=self._device(run).kind,
            cores_per_device=self._device(run).cores_per_device,
            over_nodes=self.machine.count_nodes(run) > 1,
            path=TrainingPath.find(run.framework, run.input, settings),
            variation=Variation(
                multi_label=self.description.multi_label,
                label_smoothing=settings["label_smoothing"],
                accumulates=self.accumulate(run) > 1,
                resizes=settings["loader"] == NATIVE and settings["random_resized_crop"] is not None,
                optimizer=name_form(resolve_optimizer(settings["optimizer"], run.framework)),
            ),
            more=find_more(settings),
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
        device = self._device(run)
        layout: dict[str, Any] = {"num_nodes": self.machine.count_nodes(run), "device_kind": device.kind}
        layout["cores_per_device"] = device.cores_per_device
        return settings | drop_defaults(training, self.defaults, NESTED_KEYS) | drop_usual_layout(layout, run.device)

    def describe(self) -> dict:
        """Return the content of results/plans/{study}.json, from which tables are made, apart from `stale`.

        It lacks the keys that say which runs are done, because they change tables only through the runs.
        """
        runs = {run.path: {"spec": self.spec(run), "unsupported": run.unsupported} for run in self.runs}
        config, devices = leave_rules_out(self.config), dict.fromkeys(run.device for run in self.runs)
        billing = {name: prices for name in devices if (prices := self.machine.billing(name))}
        common = {"study": self.name, "config": config, "curves": self.curves, "runs": runs, "billing": billing}
        return common | {"defaults": self.defaults, "how": HOW} | self._describe_more()

    def _describe_more(self) -> dict:
        """Return what only studies without a program have in their plans."""
        machinery = {
            variant: {name: FRAMEWORKS[name].find_machinery(settings) for name in self.config["frameworks"]}
            for variant, settings in self.variants.items()
        }
        more = {"largest": self.largest.describe()} if self.largest else {}
        return more | {"machinery": machinery, "protocols": protocols.describe(self)}

    @property
    def places(self) -> dict[str, str]:
        """Names of the user's model and files of weights, by the paths that a plan has of them."""
        own = {self.own_model.path: self.config["model"]} if self.own_model else {}
        starts = {self.variants[variant]["init"]: start for variant, start in self.starts.items()}
        return own | {given: start.identity for given, start in starts.items() if start.path}

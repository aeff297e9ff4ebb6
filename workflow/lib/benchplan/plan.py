"""Planned runs: every combination that the studies ask for, checked before anything starts."""

import itertools
import json
import random
from functools import cached_property
from pathlib import Path

from benchplan.datasets import describe_or_refuse, options_of_runs
from benchplan.defaults import drop_defaults, fill_defaults, read_schema, study_defaults
from benchplan.errors import ConfigError, check_schema, refuse, suggest
from benchplan.frameworks import FRAMEWORKS, find_unsupported_reason
from benchplan.loaders import check_inputs, check_loaders, find_missing_loader
from benchplan.machine import Device, Machine
from benchplan.parity import ParityCell
from benchplan.runs import TRAINING_KEYS, Run, complete_spec, drop_usual_layout
from benchreport import metrics
from benchreport.datasets import Description

MODELS = Path(__file__).resolve().parents[1] / "trainbench" / "models"
NESTED_KEYS = ("optimizer", "quality")
"""Keys of a study that are objects with defaults of their own."""


class Study:
    """One study: its complete configuration and its runs.

    `given` is what the config says, `config` the same with every default. Raises ConfigError for what the
    schema cannot know.
    """

    def __init__(self, name: str, given: dict, datasets: dict, machine: Machine, schema: dict):
        self.name, self.place, self.machine = name, f"studies.{name}", machine
        self.defaults = study_defaults()
        self.config = fill_defaults(given, schema["$defs"]["study"], schema)
        self.variants = {variant: self._training_settings(given) for variant, given in self.config["variants"].items()}
        self.dataset_options = datasets.get(self.config["dataset"], {"source": self.config["dataset"], "options": {}})
        self._check_names()
        self.description = self._describe_dataset()
        check_inputs(f"{self.place}.inputs", self.config["inputs"], self.description.image_shape)
        self.runs = self._expand()
        self._check_runs()

    def _training_settings(self, overrides: dict) -> dict:
        settings = {key: self.config[key] for key in TRAINING_KEYS} | overrides
        return settings | {"optimizer": self.config["optimizer"] | overrides.get("optimizer", {})}

    def _check_names(self) -> None:
        config, place = self.config, self.place
        for position, framework in enumerate(config["frameworks"]):
            if framework not in FRAMEWORKS:
                remedy = suggest(framework, FRAMEWORKS)
                raise refuse(f"{place}.frameworks[{position}]", framework, "is not a known framework", remedy)
        models = [path.parent.name for path in MODELS.glob("*/parameters.py")]
        if config["model"] not in models:
            raise refuse(f"{place}.model", config["model"], "is not a known model", suggest(config["model"], models))
        for framework in config["frameworks"]:
            family_file = MODELS / config["model"] / f"{FRAMEWORKS[framework].family}.py"
            if not family_file.exists():
                remedy = f"write models/{config['model']}/{family_file.name} or leave {framework} out"
                raise refuse(f"{place}.model", config["model"], f"is not written for {framework}", remedy)
        metric = config["quality"]["metric"]
        if metric not in metrics.list_metrics():
            raise refuse(f"{place}.quality.metric", metric, "is not known", suggest(metric, metrics.list_metrics()))
        check_loaders(place, self.variants, config["variants"])
        if (config["epochs"] is None) == (config["steps"] is None):
            raise ConfigError(f"{place}: give exactly one of `epochs` and `steps`")

    def _describe_dataset(self) -> Description:
        name, source = self.config["dataset"], self.dataset_options["source"]
        description = describe_or_refuse(name, self.dataset_options, f"{self.place}.dataset")
        if source == "synthetic" and self.config["inputs"] != ["synthetic"]:
            raise refuse(
                f"{self.place}.inputs", self.config["inputs"], "with a synthetic data set", "write [synthetic]"
            )
        if description.multi_label:
            raise refuse(
                *(f"{self.place}.dataset", name, "has several labels an image, on which no run trains"),
                f"choose one by datasets.{name}.options.finding, or ask for the target `prepared` alone",
            )
        return description

    @cached_property
    def curves(self) -> dict[str, list[int]]:
        """What each scaling mode holds fixed: per-device batches (weak), global batches (strong)."""
        sizes, smallest = self.config["per_device_batch_size"], min(self.config["num_gpus"])
        curves = {"weak": list(sizes), "strong": [size * smallest for size in sizes]}
        return curves if self.config["scaling"] == "both" else {self.config["scaling"]: curves[self.config["scaling"]]}

    def _batch_sizes(self, num_gpus: int) -> list[int]:
        """Per-device batches to run at a device count, each once."""
        sizes = list(self.curves.get("weak", []))
        for global_batch_size in self.curves.get("strong", []):
            if global_batch_size % num_gpus:
                raise refuse(
                    *(f"{self.place}.num_gpus", num_gpus),
                    f"does not divide the global batch of {global_batch_size} images under strong scaling",
                    "choose a per_device_batch_size that every device count divides",
                )
            sizes.append(global_batch_size // num_gpus)
        return sorted(set(sizes))

    def _expand(self) -> list[Run]:
        config, runs = self.config, []
        places = (f"{self.place}.devices[{position}]" for position in itertools.count())
        devices = list(dict.fromkeys(map(self.machine.resolve, config["devices"], places)))
        cells = itertools.product(
            *(config["frameworks"], self.variants, config["inputs"], config["precision"], devices),
            [(num_gpus, size) for num_gpus in config["num_gpus"] for size in self._batch_sizes(num_gpus)],
            range(1, config["repeats"] + 1),
        )
        for framework, variant, source, precision, device, (num_gpus, size), repeat in cells:
            known = self.machine.device(device)
            settings = self.variants[variant]
            reason = find_unsupported_reason(framework, known, precision, num_gpus, settings)
            reason = reason or find_missing_loader(framework, source, settings)
            runs.append(Run(self.name, framework, variant, source, precision, device, num_gpus, size, repeat, reason))
        return self._apply_exclusions(runs)

    def _apply_exclusions(self, runs: list[Run]) -> list[Run]:
        for position, rule in enumerate(self.config["exclude"]):
            kept = [run for run in runs if any(getattr(run, key) != value for key, value in rule.items())]
            if len(kept) == len(runs):
                raise refuse(f"{self.place}.exclude[{position}]", rule, "matches no run", "correct or remove it")
            runs = kept
        if not runs:
            raise ConfigError(f"{self.place}.exclude: nothing is left to run; remove an entry")
        return runs

    def _check_runs(self) -> None:
        for device, num_gpus in sorted({(run.device, run.num_gpus) for run in self.runs}):
            num_nodes = self.machine.device(device).num_nodes(num_gpus)
            if num_gpus % num_nodes:
                raise refuse(
                    *(f"{self.place}.num_gpus", num_gpus),
                    f"does not spread evenly over {num_nodes} nodes of {device} devices",
                    f"choose a multiple of {num_nodes}, or at most {self.machine.device(device).devices_per_node}",
                )
        for num_gpus, size in sorted({(run.num_gpus, run.per_device_batch_size) for run in self.runs}):
            steps_per_epoch = self.description.num_train // (num_gpus * size)
            if steps_per_epoch == 0:
                raise refuse(
                    *(f"{self.place}.per_device_batch_size", size),
                    f"on {num_gpus} devices is more than the {self.description.num_train} training images",
                    "lower it or num_gpus",
                )
            for variant, settings in self.variants.items():
                num_steps = settings["steps"] or settings["epochs"] * steps_per_epoch
                if num_steps <= settings["warmup_steps"]:
                    raise refuse(
                        *(f"{self.place}.warmup_steps", settings["warmup_steps"]),
                        f"leaves no step to measure of the {num_steps} of variant {variant} with {num_gpus} x {size}",
                        "lower it or train longer",
                    )

    def data_dir(self, run: Run) -> str:
        return f"results/prepared/{self.config['dataset']}/{run.input}"

    def weights_file(self, run: Run) -> str:
        height, width, channels = self.description.image_shape
        shape = f"{height}x{width}x{channels}_classes{self.description.num_classes}"
        return f"results/weights/{self.config['model']}_{shape}_seed{self.seed(run)}.safetensors"

    def seed(self, run: Run) -> int:
        return self.config["seed"] + run.repeat - 1

    def parity_cell(self, run: Run) -> ParityCell:
        """What the parity gate checks for a run. The best tier is checked as its equal one."""
        settings = self.variants[run.variant]
        return ParityCell(
            framework=run.framework,
            model=self.config["model"],
            shape=self.description.image_shape,
            num_classes=self.description.num_classes,
            precision=run.precision,
            device=run.device,
            batchnorm=settings["batchnorm"],
            loss_on_every_device=settings["loss_on_every_device"],
            device_kind=self._device(run).kind,
            cores_per_device=self._device(run).cores_per_device,
            over_nodes=self._device(run).num_nodes(run.num_gpus) > 1,
        )

    def spec(self, run: Run) -> dict:
        return complete_spec(run, self.settings(run), self.data_dir(run), self.weights_file(run))

    def _device(self, run: Run) -> Device:
        return self.machine.device(run.device)

    def settings(self, run: Run) -> dict:
        """What reruns a run when it changes; a setting that has its default does not appear."""
        training = self.variants[run.variant] | {"seed": self.config["seed"]}
        settings = {key: self.config[key] for key in ("dataset", "model")}
        settings["options"] = options_of_runs(self.dataset_options)
        device = self._device(run)
        layout = {"num_nodes": device.num_nodes(run.num_gpus), "cores_per_device": device.cores_per_device}
        layout |= {"device_kind": device.kind}
        return settings | drop_defaults(training, self.defaults, NESTED_KEYS) | drop_usual_layout(layout, run.device)

    def request(self) -> str:
        """The study as text, from which Plan.from_request makes it again; defaults do not appear."""
        different = drop_defaults(self.config, self.defaults, NESTED_KEYS)
        datasets = {self.config["dataset"]: self.dataset_options}
        # How many devices a machine has decides nothing but the nodes of a cluster's runs.
        nodes = ("devices_per_node", "max_nodes") if self.machine.is_cluster else ()
        keys = ("cores_per_device", "kind", "compute_capability", *nodes)
        devices = {name: self.machine.device(name) for name in dict.fromkeys(run.device for run in self.runs)}
        described = {name: {key: getattr(device, key) for key in keys} for name, device in devices.items()}
        request = {"studies": {self.name: different}, "datasets": datasets, "devices": described}
        billing = {name: billing for name in devices if (billing := self.machine.billing(name))}
        return json.dumps(request | ({"billing": billing} if billing else {}))


class Plan:
    """All studies of a config. Raises ConfigError for a config that cannot be run as it stands."""

    def __init__(self, config: dict, machine: Machine):
        schema = read_schema("config")
        check_schema(config, schema, root="config")
        self.config, self.machine = fill_defaults(config, schema, schema), machine
        datasets = self.config["datasets"]
        self.studies = {
            name: Study(name, given, datasets, machine, schema) for name, given in config["studies"].items()
        }
        self.runs = {run.path: run for study in self.studies.values() for run in study.runs}
        for name, options in datasets.items():
            describe_or_refuse(name, options, f"datasets.{name}.source")

    @classmethod
    def from_request(cls, request: dict) -> "Plan":
        values = dict(request)
        devices = {name: Device(**described) for name, described in values.pop("devices").items()}
        values.pop("billing", None)
        return cls(values, Machine("", devices))

    @cached_property
    def priorities(self) -> dict[str, int]:
        """A place in a seeded random order for each run, so that drift of the machine does not look like scaling."""
        places = {}
        for name, study in self.studies.items():
            order = list(range(1, len(study.runs) + 1))
            random.Random(f"{name}{study.config['seed']}").shuffle(order)
            places |= dict(zip((run.path for run in study.runs), order, strict=True))
        return places

    @cached_property
    def settings(self) -> dict[str, str]:
        """Each run's settings as JSON."""
        return {
            run.path: json.dumps(study.settings(run), sort_keys=True)
            for study in self.studies.values()
            for run in study.runs
        }

    @cached_property
    def _supported(self) -> list[tuple[Study, Run]]:
        return [(study, run) for study in self.studies.values() for run in study.runs if not run.unsupported]

    @cached_property
    def verdicts(self) -> dict[str, str]:
        """The parity verdict that each run waits for, by the run's path."""
        return {run.path: study.parity_cell(run).verdict for study, run in self._supported}

    @cached_property
    def parity_cells(self) -> dict[str, ParityCell]:
        """Every cell of the gate, by the file of its verdict."""
        return {self.verdicts[run.path]: study.parity_cell(run) for study, run in self._supported}

    @cached_property
    def checked_verdicts(self) -> set[str]:
        """Verdicts that some study asks for; where parity is off for all runs of a cell, nothing is checked."""
        return {self.verdicts[run.path] for study, run in self._supported if study.config["parity"] != "off"}

    @cached_property
    def devices(self) -> list[str]:
        """Names of all devices in use."""
        return list(dict.fromkeys(run.device for run in self.runs.values()))

    @cached_property
    def dataset_options(self) -> dict[str, dict]:
        """Source and options of every data set of the config, and of those that studies use by their source's name."""
        return self.config["datasets"] | {
            study.config["dataset"]: study.dataset_options for study in self.studies.values()
        }

    def is_left_out(self, run: Run) -> bool:
        """Whether a run is not for this call: it does not fit in the one node of a packed allocation."""
        return self.machine.packed and self.machine.device(run.device).num_nodes(run.num_gpus) > 1

    def find_shortages(self) -> list[str]:
        """What the studies ask for and the machine lacks, as messages."""
        shortages = []
        for study in self.studies.values():
            runs = [run for run in study.runs if not self.is_left_out(run)]
            for device in dict.fromkeys(run.device for run in runs):
                wanted = max(run.num_gpus for run in runs if run.device == device)
                available = self.machine.device(device).count
                if wanted > available:
                    shortages.append(
                        f"{study.place}.num_gpus: {wanted} exceeds the {available} {device} devices of this machine "
                        f"({self.machine.path}); lower it or choose another profile"
                    )
        return shortages

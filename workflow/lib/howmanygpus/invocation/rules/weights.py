"""Computes inputs and parameters for the rules of given initial weights, and of users' models in one file."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from howmanygpus.invocation.rules.functions import RuleFunctions
from howmanygpus.prepare.weights import find_file
from howmanygpus.study.invalidation.code import hash_initialization, hash_own_reference, hash_preparing
from howmanygpus.study.invalidation.pins import environment_record
from howmanygpus.study.networks import IMAGENET, list_pretrained, read_published
from howmanygpus.study.own.model import OwnModel

DOWNLOADS = "results/downloads"


class WeightRules(RuleFunctions):
    """The wildcards are `model`, and `network` and `start`, which are parts of the name of initial weights."""

    def published_file(self, wildcards) -> str:
        """Return the name of the file, which has the beginning of its checksum."""
        return _name_file(wildcards.model)

    def place(self, wildcards, input) -> str:
        """Return where the file is. As a parameter that depends on `input`, it reruns nothing by itself."""
        return self._machine.published_weights

    def conversion(self, wildcards) -> str:
        return hash_preparing("run_module", "measure.frameworks.torch.published", f"measure.networks.{wildcards.model}")

    def converted(self, wildcards) -> str | list:
        """Return the record of the published weights, or nothing for a file of the user."""
        if wildcards.start != IMAGENET:
            return []
        return f"results/weights/imagenet/{self._plan.models[wildcards.network]}.json"

    def given(self, wildcards, input) -> str:
        """Return the record of the published weights, or the user's file, whose hash is in the weights' name."""
        return input.converted or self._plan.initial_weights_files[wildcards.start]

    def match_models(self) -> str:
        return "|".join(list_pretrained())


class OwnModelRules(RuleFunctions):
    """The wildcards `own_model` and `options` make up the name of a network."""

    def _model(self, wildcards) -> OwnModel:
        return self._plan.own_models[wildcards.own_model + wildcards.options]

    def environment(self, wildcards) -> str:
        return environment_record(self._model(wildcards).environment)

    def initialization(self, wildcards) -> str:
        """Return the hash of the code that draws the weights, with that of the user's file."""
        return hash_initialization(self._model(wildcards))

    def reference(self, wildcards) -> str:
        """Return the hash of the code that does the gate's task, with that of the user's file."""
        return hash_own_reference(self._model(wildcards))

    def options(self, wildcards) -> str:
        return json.dumps(self._plan.networks[wildcards.own_model + wildcards.options])

    def family(self, wildcards) -> str:
        return self._model(wildcards).family

    def name(self, wildcards) -> str:
        return self._model(wildcards).name

    def precisions(self, wildcards, input) -> list[str]:
        """Return the mixed precisions in which the model is to be trained on CPUs.

        As this depends on `input`, it reruns nothing: the weights are the same.
        """
        network = wildcards.own_model + wildcards.options
        found = set()
        for cell in self._plan.parity_cells.values():
            if cell.hardware.kind == "cpu" and cell.own_model:
                is_same = cell.own_model.name_network(cell.model_options) == network
                found |= {cell.precision} if is_same else set()
        return sorted(found - {"fp32"})

    def file(self, wildcards, input) -> str:
        """Return the path of the file. As a parameter that depends on `input`, it reruns nothing by itself."""
        return self._model(wildcards).path


def _name_file(model: str) -> str:
    published = read_published(model)
    assert published, f"nothing is published for {model}"
    return published.file


def fetch_first(jobs: Iterable[Any], place: str) -> None:
    """Fetch the files that planned jobs will fetch, so that nothing starts if one cannot be had.

    place: folder or address of the files. Raises AcquisitionError.
    """
    for model in sorted({job.wildcards.model for job in jobs if job.rule.name == "fetch_weights"}):
        find_file(_name_file(model), place, Path(DOWNLOADS))

"""Computes inputs and parameters for the rules that make initial weights from published ones or a user's file."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from howmanygpus.plan.invalidation.code import hash_script
from howmanygpus.plan.networks import IMAGENET, list_pretrained, read_published
from howmanygpus.plan.plan import Plan
from howmanygpus.plan.rules.answers import Answers
from howmanygpus.prepare.acquire.published import find_file

DOWNLOADS = "results/downloads"


class WeightRules(Answers):
    """The wildcards are `model`, and `network` and `start`, which are parts of the name of initial weights."""

    def __init__(self, plan: Plan):
        super().__init__()
        self._plan, self._place = plan, plan.machine.published_weights

    def published_file(self, wildcards) -> str:
        """Return the name of the file, which has the beginning of its checksum."""
        return read_published(wildcards.model).FILE

    def place(self, wildcards, input) -> str:
        """Return where the file is. As a parameter that depends on `input`, it reruns nothing by itself."""
        return self._place

    def conversion(self, wildcards) -> str:
        modules = ("train.frameworks.torch.published", f"train.models.{wildcards.model}.published")
        return hash_script("convert_weights", *modules, f"train.models.{wildcards.model}.parameters")

    def converted(self, wildcards) -> str | list:
        """Return the record of the published weights, or nothing for a file of the user."""
        if wildcards.start != IMAGENET:
            return []
        return f"results/weights/imagenet/{self._plan.models[wildcards.network]}.json"

    def given(self, wildcards, input) -> str:
        """Return the record of the published weights, or the user's file, whose hash is in the weights' name."""
        return input.converted or self._plan.start_files[wildcards.start]

    def match_models(self) -> str:
        return "|".join(list_pretrained())


def fetch_first(jobs: Iterable[Any], place: str) -> None:
    """Fetch the files that planned jobs will fetch, so that nothing starts if one cannot be had.

    place: folder or address of the files. Raises AcquisitionError.
    """
    for model in sorted({job.wildcards.model for job in jobs if job.rule.name == "fetch_weights"}):
        find_file(read_published(model).FILE, place, Path(DOWNLOADS))

"""What the rules of acquiring and preparing data ask."""

import json
from collections.abc import Callable

from howmanygpus.plan.invalidation.code import hash_script
from howmanygpus.plan.invalidation.pins import environment_record
from howmanygpus.plan.plan import Plan
from howmanygpus.plan.rules.answers import Answers
from howmanygpus.prepare.acquire.acquisition import Acquisition
from howmanygpus.prepare.listing import Task, find_acquisition, is_listed, read_task


class DataRules(Answers):
    """Wildcards: `dataset`, and `shard` of a data set of image files."""

    def __init__(self, plan: Plan):
        super().__init__()
        self._options = plan.dataset_options

    def source(self, wildcards) -> str:
        return self._options[wildcards.dataset]["source"]

    def options(self, wildcards) -> str:
        return json.dumps(self._options[wildcards.dataset]["options"])

    def options_unseen(self, wildcards, input) -> str:
        """The same, of which a change reruns nothing by itself: a fingerprint beside it says what matters."""
        return self.options(wildcards)

    def code(self, script: str) -> Callable:
        """A function from wildcards to the hash of a script with the data set's source."""
        return lambda wildcards: hash_script(script, f"prepare.sources.{self.source(wildcards)}")

    def match(self, listed: bool) -> str:
        """Regular expression of the data sets that are made of image files, or of the others."""
        names = [name for name, options in self._options.items() if is_listed(options["source"]) == listed]
        return "|".join(names) or "(?!)"

    def task(self, wildcards) -> Task:
        options = self._options[wildcards.dataset]
        return read_task(options["source"], options["options"], self.acquired_folder(wildcards))

    def acquisition(self, wildcards) -> Acquisition | None:
        options = self._options[wildcards.dataset]
        return find_acquisition(options["source"], options["options"])

    def described_acquisition(self, wildcards) -> str:
        acquisition = self.acquisition(wildcards)
        return acquisition.describe() if acquisition else ""

    def acquired(self, wildcards) -> str | list:
        """Record of what is fetched or extracted for a data set; nothing if its files are at hand."""
        return f"results/raw/{wildcards.dataset}.json" if self.acquisition(wildcards) else []

    def acquired_folder(self, wildcards) -> str:
        return f"results/raw/{wildcards.dataset}" if self.acquisition(wildcards) else ""

    def shard_environment(self, wildcards) -> str | list:
        """The environment with Pillow-SIMD if it is asked for; nothing otherwise: the workflow's own is used."""
        return environment_record("pillow-simd") if self.task(wildcards).preparation.needs_pillow_simd else []

    def shard_fingerprint(self, wildcards) -> str:
        return self.task(wildcards).fingerprint_shard(int(wildcards.shard))

    def listing_fingerprint(self, wildcards) -> str:
        return self.task(wildcards).fingerprint_listing()

    def shards(self, suffix: str) -> Callable:
        """A function from wildcards to the files of all shards of a data set."""

        def find(wildcards) -> list[str]:
            count, folder = self.task(wildcards).num_shards, f"results/prepared/{wildcards.dataset}/shards"
            return [f"{folder}/shard{shard}of{count}.{suffix}" for shard in range(count)]

        return find

    def prepared(self) -> list[str]:
        """Record of every data set of the config."""
        return [f"results/prepared/{dataset}/arrays/dataset.json" for dataset in self._options]

    def preparation_figures(self) -> list[str]:
        """What preparing costs, for every data set of image files."""
        listed = [name for name, options in self._options.items() if is_listed(options["source"])]
        return [f"results/preparation/{dataset}.svg" for dataset in listed]

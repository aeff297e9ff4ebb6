"""Computes inputs and parameters for the rules that acquire and prepare data."""

import json
from collections.abc import Callable

from howmanygpus.plan.invalidation.code import hash_script
from howmanygpus.plan.invalidation.pins import environment_record
from howmanygpus.plan.plan import Plan
from howmanygpus.plan.rules.answers import Answers
from howmanygpus.prepare.acquire.acquisition import Acquisition
from howmanygpus.prepare.listing import Task, find_acquisition, is_listed, read_task


class DataRules(Answers):
    """The wildcards are `dataset` and, for data sets of image files, `shard`."""

    def __init__(self, plan: Plan):
        super().__init__()
        self._options = plan.dataset_options

    def source(self, wildcards) -> str:
        return self._options[wildcards.dataset]["source"]

    def options(self, wildcards) -> str:
        return json.dumps(self._options[wildcards.dataset]["options"])

    def options_unseen(self, wildcards, input) -> str:
        """Return the options as a parameter whose change reruns nothing by itself.

        Snakemake does not compare parameters whose function takes `input`. Another parameter of the rule, such as a
        fingerprint, covers the options that matter.
        """
        return self.options(wildcards)

    def code(self, script: str) -> Callable:
        """Return a function from wildcards to the hash of a script and the module of the data set's source."""
        return lambda wildcards: hash_script(script, f"prepare.sources.{self.source(wildcards)}")

    def match(self, listed: bool) -> str:
        """Return a regular expression that matches the data sets of image files if `listed`, or else all others."""
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
        """Return the record of the files fetched or extracted for a data set, or nothing if none need to be."""
        return f"results/raw/{wildcards.dataset}.json" if self.acquisition(wildcards) else []

    def acquired_folder(self, wildcards) -> str:
        return f"results/raw/{wildcards.dataset}" if self.acquisition(wildcards) else ""

    def shard_environment(self, wildcards) -> str | list:
        """Return the record of the Pillow-SIMD environment if it is needed; the workflow's own is used otherwise."""
        return environment_record("pillow-simd") if self.task(wildcards).preparation.needs_pillow_simd else []

    def shard_fingerprint(self, wildcards) -> str:
        return self.task(wildcards).fingerprint_shard(int(wildcards.shard))

    def listing_fingerprint(self, wildcards) -> str:
        return self.task(wildcards).fingerprint_listing()

    def shards(self, suffix: str) -> Callable:
        """Return a function from wildcards to the files of all shards of a data set."""

        def find(wildcards) -> list[str]:
            count, folder = self.task(wildcards).num_shards, f"results/prepared/{wildcards.dataset}/shards"
            return [f"{folder}/shard{shard}of{count}.{suffix}" for shard in range(count)]

        return find

    def prepared(self) -> list[str]:
        """Return the records of all data sets of the plan."""
        return [f"results/prepared/{dataset}/arrays/dataset.json" for dataset in self._options]

    def preparation_figures(self) -> list[str]:
        """Return the figures of the preparation cost of all data sets of image files."""
        listed = [name for name, options in self._options.items() if is_listed(options["source"])]
        return [f"results/preparation/{dataset}.svg" for dataset in listed]

"""Computes inputs and parameters for the rules that acquire and prepare data."""

import json
from collections.abc import Callable
from functools import cache

from howmanygpus.invocation.rules.functions import RuleFunctions
from howmanygpus.prepare.acquire.acquisition import Acquisition
from howmanygpus.prepare.images import PILLOW_SIMD as LIBRARY
from howmanygpus.prepare.listing import Task, is_listed, read_task, resolve_acquisition
from howmanygpus.site.machine import PILLOW_SIMD
from howmanygpus.study.config.datasets import options_of_runs
from howmanygpus.study.invalidation.code import hash_preparing
from howmanygpus.study.invalidation.contents import (
    SourceContents,
    describe_files,
    describe_shard,
    find_earlier,
    has_contents_of_arrays,
    has_contents_of_shard,
    has_shape_of_arrays,
)
from howmanygpus.study.invalidation.pins import environment_record
from howmanygpus.study.invalidation.recorded import AliasedParameter
from howmanygpus.study.plan import Plan

OTHER_SHAPE = "with another shape than before"
"""Mark on recorded options if random images of another shape were made with the same options."""


class DataRules(RuleFunctions):
    """The wildcards are `dataset` and, for data sets of image files, `shard`.

    read_recorded: returns the parameters with which a file was made, as Snakemake keeps them, or None; it always does
    in a job, which only executes what was planned. say: prints a line.
    """

    def __init__(self, plan: Plan, read_recorded: Callable[[str], list[str] | None], say: Callable[[str], None]):
        super().__init__(plan)
        self._options = plan.dataset_options
        self._read_recorded, self._say_once = read_recorded, cache(say)
        self._contents: dict[str, SourceContents] = {}

    def source(self, wildcards) -> str:
        return self._options[wildcards.dataset]["source"]

    def options(self, wildcards) -> str:
        return json.dumps(self._options[wildcards.dataset]["options"])

    def options_without_places(self, wildcards) -> str:
        """Return the options, recorded without the places of the files, whose change reruns nothing by itself."""
        recorded = {"options": self._options[wildcards.dataset]["options"]}
        return AliasedParameter(self.options(wildcards), json.dumps(options_of_runs(recorded)))

    def array_options(self, wildcards) -> str:
        """Return the options of a data set of arrays, recorded with the state of the files that it is read from.

        Another folder, or other times of the files, with the same contents change nothing.
        """
        given, arrays = self._options[wildcards.dataset]["options"], f"results/prepared/{wildcards.dataset}/arrays"
        options = self.options(wildcards)
        if "folder" not in given:
            return options
        is_acquired = self.acquisition(wildcards) is not None
        now = (
            options
            if is_acquired
            else "\n".join(filter(None, [options, describe_files(self.source(wildcards), given)]))
        )
        others = [self.code("prepare_arrays")(wildcards), self.source(wildcards), self.acquired_folder(wildcards)]
        contents = self._read_contents(wildcards.dataset)
        contents.note(now, "")
        earlier = find_earlier(self._read_recorded(f"{arrays}/dataset.json"), others)
        if earlier is None or earlier == now or not _have_same_options(earlier, now):
            return AliasedParameter(options, now)
        if is_acquired:
            return AliasedParameter(options, earlier)

        def compare() -> bool:
            self._say_once(
                f"{wildcards.dataset} has another folder, or files with other times, than when it was prepared; "
                "comparing the contents"
            )
            return has_contents_of_arrays(self.source(wildcards), given, self.root / arrays)

        return AliasedParameter(options, earlier if contents.is_same_contents(earlier, now, "", compare) else now)

    def random_options(self, wildcards) -> str:
        """Return the options of the data set whose shape random images have. Only its shape matters to them.

        The files of a data set can give it another shape while its options stay the same.
        """
        given, folder = self._options[wildcards.dataset]["options"], f"results/prepared/{wildcards.dataset}/synthetic"
        options = self.options(wildcards)
        others = [self.code("prepare_arrays")(wildcards), self.source(wildcards)]
        earlier = find_earlier(self._read_recorded(f"{folder}/dataset.json"), others)
        if earlier is None:
            return options
        if has_shape_of_arrays(self.source(wildcards), given, self.root / folder):
            return AliasedParameter(options, earlier)
        return options if earlier != options else AliasedParameter(options, f"{options}\n{OTHER_SHAPE}")

    def untracked_options(self, wildcards, input) -> str:
        """Return the options as a parameter whose change reruns nothing by itself.

        Snakemake does not compare parameters whose function takes `input`. Another parameter of the rule, such as a
        fingerprint, covers the options that matter.
        """
        return self.options(wildcards)

    def code(self, script: str) -> Callable:
        """Return a function from wildcards to the hash of a script and the module of the data set's source."""
        return lambda wildcards: hash_preparing(script, f"prepare.sources.{self.source(wildcards)}")

    def match(self, listed: bool) -> str:
        """Return a regular expression that matches the data sets of image files if `listed`, or else all others."""
        names = [name for name, options in self._options.items() if is_listed(options["source"]) == listed]
        return "|".join(names) or "(?!)"

    def task(self, wildcards) -> Task:
        options = self._options[wildcards.dataset]
        return read_task(options["source"], options["options"], self.acquired_folder(wildcards))

    def acquisition(self, wildcards) -> Acquisition | None:
        options = self._options[wildcards.dataset]
        return resolve_acquisition(options["source"], options["options"])

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
        return environment_record(PILLOW_SIMD) if self.task(wildcards).preparation.needs_pillow_simd else []

    def pillow_simd_if_there(self, wildcards) -> str | list:
        """Return the record of the Pillow-SIMD environment if it exists, or if a data set of the plan needs it."""
        record = environment_record(PILLOW_SIMD)
        libraries = (options["options"].get("library") for options in self._options.values())
        return record if (self.root / record).exists() or LIBRARY in libraries else []

    def shard_fingerprint(self, wildcards) -> str:
        """Return the fingerprint of a shard's files; other times of files with the same contents change nothing."""
        task, shard = self.task(wildcards), int(wildcards.shard)
        now, how = task.fingerprint_shard(shard), describe_shard(task, shard)
        contents = self._read_contents(wildcards.dataset)
        contents.note(now, how)
        records = self.shards("tsv")(wildcards)[shard]
        others = [self.code("prepare_shard")(wildcards), self.source(wildcards), self.acquired_folder(wildcards)]
        earlier = find_earlier(self._read_recorded(records), others)
        if earlier is None or earlier == now:
            return now

        def compare() -> bool:
            self._say_once(
                f"files of {wildcards.dataset} have other times than when they were prepared; comparing the contents"
            )
            return has_contents_of_shard(task, shard, self.root / records)

        return AliasedParameter(now, earlier) if contents.is_same_contents(earlier, now, how, compare) else now

    def _read_contents(self, dataset: str) -> SourceContents:
        path = self.root / "results" / "prepared" / dataset / "sources.json"
        return self._contents.setdefault(dataset, SourceContents(path))

    def save_contents(self) -> None:
        """Store what this call found out about the sources."""
        for contents in self._contents.values():
            contents.save()

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


def _have_same_options(*recorded: str) -> bool:
    """Return whether options are the same but for the option `folder`. The state of the files is in a second line."""
    given = (json.loads(each.partition("\n")[0]) for each in recorded)
    one, other = ({key: value for key, value in options.items() if key != "folder"} for options in given)
    return one == other

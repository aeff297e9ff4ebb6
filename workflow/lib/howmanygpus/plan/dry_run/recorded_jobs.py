"""Estimates how long a job other than a run takes, from Snakemake's records of similar jobs."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import inf
from pathlib import Path
from statistics import mean
from typing import Any

from snakemake.io import IOFile

from howmanygpus.plan.dry_run.estimate import BY_LIMIT, UNKNOWN, Expectation

HASH_IN_NAME = re.compile(r"-[0-9a-f]{8}(?=\.)")
"""Part of the names of records that changes with the code or the pins that they depend on."""
HASHES = re.compile(r"'[0-9a-f]{8,}( [0-9a-f]{8,})*'")
"""A parameter with the hash of a job's code, as Snakemake records it."""
REFERENCE = "/reference.json"
"""Suffix of the files that name a task of the parity gate."""
BY_TASK = ("compute_reference", "compute_noise", "observe_parity")
"""Rules whose jobs have a duration that depends on the network of their task."""


class RecordedJobs:
    """Durations of the jobs that Snakemake remembers. jobs: all of the call. persistence: Snakemake's records."""

    def __init__(self, jobs: Iterable[Any], persistence: Any):
        self._persistence = persistence
        self._outputs: dict[str, list[str]] = defaultdict(list)
        for job in jobs:
            if job.rule.name != "train":
                self._outputs[job.rule.name] += map(str, job.output)
        self._found: dict[str, dict[str, list]] = {}
        self._similar: dict[tuple, list[float]] = {}

    def expect(self, job: Any) -> Expectation:
        """Return the duration of the same step, by any version of the code, or else that of other jobs of the rule."""
        limit_s = 60.0 * job.resources.limit_min if "limit_min" in job.rule.resources else inf
        # The duration that Snakemake records for a job of a cluster includes its wait in the queue.
        if same := list(map(_measure, self._find_same(job))):
            return Expectation(min(mean(same), limit_s), "the same steps")
        if similar := self._find_similar(job):
            return Expectation(min(mean(similar), limit_s), "similar steps")
        return Expectation(None, UNKNOWN) if limit_s == inf else Expectation(limit_s, BY_LIMIT, is_limit=True)

    def _find_same(self, job: Any) -> Iterator[Any]:
        """Yield the records of the job and of its earlier versions, if they had the same parameters."""
        records = self._find_records(job)
        for output in job.output:
            for record in records.get(_leave_hash_out(output), []):
                given = {value for value in record.params or [] if not HASHES.fullmatch(value)}
                if given <= {repr(value) for value in job.params}:
                    yield record

    def _find_similar(self, job: Any) -> list[float]:
        """Return the durations of all jobs of a rule, for the rules of BY_TASK only of those with the same tasks."""
        rule = job.rule.name
        tasks = _find_tasks([*job.input, *job.output]) if rule in BY_TASK else []
        if (key := (rule, *tasks)) not in self._similar:
            found = [(name, record) for name, records in self._find_records(job).items() for record in records]
            if rule in BY_TASK:
                found = [
                    (name, record) for name, record in found if _find_tasks([*(record.input or []), name]) == tasks
                ]
            self._similar[key] = [_measure(record) for _, record in found]
        return self._similar[key]

    def _find_records(self, job: Any) -> dict[str, list]:
        """Return the records of a rule by output: of the jobs of this call, and of files near their outputs."""
        rule = job.rule.name
        if rule not in self._found:
            folders = {Path(output).parent for output in map(str, job.output)}
            beside = (str(path) for folder in sorted(folders) for path in sorted(folder.parent.glob("*/*.json")))
            self._found[rule] = found = defaultdict(list)
            for output in dict.fromkeys([*self._outputs[rule], *beside]):
                record = self._persistence.metadata(IOFile(output))
                if record and record.rule == rule and record.starttime and record.endtime:
                    found[_leave_hash_out(output)].append(record)
        return self._found[rule]


def _measure(record: Any) -> float:
    return max(0.0, record.endtime - record.starttime)


def _leave_hash_out(output: str) -> str:
    return HASH_IN_NAME.sub("", str(output))


def _find_tasks(inputs: Iterable[str]) -> list[str]:
    return sorted(path for path in map(str, inputs) if path.endswith(REFERENCE))

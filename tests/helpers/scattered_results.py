"""Results of a study whose rates scatter by chance, for tests that compare them."""

import json
from functools import cache

import numpy as np

from helpers.answers import make_runs
from howmanygpus.report.answer.facts import Question, decide
from howmanygpus.report.result import make_result
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy

COUNTS, REPEATS = (1, 2), 2
KNOWN = {"parity": "passed", "git_commit": "0" * 40, "manifest_sha256": "0" * 64, "python_version": "3.11.7"}


def make_study(*rows, plan=None):
    """Make the result of the runs of a study, as a file has it. A row is what answered.make_runs takes."""
    runs, evaluations = make_runs(*(KNOWN | row for row in rows))
    times = compute_time_to_accuracy(runs, evaluations, {"metric": "accuracy", "thresholds": [0.9]})
    facts = decide(runs, times, Question())
    return json.loads(json.dumps(make_result(runs, facts, plan), allow_nan=False))


@cache
def make_once(frameworks=("a", "b"), versions="torch 2"):
    rows = [
        {"framework": framework, "num_gpus": num_gpus, "per_device_batch_size": size, "framework_version": versions}
        for framework in frameworks
        for num_gpus in COUNTS
        for size in (8, 16)
        for _ in range(REPEATS)
    ]
    return json.dumps(make_study(*rows))


def make(seed, scatter=0.02, slower=None, factor=1.0, drift=0.0, **names):
    """Make the result of a study whose rates scatter; those of the framework `slower` are 10 % lower.

    drift: standard deviation of the machine's speed in this series, beside the scatter of the repeats. It is the same
    for all frameworks, whose runs alternate: in ten results of benchmarks/repeated_results.py, the ratios of two
    frameworks differed by what their repeats explain, and those of a single one by more.
    """
    draws, result = np.random.default_rng(seed), json.loads(make_once(**names))
    factor *= np.exp(drift * draws.normal()) if drift else 1
    for one in result["configurations"]:
        rate = 100 * one["num_gpus"] ** 0.9 * (1 + one["per_device_batch_size"] / 20) * factor
        rate *= 0.9 if one["framework"] == slower else 1
        one["images_per_s"] = [rate * np.exp(scatter * draws.normal()) for _ in one["images_per_s"]]
        low, high = min(one["images_per_s"]), max(one["images_per_s"])
        one["summary"]["images_per_s"] = {"median": float(np.median([low, high])), "low": low, "high": high}
    return result

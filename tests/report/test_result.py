"""Two results of a study are compared: chance is no difference, and a slower framework is one."""

import json
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

from answered import make_runs
from howmanygpus.report.result import compare, find_changes, make_result
from project import ROOT

COUNTS, REPEATS = (1, 2), 2


@cache
def make_once(frameworks=("a", "b"), versions="torch 2"):
    rows = [
        {"framework": framework, "num_gpus": num_gpus, "per_device_batch_size": size, "framework_version": versions}
        for framework in frameworks
        for num_gpus in COUNTS
        for size in (8, 16)
        for _ in range(REPEATS)
    ]
    runs, _ = make_runs(*rows)
    return json.dumps(make_result(runs, {}), allow_nan=False)


def make(seed, scatter=0.02, slower=None, factor=1.0, **names):
    """Make the result of a study whose rates scatter; those of the framework `slower` are 10 % lower."""
    draws, result = np.random.default_rng(seed), json.loads(make_once(**names))
    for one in result["configurations"]:
        rate = 100 * one["num_gpus"] ** 0.9 * (1 + one["per_device_batch_size"] / 20) * factor
        rate *= 0.9 if one["framework"] == slower else 1
        one["images_per_s"] = [rate * np.exp(scatter * draws.normal()) for _ in one["images_per_s"]]
    return result


def name_differences(comparison):
    return [each.names["framework"] for each in comparison.frameworks if each.is_difference]


def test_two_runs_of_the_same_study_do_not_differ_and_a_slower_framework_does():
    """The probability of a false difference is at most 2 % for each comparison, of a missed one a few per cent."""
    same = [name_differences(compare(make(2 * seed), make(2 * seed + 1))) for seed in range(100)]
    assert sum(map(bool, same)) <= 2
    slowed = [compare(make(2 * seed), make(2 * seed + 1, slower="b")) for seed in range(100)]
    assert sum(name_differences(each) == ["b"] for each in slowed) >= 90
    assert np.median([each.frameworks[1].ratio for each in slowed]) == pytest.approx(0.9, abs=0.01)


def test_the_interval_covers_the_true_ratio():
    ratios = [
        each for seed in range(200) for each in compare(make(2 * seed), make(2 * seed + 1, factor=1.2)).frameworks
    ]
    assert np.mean([each.low <= 1.2 <= each.high for each in ratios]) >= 0.98
    assert np.mean([each.high - each.low for each in ratios]) < 0.25


def test_small_differences_are_not_named_however_sure():
    comparison = compare(make(1, scatter=1e-6), make(2, scatter=1e-6, factor=0.97))
    assert comparison.frameworks[0].high < 1 and name_differences(comparison) == [] and comparison.worst == 1


def test_single_repeats_have_no_interval_and_make_no_difference():
    first, second = make(1), make(2, factor=0.5)
    for one in (*first["configurations"], *second["configurations"]):
        one["images_per_s"] = one["images_per_s"][:1]
    comparison = compare(first, second)
    assert np.isnan(comparison.frameworks[0].low) and name_differences(comparison) == []


def test_what_only_one_result_has_is_listed_and_so_are_other_circumstances():
    first, second = make(1, frameworks=("a", "b")), make(1, frameworks=("b", "c"), versions="torch 3")
    comparison = compare(first, second)
    assert {one["framework"] for one in comparison.only_first} == {"a"}
    assert {one["framework"] for one in comparison.only_second} == {"c"}
    assert [each.names["framework"] for each in comparison.frameworks] == ["b"]
    assert find_changes(first, second) == ["framework_version: torch 2 -> torch 3"]


def test_the_command_tells_and_fails_below_a_ratio(tmp_path):
    paths = []
    for name, result in (("first", make(1)), ("second", make(2, slower="b"))):
        folder = tmp_path / name / "results" / "tables" / "s"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps(result))
        paths.append(str(tmp_path / name))

    def call(*options):
        command = [sys.executable, "workflow/scripts/compare_results.py", *options, "--folder", str(tmp_path / "made")]
        return subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": "workflow/lib"}, capture_output=True, text=True)

    told = call(*paths)
    assert told.returncode == 0 and "Difference: b is 0.9" in told.stdout
    assert (tmp_path / "made" / "comparison.txt").read_text() in told.stdout
    assert len((tmp_path / "made" / "comparison.tsv").read_text().splitlines()) == 1 + 2 + 8
    assert call(*paths, "--fail-below", "0.95").returncode == 1
    assert call(*paths, "--fail-below", "0.8").returncode == 0
    (tmp_path / "answer.json").write_text('{"decisions": []}')
    assert "name a file result.json" in call(paths[0], str(tmp_path / "answer.json")).stderr
    assert "has results of these studies: none" in call(paths[0], str(tmp_path / "made")).stderr


def test_few_repeats_are_judged_by_their_own_quantile():
    """Student's quantile for one configuration with two repeats in each result: 99 % of two degrees of freedom."""
    first, second = make(1, frameworks=("a",)), make(2, frameworks=("a",), factor=1.2)
    for each in (first, second):
        each["configurations"] = each["configurations"][:1]
    rates = [np.log(each["configurations"][0]["images_per_s"]) for each in (first, second)]
    error = np.sqrt(np.mean([np.var(each, ddof=1) for each in rates]))
    (one,) = compare(first, second).frameworks
    assert np.log(one.high / one.ratio) == pytest.approx(6.965 * error, rel=1e-3)


def test_devices_of_one_result_are_not_mixed():
    rows = [
        {"framework": "a", "device": device, "images_per_s": rate}
        for device, rate in (("cpu", 10.0), ("a100", 1000.0))
        for _ in range(2)
    ]
    runs, _ = make_runs(*rows)
    result = json.loads(json.dumps(make_result(runs, {}), allow_nan=False))
    assert [one["images_per_s"] for one in result["configurations"]] == [[10, 10], [1000, 1000]]
    assert [(each.names["device"], each.ratio) for each in compare(result, result).configurations] == [
        ("cpu", 1),
        ("a100", 1),
    ]
    gpu = result | {"configurations": [one | {"device": "h100"} for one in result["configurations"][1:]]}
    alone = result | {"configurations": result["configurations"][1:]}
    assert len(compare(alone, gpu).configurations) == 1, "other machines are compared"


def test_disturbed_repeats_are_said():
    first, second = make(1), make(2)
    second["configurations"][0]["disturbed"] = 2
    assert find_changes(first, second) == ["repeats that other work disturbed, which count: 0 -> 2"]


def test_two_models_of_one_device_name_are_two_machines():
    """A processor that is replaced by a faster one makes no framework faster."""
    slow, fast = {"device_model": "old", "images_per_s": 100.0}, {"device_model": "new", "images_per_s": 300.0}
    rows = [{"framework": "a"} | model for model in (slow, slow, fast, fast)]
    missing = {"framework": "a", "num_gpus": 2, "status": "missing", "device_model": None}
    mixed = make_result(make_runs(*rows, missing)[0], {})
    rates = {tuple(one["device_model"]): one["images_per_s"] for one in mixed["configurations"]}
    assert rates == {("old",): [100, 100], ("new",): [300, 300], (): []}
    alone = make_result(make_runs(*rows[:2], missing)[0], {})
    assert [one["device_model"] for one in alone["configurations"]] == [["old"], []]
    comparison = compare(mixed, alone)
    assert [each.names["device_model"] for each in comparison.configurations] == ["old"]
    assert [each["device_model"] for each in comparison.only_first] == ["new"]
    moved = make_result(make_runs(*rows[2:])[0], {})
    assert len(compare(alone, moved).configurations) == 1, "two machines, each with one model"


def test_a_run_that_has_not_started_counts_with_the_only_model():
    rows = [{"framework": "a", "device_model": "old"}, {"framework": "a", "status": "missing", "device_model": None}]
    (one,) = make_result(make_runs(*rows)[0], {})["configurations"]
    assert one["num_planned"] == 2 and one["device_model"] == ["old"]

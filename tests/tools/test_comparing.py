"""Two results of a study are compared: chance is no difference, and a slower framework is one."""

import json
import subprocess
import sys

import numpy as np
import pytest

from helpers.answers import make_runs
from helpers.messages import says
from helpers.scattered_results import make, make_study
from helpers.specs import make_spec
from helpers.stored_runs import plan_of
from howmanygpus.report.places import find_places
from howmanygpus.report.result import make_result
from howmanygpus.report.settings_of_runs import describe_settings
from howmanygpus_tools.compare.__main__ import main
from howmanygpus_tools.compare.comparison import BETWEEN, BETWEEN_PER_SCATTER, compare, find_changes
from howmanygpus_tools.compare.figure import draw_ratios
from howmanygpus_tools.compare.result_files import ResultError, compare_named, read_result, rename_framework
from howmanygpus_tools.compare.text import render_comparison
from project import ROOT

SEEDS = range(500)


THREE = {"scatter": 0.02, "frameworks": ("a", "b", "c")}


def name_differences(comparison):
    return [each.names["framework"] for each in comparison.list_differences()]


def test_two_runs_of_the_same_study_do_not_differ_and_a_slower_framework_does():
    """The probability of a false difference is at most 2 % for each comparison, of a missed one a few per cent.

    Both results were measured at a time of their own, between which the machine drifts.
    """
    drift = BETWEEN / np.sqrt(2)
    same = [name_differences(compare(make(2 * seed, drift=drift), make(2 * seed + 1, drift=drift))) for seed in SEEDS]
    assert np.mean(list(map(bool, same))) <= 0.02
    slowed = [compare(make(2 * seed, drift=drift), make(2 * seed + 1, slower="b", drift=drift)) for seed in SEEDS]
    assert np.mean([name_differences(each) == ["b"] for each in slowed]) >= 0.9
    assert np.median([each.frameworks[1].ratio for each in slowed]) == pytest.approx(0.9, abs=0.01)


def test_a_machine_that_scatters_and_drifts_more_gives_no_more_false_differences():
    """The drift of a series is that of a machine whose ratios of two series differ by 6 %, as measured."""
    known = {"scatter": 0.08, "drift": 0.06 / np.sqrt(2)}
    same = [name_differences(compare(make(2 * seed, **known), make(2 * seed + 1, **known))) for seed in SEEDS]
    assert np.mean(list(map(bool, same))) <= 0.02
    halved = compare(make(1, **known), make(2, factor=0.5, **known))
    assert name_differences(halved) == ["a", "b"]


def test_a_framework_that_loses_is_found_whatever_the_machines_speed():
    """The whole machine is faster or slower by some ten percent in the second series, and `b` by a tenth more."""
    factors = np.exp(0.1 * np.random.default_rng(0).standard_normal(200))
    for frameworks, share in ((("a", "b"), 0.85), (("a", "b", "c"), 0.7)):
        known = {"scatter": 0.03, "frameworks": frameworks}
        slowed = [
            compare(make(2 * seed, **known), make(2 * seed + 1, slower="b", factor=factor, **known))
            for seed, factor in enumerate(factors)
        ]
        found = [{each.names["framework"] for each in one.relative if each.is_difference} for one in slowed]
        assert np.mean(["b" in names for names in found]) >= share
        assert all(one.find_relative(one.frameworks[1]).ratio < 1 for one in slowed)
        lost = [one for one, names in zip(slowed, found, strict=True) if "b" in names]
        assert all(one.worst <= one.frameworks[1].ratio for one in lost)
        text = " ".join(render_comparison(lost[0], [], "A", "B").split())
        assert "Difference: b is 0." in text and "No framework differs" not in text


def test_a_framework_that_gets_faster_makes_no_other_one_lose():
    lost = []
    for seed in range(100):
        second = make(2 * seed + 1, factor=0.98, **THREE)
        for one in second["configurations"]:
            one["images_per_s"] = [rate * (1.5 if one["framework"] == "a" else 1) for rate in one["images_per_s"]]
        comparison = compare(make(2 * seed, **THREE), second)
        named = {each.names["framework"] for each in comparison.relative if each.is_difference}
        assert "a" in named and "a" in name_differences(comparison)
        lost.append(len(named) > 1 or comparison.worst < 0.95)
    assert np.mean(lost) <= 0.02


def test_what_has_no_rate_does_not_hide_what_has_one():
    """Runs on another device that have not started have the same names but for the device."""
    first, second = make(1), make(2)
    for one in list(first["configurations"]):
        first["configurations"].append(one | {"device": "a100", "images_per_s": [], "settings": {"precision": "bf16"}})
    comparison = compare(first, second)
    assert len(comparison.configurations) == 8 and find_changes(first, second) == []


def test_one_framework_has_no_ratio_relative_to_others():
    comparison = compare(make(1, frameworks=("a",)), make(2, frameworks=("a",), factor=0.5))
    assert comparison.relative == [] and name_differences(comparison) == ["a"]
    assert "relative" not in render_comparison(comparison, [], "A", "B")


def test_the_interval_covers_the_true_ratio():
    ratios = [
        each for seed in range(200) for each in compare(make(2 * seed), make(2 * seed + 1, factor=1.2)).frameworks
    ]
    assert np.mean([each.low <= 1.2 <= each.high for each in ratios]) >= 0.98
    assert np.mean([each.high - each.low for each in ratios]) < 0.25


def test_the_least_difference_that_can_be_seen_is_said():
    """With a tiny scatter it is what two series on one machine differ by.

    The quantile is that of three ratios of two sides, 0.02 / 6: of two frameworks, and of one relative to the other.
    """
    comparison = compare(make(1, scatter=1e-6), make(2, scatter=1e-6))
    assert comparison.frameworks[0].least == pytest.approx(np.expm1(2.713 * BETWEEN), rel=1e-3)
    text = " ".join(render_comparison(comparison, [], "A", "B").split())
    assert "do not show less than 6 % of a, 6 % of b, or 6 % relative to each other." in text


def test_small_differences_are_not_named_however_sure():
    comparison = compare(make(1, scatter=1e-6), make(2, scatter=1e-6, factor=0.96))
    assert name_differences(comparison) == [] and comparison.worst == 1


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


def test_the_command_tells_and_fails_below_a_ratio(tmp_path, monkeypatch, capsys):
    """It is started once. Other calls are made here, because the import takes longer than the comparison."""
    paths = []
    for name, result in (("first", make(1)), ("second", make(2, slower="b"))):
        folder = tmp_path / name / "results" / "tables" / "s"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps(result))
        paths.append(str(tmp_path / name))
    options = ["--folder", str(tmp_path / "made")]

    def call(*arguments: str):
        """Return the exit status, which is a text after an error, and what was printed."""
        monkeypatch.setattr(sys, "argv", ["compare", *arguments, *options])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr().out

    command = [sys.executable, "-m", "howmanygpus_tools.compare", *paths, *options]
    variables = {"PYTHONPATH": "workflow/lib"}
    told = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    assert told.returncode == 0 and "Difference: b is 0.9" in told.stdout
    assert (tmp_path / "made" / "comparison.txt").read_text() in told.stdout
    assert len((tmp_path / "made" / "comparison.tsv").read_text().splitlines()) == 1 + 2 + 8
    assert all((tmp_path / "made" / f"comparison.{suffix}").stat().st_size for suffix in ("svg", "png"))
    assert call(*paths, "--fail-below", "0.95")[0] == 1
    assert call(*paths, "--fail-below", "0.8")[0] == 0
    (tmp_path / "answer.json").write_text('{"decisions": []}')
    assert "name a file result.json" in call(paths[0], str(tmp_path / "answer.json"))[0]
    assert "are the same file; name two results" in call(paths[0], paths[0])[0]
    renamed = " ".join(call(*paths, "--rename", "b=c")[1].split())
    assert says(renamed, "Only in", paths[0], "of b", "Only in", paths[1], "of c")
    assert "has results of these studies: none" in call(paths[0], str(tmp_path / "made"))[0]


def test_the_figure_has_a_row_for_each_framework_and_fills_the_marks_of_differences():
    comparison = compare(make(1), make(2, slower="b"))
    (axes,) = draw_ratios(comparison).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "a"], "the slowest is at the bottom"
    drawn = {line.get_xdata()[0]: line.get_markerfacecolor() for line in axes.lines if line.get_markersize() == 8}
    assert list(drawn) == [each.ratio for each in reversed(comparison.frameworks)]
    assert [colour == "white" for colour in drawn.values()] == [False, True]


def test_few_repeats_are_judged_by_their_own_quantile():
    """Student's quantile for one configuration with two repeats in each result: 99 % of two degrees of freedom."""
    first, second = make(1, frameworks=("a",)), make(2, frameworks=("a",), factor=1.2)
    for each in (first, second):
        each["configurations"] = each["configurations"][:1]
    rates = [np.log(each["configurations"][0]["images_per_s"]) for each in (first, second)]
    error = np.sqrt(np.mean([np.var(each, ddof=1) for each in rates]))
    (one,) = compare(first, second).frameworks
    between = max(2.326 * BETWEEN, 6.965 * BETWEEN_PER_SCATTER * error)
    assert np.log(one.high / one.ratio) == pytest.approx(np.hypot(6.965 * error, between), rel=1e-3)


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
    mixed = make_study(*rows, missing)
    rates = {tuple(one["device_model"]): one["images_per_s"] for one in mixed["configurations"]}
    assert rates == {("old",): [100, 100], ("new",): [300, 300], (): []}
    alone = make_study(*rows[:2], missing)
    assert [one["device_model"] for one in alone["configurations"]] == [["old"], []]
    comparison = compare(mixed, alone)
    assert [each.names["device_model"] for each in comparison.configurations] == ["old"]
    assert [each["device_model"] for each in comparison.only_first] == ["new"]
    moved = make_study(*rows[2:])
    assert len(compare(alone, moved).configurations) == 1, "two machines, each with one model"


def test_a_run_that_has_not_started_counts_with_the_only_model():
    rows = [{"framework": "a", "device_model": "old"}, {"framework": "a", "status": "missing", "device_model": None}]
    (one,) = make_study(*rows)["configurations"]
    assert one["num_planned"] == 2 and one["device_model"] == ["old"]


def write(folder, text):
    path = folder / "result.json"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ("is empty", "name a file result.json")),
        ("{", ("is no JSON", "line 1", "name a file result.json")),
        ("[]", ("is no result", "name a file result.json")),
        ('{"configurations": [], "version": 1}', ("version: 1 is not 2", "available")),
        ('{"configurations": [], "version": 2}', ("decision", "is missing", "available")),
    ],
)
def test_a_file_that_is_no_result_is_refused_with_what_to_do(tmp_path, text, parts):
    with pytest.raises(ResultError) as error:
        read_result(write(tmp_path, text))
    assert says(str(error.value), tmp_path, *parts)


def test_a_value_of_the_wrong_kind_is_named(tmp_path):
    result = make(1)
    result["configurations"][1]["images_per_s"] = ["fast"]
    with pytest.raises(ResultError) as error:
        read_result(write(tmp_path, json.dumps(result)))
    assert says(str(error.value), "configurations[1].images_per_s[0]", "fast", "available")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ResultError, match="No such file"):
        read_result(tmp_path / "result.json")


def refuse_pair(first, second):
    with pytest.raises(ResultError) as error:
        compare_named(first, second, "A", "B")
    return str(error.value)


def test_two_studies_are_not_compared_and_what_differs_is_named():
    other = make(2)
    other["configurations"] = [one | {"dataset": "cifar10"} for one in other["configurations"]]
    assert says(refuse_pair(make(1), other), "A", "B", "dataset d", "cifar10", "one study")


def test_a_renamed_framework_is_named_with_the_remedy_which_works():
    first, second = make(1, frameworks=("a",)), make(2, frameworks=("z",))
    assert says(refuse_pair(first, second), "framework a", "z", "RENAME=OLD=NEW")
    ratio = compare_named(first, rename_framework(second, "z", "a", "B"), "A", "B").frameworks[0]
    assert ratio.names["framework"] == "a" and ratio.ratio == pytest.approx(1, abs=0.1)
    with pytest.raises(ResultError, match="B has no framework y; it has z"):
        rename_framework(second, "y", "a", "B")
    with pytest.raises(ResultError, match="B already has a framework a; it has a, b"):
        rename_framework(make(1), "b", "a", "B")


def test_results_that_count_different_things_are_refused():
    other = make(2)
    other["decision"]["unit"] = "tokens"
    assert says(refuse_pair(make(1), other), "A counts images", "B tokens", "one `unit`")


def test_the_same_result_twice_and_a_result_without_a_rate_are_refused():
    assert says(refuse_pair(make(1), make(1)), "A and B are the same result", "name two")
    nothing = make(2)
    nothing["configurations"] = [one | {"images_per_s": []} for one in nothing["configurations"]]
    assert says(refuse_pair(make(1), nothing), "B has no run with a rate", "do its runs")


def test_other_settings_of_the_same_configurations_are_named():
    first, second = make(1), make(2)
    second["configurations"][0]["settings"] = {"epochs": 3, "optimizer.name": "adam"}
    assert find_changes(first, second) == ["epochs: default -> 3", "optimizer.name: default -> adam"]


def test_a_result_has_medians_with_intervals_and_repeats_at_the_same_places():
    rows = [{"framework": "a", "images_per_s": rate, "cost": cost} for rate, cost in ((90.0, None), (110.0, 2.0))]
    (one,) = make_study(*rows)["configurations"]
    assert (one["images_per_s"], one["cost"], one["seeds"]) == ([90, 110], [None, 2], [1, 1])
    assert one["summary"]["images_per_s"] == {"median": 100, "low": 90, "high": 110}
    assert one["summary"]["cost"] == {"median": 2, "low": None, "high": None}
    assert one["summary"]["peak_memory_gib"] is None


def test_a_result_has_the_settings_that_are_not_defaults():
    spec = make_spec(epochs=7, data_dir="/scratch/ada/images")
    plan = plan_of(spec) | {"defaults": {"warmup_steps": spec.warmup_steps}}
    (one,) = make_study({"framework": "a", "run_dir": "results/runs/run0"}, plan=plan)["configurations"]
    assert one["settings"]["epochs"] == 7 and "optimizer.name" in one["settings"]
    assert not {"warmup_steps", "data_dir", "repeat", "seed", "strategy"} & set(one["settings"])


def test_a_result_names_no_host_no_place_and_no_user():
    where = {"hostname": "gpu7", "nodes": "gpu7 gpu8", "gpu_uuids": "GPU-0a1b2c3d-1111", "reason": "/home/ada/x"}
    where |= {"health": "gpu7: /scratch/ada is full", "run_dir": "results/runs/s/a", "status": "completed"}
    result = make_study(*({"framework": "a"} | where for _ in range(3)))
    text = json.dumps(result)
    assert "host 1: ... is full" in text
    assert not any(secret in text for secret in ("gpu7", "gpu8", "ada", "0a1b2c3d", "results/runs"))
    assert not list(find_places(result, ("gpu7", "gpu8")))


def test_a_program_is_known_by_its_files_and_axes_and_not_by_where_it_is():
    def describe(**changes):
        program = {"command": "python /home/ada/t.py", "files": {"/home/ada/t.py": "0" * 64}, "axes": {"size": "large"}}
        plan = plan_of(make_spec())
        plan["runs"]["run0"]["spec"]["program"] = program | changes
        return describe_settings(plan)["results/runs/run0"]["program"]

    assert describe() == describe(command="python3 t.py", files={"t.py": "0" * 64})
    assert len({describe(), describe(files={"t.py": "1" * 64}), describe(axes={"size": "small"})}) == 3

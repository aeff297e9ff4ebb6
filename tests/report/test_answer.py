"""The answer is right about the cases that flatter: failed repeats, one repeat, losses, prices and guesses."""

import pandas as pd
import pytest

from helpers.answers import complete, find_doubt, find_line, make_facts, make_runs, write_answer
from helpers.messages import says
from howmanygpus.report.answer.texts import render_answer
from howmanygpus.report.predictions import guess
from howmanygpus.report.tables.datasets import COLUMNS as DATASETS
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy


def get_best(facts):
    (decision,) = facts["decisions"]
    return decision["recommended"]


@pytest.mark.parametrize("status", ["time_limit", "crashed", "out_of_memory", "host_out_of_memory", "clock_mismatch"])
def test_repeats_that_failed_count_against_their_configuration(status):
    """The lucky repeat of a would be the fastest to the threshold and have the highest throughput."""
    lucky = {"framework": "a", "train_s": 1.0, "images_per_s": 900.0}
    failed = {"framework": "a", "status": status}
    facts = make_facts(lucky, failed, failed, {"framework": "b"}, {"framework": "b"}, {"framework": "b"})
    assert get_best(facts)["framework"] == "b"
    said = find_doubt(facts, "failed")
    assert says(said, "2 runs failed", "not ranked", "1 x cpu a batch 8", "faster than all")
    facts = make_facts(lucky | {"images_per_s": 90.0}, failed, {"framework": "b"})
    assert "faster" not in find_doubt(facts, "failed")


@pytest.mark.parametrize("other", [{"status": "crashed"}, {"quality": 0.5}], ids=["failed", "reached nothing"])
def test_a_configuration_with_one_missed_target_is_not_the_fastest(other):
    """The median of three repeats does not show that one of them never reached the threshold."""
    lucky = {"framework": "a", "train_s": 1.0}
    (decision,) = make_facts(lucky, lucky, {"framework": "a"} | other, *[{"framework": "b"}] * 3)["decisions"]
    assert decision["recommended"]["framework"] == "b" and decision["alternatives"] == []


@pytest.mark.parametrize("status", ["missing", "interrupted", "preempted", "running"])
def test_repeats_that_were_not_tried_to_the_end_do_not_count_but_are_named(status):
    facts = make_facts({"framework": "a"}, {"framework": "a", "status": status})
    assert get_best(facts)["num_repeats"] == 1 and find_doubt(facts, "unfinished").startswith("Not done yet: 1 of 2")
    assert not find_doubt(facts, "failed")


def test_the_hardest_threshold_of_a_loss_is_the_lowest():
    rows = [{"framework": "a", "quality": 0.2, "quality_metric": "test_loss"}] * 2
    text = write_answer(*rows, metric="test_loss", thresholds=(0.5, 0.3, 0.1), guessed=2.3)
    assert "**Use 1 x cpu, a, 8 images per device: cross-entropy 0.3 in 2 s" in text
    assert "- No run reached cross-entropy 0.1." in text.splitlines()
    line = find_line(text, "At the end, the test cross-entropy is 0.2")
    assert line.endswith("Knowing only how frequent each class is gives 2.3.")


def test_the_quality_at_the_end_stands_beside_that_of_a_guess():
    text = write_answer({"framework": "a", "quality": 0.94}, {"framework": "a", "quality": 0.96})
    line = find_line(text, "At the end, the test accuracy is 0.95 (0.94 to 0.96)")
    assert line.endswith(". Always naming the majority class gives 0.1.")
    assert "majority" not in write_answer({"framework": "a"}, guessed=None)


def test_the_quality_is_named_also_if_it_is_below_all_thresholds():
    text = write_answer({"framework": "a", "quality": 0.31}, {"framework": "b", "quality": 0.3, "images_per_s": 90.0})
    assert "**Use 1 x cpu, a, 8 images per device: 100 images/s, accuracy 0.31 at the end.**" in text
    assert "No run reached accuracy 0.9; the rate decides." in text


def test_a_worse_quality_is_set_apart_if_only_the_rate_decides():
    facts = make_facts({"framework": "a", "quality": 0.42}, {"framework": "b", "quality": 0.31, "images_per_s": 999.0})
    assert get_best(facts)["framework"] == "a"
    assert says(find_doubt(facts, "unequal_quality"), "accuracy 0.42", "1 x cpu b batch 8", "0.31")


@pytest.mark.parametrize(
    ("metric", "quality", "guessed", "is_said"),
    [
        ("accuracy", 0.1, 0.1, True),
        ("accuracy", 0.11, 0.1, False),
        ("test_loss", 2.4, 2.3, True),
        ("test_loss", 2.2, 2.3, False),
        ("accuracy", 0.1, None, False),
    ],
)
def test_the_answer_names_networks_no_better_than_a_guess(metric, quality, guessed, is_said):
    row = {"framework": "a", "quality": quality, "quality_metric": metric}
    facts = make_facts(row, metric=metric, thresholds=(0.05,) if metric == "test_loss" else (0.9,), guessed=guessed)
    assert ("compare labels and learning rate" in find_doubt(facts, "no_better_than_a_guess")) == is_said


@pytest.mark.parametrize(("later", "said"), [([0.8], "1 of 1 repeat"), ([0.8, 0.96, 0.89], "2 of 3 repeats")])
def test_a_threshold_that_was_lost_again_is_doubted(later, said):
    facts = make_facts(*({"framework": "pytorch_ddp", "then": quality} for quality in later))
    assert says(find_doubt(facts, "lost_target"), said, "misses accuracy 0.9 again")
    kept = make_facts(*({"framework": "pytorch_ddp", "then": quality} for quality in (0.9, 0.97, None)))
    assert not find_doubt(kept, "lost_target")


def test_unreached_thresholds_are_no_goal():
    rows = [{"framework": "a", "quality": 0.95}, {"framework": "a", "quality": 0.5}]
    facts = make_facts(*rows)
    assert "No configuration reached a threshold of accuracy in all its repeats" in find_doubt(facts, "no_target")
    assert facts["decisions"][0]["goal"]["unreached"] == []


def test_what_is_first_with_start_up_and_evaluation_is_named_if_the_repeats_tell_it():
    """The ranking is by training time."""

    def repeat(framework, train_s, wall_s):
        return [{"framework": framework, "train_s": train_s, "wall_s": wall_s * factor} for factor in (0.9, 1.0, 1.1)]

    text = write_answer(*repeat("a", 2.0, 50.0), *repeat("b", 4.0, 8.0))
    assert "With start-up and evaluation it would be 1 x cpu, b: 8 s (7.2 to 8.8) instead of 50 s (45 to 55)." in text
    assert "it would be" not in write_answer(*repeat("a", 2.0, 50.0), *repeat("b", 4.0, 48.0))


def test_costs_are_prices_and_billed_hours_where_there_is_a_price():
    billed = {"currency": "EUR", "device_hours": 40 / 3600, "wall_time_s": 30.0}
    dear = {"framework": "a", "cost": 9.0, **billed}
    cheap = {"framework": "b", "cost": 4.0, **billed, "train_s": 2.5}
    (decision,) = make_facts(dear, cheap)["decisions"]
    assert decision["recommended"]["framework"] == "a"
    (other,) = [each for each in decision["alternatives"] if "cheapest" in each["roles"]]
    assert other["framework"] == "b" and other["cost"]["median"] == pytest.approx(4 * (1 - 21 / 40))
    without = make_facts({"framework": "a"}, {"framework": "b", "train_s": 2.5})
    assert get_best(without)["cost"] is None and without["details"]["bill"] is None


def make_job(kind, status, hours, **changes):
    counted = {"hours": hours, "device_hours": 2 * hours, "counted_by": "SLURM"} if hours else {}
    return {"kind": kind, "status": status, "record": f"{kind}-{status}-{hours}"} | counted | changes


def test_the_bill_sums_all_jobs_and_names_their_purposes():
    """The cost of everything is the sum of all jobs, also of those that did not train."""
    jobs = [make_job("run", "completed", 2.0), make_job("run", "crashed", 0.5), make_job("gate", "completed", 0.25)]
    jobs += [make_job("probe", "completed", 0.1), make_job("allreduce", "time_limit", 0.15)]
    for job in jobs:
        job |= {"billed_device_hours": 4 * job["hours"], "cost": 8 * job["hours"], "currency": "EUR"}
    jobs += [make_job("run", "killed", None), make_job("run", "running", None)]
    text = write_answer({"framework": "a"}, jobs=jobs)
    line = find_line(text, "Billed")
    assert says(text, "## The bill (12 device-hours, 24 EUR)")
    assert says(line, "runs 8", "parity gate 1", "probe 0.4", "failed attempts 2.6")
    assert says(line, "1 job still running", "1 job left out")
    shares = [make_job("probe", "completed", 0.05, record="shared") for _ in range(2)]
    counted = {"slurm": 1, "program": 0, "running": 0, "unknown": 0}
    assert make_facts({"framework": "a"}, jobs=shares)["details"]["bill"]["jobs"] == counted, "two studies share it"
    own = [make_job("run", "completed", 2.0, counted_by="job")]
    text = write_answer({"framework": "a"}, jobs=own)
    assert "## The bill (4 device-hours, without a price)" in text
    assert find_line(text, "Used") == "- Used device-hours: runs 4."


def test_a_study_without_a_usable_run_is_explained():
    cannot = {"status": "unsupported", "reason": "mxnet_gluon has no build for cuda"}
    diverged = {"status": "diverged", "reason": "training loss is nan"}
    facts = make_facts({"framework": "a"} | cannot, {"framework": "b"} | cannot, {"framework": "c"} | diverged)
    (decision,) = facts["decisions"]
    assert decision["recommended"] is None
    told = [doubt["text"] for doubt in decision["doubts"]]
    assert "a has no completed run: 1 unsupported (mxnet_gluon has no build for cuda)." in told
    assert "c has no completed run: 1 diverged (training loss is nan)." in told
    assert facts["details"]["ended"][0] == cannot | {"num_runs": 2}


def test_a_long_reason_is_cut_on_the_screen_and_whole_below():
    reason = "the process on n1 ended with status 1: " + "word " * 40 + "; do this"
    facts = make_facts({"framework": "a", "status": "crashed", "reason": reason})
    assert len(find_doubt(facts, "absent_framework")) < 140 and facts["details"]["ended"][0]["reason"] == reason


def test_disturbed_runs_are_counted_with_the_command_that_repeats_them():
    rows = [{"framework": "a", "disturbed": disturbed} for disturbed in (True, False, False)]
    (decision,) = make_facts(*rows)["decisions"]
    (doubt,) = [each for each in decision["doubts"] if each["kind"] == "disturbed"]
    assert doubt["text"] == (
        "Disturbed by other work: 1 of 3 runs, also of the recommended configuration, whose 2 other repeats count."
    )
    assert doubt["run_next"] == [".venv/bin/python workflow/scripts/retry_runs.py --disturbed --study s"]
    assert not find_doubt(make_facts({"framework": "a"}), "disturbed"), "nobody looked"


def test_the_answer_names_data_devices_nodes_and_dates():
    rows = [{"framework": "a", "nodes": "node2"}, {"framework": "a", "num_gpus": 2, "nodes": "node1 node3"}]
    text = write_answer(*rows)
    line = find_line(text, "Data:")
    assert says(line, "d (arrays)", "1,437 training", "360 test", "8 x 8 pixels", "1 channel", "10 classes")
    assert "- Devices: 1 and 2 x cpu (AMD EPYC; node1, node2, node3)." in text
    assert "2026-11-22" in text
    text = write_answer({"framework": "a", "status": "unsupported", "started_at": None})
    assert "Data: d (arrays)" in text and "2026" not in text and "Devices:" not in text


def test_runs_whose_losses_leave_the_others_did_other_work():
    near, far = ({"trajectory": value, "trajectory_limit": 1e-3} for value in (1e-5, 1e-2))
    facts = make_facts({"framework": "a"} | near)
    known = {"num_compared": 1, "num_apart": 0, "frameworks": [], "unstable_after_step": None}
    assert facts["details"]["trajectories"] == known and not find_doubt(facts, "unstable_training")
    assert not find_doubt(facts, "unequal_work")
    facts = make_facts({"framework": "a"} | near, {"framework": "b"} | far)
    assert says(find_doubt(facts, "unequal_work"), "more than rounding explains in 1 of 2 runs (b)", "not do the same")


def test_an_unstable_training_is_said_with_its_last_compared_step_and_not_accused():
    near = {"trajectory": 1e-7, "trajectory_limit": 1e-5}
    facts = make_facts({"framework": "a", "unstable_after_step": 10} | near, {"framework": "b"} | near)
    assert says(find_doubt(facts, "unstable_training"), "after step 10", "lr_warmup_epochs")
    assert not find_doubt(facts, "unequal_work")


def test_a_guess_by_frequency_has_the_accuracy_of_the_majority_class_and_the_loss_of_the_frequencies():
    guessed = guess(pd.Series([0, 1, 1, 1]).to_numpy(), pd.Series([1, 1, 0, 2]).to_numpy(), 3)
    rank, loss = guessed.rank, guessed.loss
    assert rank.tolist() == [0, 0, 1, 2]
    assert loss[:3].tolist() == pytest.approx([0.28768, 0.28768, 1.38629], abs=1e-5)
    assert loss[3] == float("inf")


PROGRAM = {"framework": "mine", "model": "mine", "dataset": "own_data", "input": "program", "quality": None}


@pytest.mark.parametrize(
    ("second", "counts"),
    [({}, None), ({"missing_steps": 40}, (1, 0)), ({"images_seen": 500}, (0, 1)), ({"images_seen": 999}, None)],
)
def test_a_program_that_ended_early_is_a_doubt(second, counts):
    """The shell's status may hide a crash."""
    row = PROGRAM | {"images_seen": 1000, "missing_steps": 0}
    (decision,) = make_facts(row | {"repeat": 1}, row | {"repeat": 2} | second)["decisions"]
    facts = [each["facts"] for each in decision["doubts"] if each["kind"] == "unequal_ends"]
    assert facts == ([{"num_short": counts[0], "num_unequal": counts[1]}] if counts else [])


def test_the_answer_of_a_program_speaks_of_what_it_counts_and_says_what_is_not_measured():
    program = PROGRAM | {"unit": "tokens"}
    rows = [program | {"num_gpus": count, "images_per_s": 80.0 * count} for count in (1, 2)]
    runs, evaluations = make_runs(*rows)
    times = compute_time_to_accuracy(runs, evaluations, {"metric": "accuracy", "thresholds": []})
    datasets = pd.DataFrame([{"study": "s", "dataset": "own_data", "input": "program"}], columns=list(DATASETS))
    text = render_answer(complete(runs, times, datasets), "md")
    assert text.startswith("# s: the program mine\n") and "2 runs planned: 2 completed." in text
    assert "Use 2 x cpu, mine, 8 tokens a step per device: 160 tokens/s." in text and "accuracy" not in text
    assert "the source of steps, tokens and quality" in text and "image" not in text and "sample" not in text
    assert "Data: the program's own." in text and "Not measured: parity with other programs" in text
    assert "Not measured" not in write_answer({"framework": "pytorch_ddp"})


def test_a_run_under_an_unfair_protocol_is_planned_and_not_the_best():
    unfair = {"framework": "b", "images_per_s": 900.0, "train_s": 1.0, "protocol": "not comparable: otherwise"}
    facts = make_facts({"framework": "a"}, unfair)
    assert get_best(facts)["framework"] == "a" and facts["num_planned"] == 2


def test_the_answer_names_runs_without_a_verdict():
    off, passed = {"parity": "not_checked"}, {"parity": "passed"}
    assert find_doubt(make_facts({"framework": "a"} | off, {"framework": "b"} | passed), "unchecked")
    assert not find_doubt(make_facts({"framework": "a"} | passed), "unchecked")


def test_the_answer_names_what_the_parity_gate_could_not_compare():
    passed = {"parity": "passed on 3 devices"}
    in_part = {"parity": "passed on 3 devices; not compared: losses (the model draws random numbers)"}
    facts = make_facts({"framework": "a"} | in_part, {"framework": "b"} | passed)
    assert says(find_doubt(facts, "compared_in_part"), "passed a", "losses (the model draws random numbers)")
    assert not find_doubt(make_facts({"framework": "b"} | passed), "compared_in_part")


def test_stale_runs_are_counted_by_reason():
    rows = [{"framework": "a", "stale_because": "code"}, {"framework": "a", "stale_because": "code"}]
    facts = make_facts(*rows, {"framework": "b", "status": "stale", "reason": "was run with another seed"})
    assert facts["details"]["stale"] == {"code": 2, "was run with another seed": 1}
    assert "available" in find_doubt(facts, "stale")
    assert "- Stale, 2 runs: code" in render_answer(facts, "md").splitlines()


PLACE = {"series": "a", "num_gpus": 4, "device": "cuda", "num_nodes": 2}
EVERYTHING = {
    "controls": {"completed": 4},
    "ended": [{"status": "out_of_memory", "reason": "too large", "num_runs": 2}] * 8,
    "stale": {"code": 1},
    "health": {"n1: hot": 2},
    "outliers": [PLACE | {"per_device_batch_size": 8, "repeat": 2, "distance": -0.3, "run_dir": "r"}],
    "trajectories": {"num_compared": 9, "num_apart": 1, "frameworks": ["a"], "unstable_after_step": 10},
    "grid": {
        **{"probes_of": None, "is_cut": True, "repeats_ended": {"precision": 1, "limit": 2, "no_rate": 3}},
        "left_out": [{"status": "not_run", "reason": "below 0.5", "num_runs": 1}] * 13,
    },
    "causes": [{"sentence": "a loses 30 %.", "remedy": "fewer devices", "run_next": None}] * 2,
    "wall_time": "Of the wall time, 60 % is start-up.",
    "knees": [
        PLACE | {"global_batch_size": 64, "is_knee": True, "num_repeats": 3, "lowest": 32, "highest": highest}
        for highest in (None, 64, 32)
    ]
    * 3,
    "largest": [
        {"series": "a", "device": "cuda", "largest": size, "taken": taken, "limit": limit, "limit_reason": "it crashed"}
        for size, taken, limit in ((None, None, "failed"), (48, 40, "memory"), (48, None, "data_set"))
    ],
    "placements": [],
    "independent": {
        **{"framework": "a", "device": "cuda", "num_gpus": 4, "times_rate": 1.2},
        **{"slowest_images_per_s": 90.0, "fastest_images_per_s": 120.0},
    },
}


@pytest.mark.parametrize("suffix", ["txt", "md"])
def test_every_section_is_written_and_long_lists_are_counted(suffix):
    facts = make_facts({"framework": "a"})
    facts["batch_script"] = {"of": "", "path": "results/tables/s/run.sbatch", "text": "#!/bin/bash\n\nsrun a_b\n"}
    facts["details"] |= EVERYTHING
    facts["details"]["data"] |= {"left_out": ["Hernia"], "has_remarks": True, "split": "25 %", "num_train_groups": 7}
    text = render_answer(facts, suffix)
    words = " ".join(text.split())
    for said in (
        *("Control runs, which leave out a part of the work and are not ranked: 4 completed.", "Stale, 1 run: code"),
        *("Out of memory, 2 runs: too large", "2 more in runs.tsv", "not in order, 2 runs: the column health"),
        *("repeat 2, -30 % from the median (r)", "differ by more than rounding explains in 1 of 9 runs"),
        *("1 configuration until the interval of the median was as narrow as asked for; 2 configurations up to",),
        *(
            "Not run: below 0.5 (1 run).",
            "1 more reason in runs.tsv.",
            "a loses 30 %. Remedy to try, also for 1 more curve: fewer devices.",
            "60 %",
        ),
        *("64 (32 or more by the spread of the repeats)", "64 (32 to 64 by", "and 3 more in batch_sizes.tsv."),
        *(
            "a on cuda: none (failed: it crashed); a on cuda: 48 images (memory; runs take 40)",
            "is not known: no device",
        ),
        *("4 independent runs of a at once", "have 1.20 times the rate", "leaves out 1 label", "remarks on the images"),
        *("which the workflow split.", "How to run it, as in results/tables/s/run.sbatch", "srun a_b"),
    ):
        assert said in words, (said, text)
    assert ("\nTo run it: sbatch results/tables/s/run.sbatch\n" in text) == (suffix == "txt")
    assert "\n\n\n" not in text and (suffix == "md" or max(map(len, text.splitlines())) <= 100)


def test_a_mean_that_misses_the_guess_by_rounding_is_no_better_than_it():
    """The mean of three times 0.1 is above 0.1 by 1e-17."""
    rows = [{"framework": "a", "quality": 0.1, "repeat": repeat, "seed": repeat} for repeat in (1, 2, 3)]
    assert find_doubt(make_facts(*rows), "no_better_than_a_guess")


@pytest.mark.parametrize(("quality", "is_said"), [(0.1004, True), (0.101, False)])
def test_less_than_half_a_test_image_is_no_better_than_a_guess(quality, is_said):
    row = {"framework": "a", "quality": quality, "num_evaluated": 1000}
    assert bool(find_doubt(make_facts(row), "no_better_than_a_guess")) == is_said


def test_a_difference_that_exceeds_the_margin_by_rounding_is_within_it():
    """0.91 - 0.9 is above the default margin of 0.01 by 1e-17."""
    facts = make_facts({"framework": "a", "quality": 0.91}, {"framework": "b", "quality": 0.9}, thresholds=(0.9,))
    assert not find_doubt(facts, "unequal_quality")


OTHER = {"framework_version": "torch 2.2.0 numpy 1.26.4"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (OTHER, "a (torch 2.1.0 and 2.2.0)"),
        ({"python_version": "3.12.1"}, "a (Python 3.11.9 and 3.12.1)"),
        ({"driver_version": "560.1"}, "a (driver 550.2 and 560.1)"),
    ],
)
@pytest.mark.parametrize("num_gpus", [1, 2])
def test_runs_of_one_framework_with_different_versions_are_doubted(changes, said, num_gpus):
    same = {"framework": "a", "framework_version": "torch 2.1.0 numpy 1.26.4"}
    same |= {"python_version": "3.11.9", "driver_version": "550.2"}
    rows = [same | {"repeat": repeat, "seed": repeat} for repeat in (1, 2)]
    facts = make_facts(*rows, same | changes | {"repeat": 3, "seed": 3, "num_gpus": num_gpus})
    (doubt,) = [each for each in facts["decisions"][0]["doubts"] if each["kind"] == "mixed_versions"]
    assert said in doubt["text"]
    assert doubt["facts"]["num_mixed"] == (1 if num_gpus == 1 else 0)
    assert doubt["run_next"][0].endswith("--status completed --study s")


def test_other_frameworks_and_variants_may_have_other_versions():
    versions = {"a": "torch 2.1.0", "b": "torch 2.2.0"}
    rows = [{"framework": name, "framework_version": version} for name, version in versions.items()]
    assert not find_doubt(make_facts(*rows, rows[0] | {"variant": "other"} | OTHER), "mixed_versions")


def reach(framework, missed, reached, step_s=5.0, **changes):
    """Make three repeats with two evaluations, the first of which misses or meets the target of 0.9."""
    same = {"framework": framework, "quality": missed, "then": reached, "train_s": step_s} | changes
    return [same | {"repeat": repeat, "seed": repeat} for repeat in (1, 2, 3)]


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_target_between_two_evaluations_is_no_difference_in_speed(repeats):
    """0.901 meets the target after 5 s, and 0.899 misses it until 10 s."""
    rows = [*reach("a", 0.901, 0.93)[:repeats], *reach("b", 0.899, 0.93)[:repeats]]
    facts = make_facts(*rows)
    (decision,) = facts["decisions"]
    other = decision["alternatives"][0]
    assert other["is_tied"] and other["times_faster"]["high"] == pytest.approx(1.0)
    assert says(find_doubt(facts, "coarse_evaluations"), "b batch 8", "eval_every_epochs")


def test_more_devices_are_not_recommended_for_a_gain_between_two_evaluations():
    rows = [*reach("a", 0.899, 0.93), *reach("a", 0.901, 0.93, num_gpus=2)]
    assert get_best(make_facts(*rows))["num_gpus"] == 1


@pytest.mark.parametrize("quality", [(0.95, 0.95), (0.8, 0.95)])
def test_targets_that_need_as_many_images_are_compared_by_the_rates(quality):
    rows = [*reach("a", *quality), *reach("a", *quality, step_s=2.5, num_gpus=2)]
    facts = make_facts(*rows)
    assert get_best(facts)["num_gpus"] == 2 and not find_doubt(facts, "coarse_evaluations")

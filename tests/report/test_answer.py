"""The answer is right about the cases that flatter: failed repeats, one repeat, losses, prices and baselines."""

import pandas as pd
import pytest
from docutils.core import publish_parts

from answered import NO_PROTOCOLS, find_line, make_runs, write_answer
from howmanygpus.report.answer import answer
from howmanygpus.report.predictions import guess
from howmanygpus.report.tables.batch_sizes import compute_batch_sizes
from howmanygpus.report.tables.datasets import COLUMNS as DATASETS
from howmanygpus.report.tables.gradient_noise import COLUMNS as NOISE
from howmanygpus.report.tables.jobs import COLUMNS as JOBS
from howmanygpus.report.tables.scaling import compute_scaling
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy
from messages import says


@pytest.mark.parametrize("status", ["time_limit", "crashed", "out_of_memory", "host_out_of_memory", "clock_mismatch"])
def test_repeats_that_failed_count_against_their_configuration(status):
    """The lucky repeat of a would be the fastest to the threshold and have the highest throughput."""
    lucky = {"framework": "a", "train_s": 1.0, "images_per_s": 900.0}
    failed = {"framework": "a", "status": status}
    text = write_answer(lucky, failed, failed, {"framework": "b"}, {"framework": "b"}, {"framework": "b"})
    assert find_line(text, "Fastest").startswith("- Fastest to accuracy 0.9: b on 1 cpu device")
    assert find_line(text, "Highest throughput").startswith("- Highest throughput: b on 1")
    assert "a on 1 cpu device x 8 images is faster with 900 images/s, but 2 of 3 repeats failed." in text


@pytest.mark.parametrize("other", [{"status": "crashed"}, {"quality": 0.5}], ids=["failed", "reached nothing"])
def test_a_configuration_with_one_missed_target_is_not_the_fastest(other):
    """The median of three repeats does not show that one of them never reached the threshold."""
    lucky = {"framework": "a", "train_s": 1.0}
    text = write_answer(lucky, lucky, {"framework": "a"} | other, *[{"framework": "b"}] * 3)
    assert find_line(text, "Fastest").startswith("- Fastest to accuracy 0.9: b on 1 cpu device")
    assert find_line(text, "Cheapest").startswith("- Cheapest to accuracy 0.9: b on 1 cpu device")


def test_one_failed_repeat_of_three_takes_the_highest_throughput_away():
    lucky, failed = {"framework": "a", "images_per_s": 900.0}, {"framework": "a", "status": "crashed"}
    text = write_answer(lucky, lucky, failed, {"framework": "b"})
    assert find_line(text, "Highest throughput").startswith("- Highest throughput: b on 1")
    assert "is faster with 900 images/s, but 1 of 3 repeats failed." in text


@pytest.mark.parametrize("status", ["missing", "interrupted", "preempted", "running"])
def test_repeats_that_were_not_tried_to_the_end_do_not_count_but_are_named(status):
    text = write_answer({"framework": "a"}, {"framework": "a", "status": status})
    assert "(one repeat). Only 1 of 2 planned repeats has completed." in find_line(text, "Fastest")
    assert "failed" not in find_line(text, "Highest throughput")


def test_the_hardest_threshold_of_a_loss_is_the_lowest():
    rows = [{"framework": "a", "quality": 0.2, "quality_metric": "test_loss"}] * 2
    text = write_answer(*rows, metric="test_loss", thresholds=(0.5, 0.3, 0.1), guessed=2.3)
    assert find_line(text, "Fastest").startswith("- Fastest to cross-entropy 0.3:")
    assert "- No run reached cross-entropy 0.1." in text.splitlines()
    assert "ends at a test cross-entropy of 0.2 on average over 2 repeats" in text
    assert "knowing only how frequent each class is gives 2.3" in text


def test_one_repeat_is_one_repeat_and_several_are_a_median():
    text = write_answer({"framework": "a"}, {"framework": "b", "train_s": 3.0})
    assert "2 s of training (one repeat)" in text and "100 images/s (one repeat)" in text
    assert "With one repeat, chance may decide between the two." in find_line(text, "Next: b")
    assert "median" not in text
    text = write_answer({"framework": "a"}, {"framework": "a", "train_s": 4.0})
    assert "3 s of training (median of 2 repeats, 2 to 4)" in text


def test_every_answer_names_the_quality_reached_and_the_majority_class():
    text = write_answer({"framework": "a", "quality": 0.94}, {"framework": "a", "quality": 0.96})
    reached = (
        "It ends at a test accuracy of 0.95 on average over 2 repeats; always naming the majority class gives 0.1."
    )
    assert reached in find_line(text, "Fastest") and reached in find_line(text, "Highest throughput")


def test_the_ranking_names_excluded_configurations_and_the_fastest_including_them():
    text = write_answer({"framework": "a", "init_s": 50.0}, {"framework": "b", "train_s": 4.0})
    line = find_line(text, "The ranking is by training time")
    assert "without start-up, first step (compilation) and evaluation" in line
    assert "it takes 53 s, and the fastest is b on 1 cpu device x 8 images: 8 s." in line
    assert "it takes 6 s and is still the fastest." in write_answer({"framework": "a"})


def test_costs_are_prices_and_billed_hours_where_there_is_a_price():
    billed = {"currency": "EUR", "device_hours": 40 / 3600, "wall_time_s": 30.0}
    dear = {"framework": "a", "cost": 9.0, **billed}
    cheap = {"framework": "b", "cost": 4.0, **billed, "train_s": 9.0}
    text = write_answer(dear, cheap)
    line = find_line(text, "Cheapest to accuracy 0.9: b on 1 cpu device x 8 images: 1.9 EUR until it was reached")
    assert "4 EUR for the whole run (one repeat), as billed with failed attempts, ending at" in line
    without = write_answer({"framework": "a"}, {"framework": "b", "train_s": 9.0})
    assert "Cheapest to accuracy 0.9: a on 1 cpu device x 8 images: 2 device-seconds of training" in without
    assert "Billed" not in without


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
    line = find_line(write_answer({"framework": "a"}, jobs=jobs), "Billed")
    assert says(line, "12 device-hours", "24 EUR", "runs 8", "parity gate 1", "probe 0.4", "failed attempts 2.6")
    assert says(line, "Jobs", "5 as SLURM counted", "1 still running", "1 left out")
    shares = [make_job("probe", "completed", 0.05, record="shared") for _ in range(2)]
    assert "Jobs: 1 as SLURM counted." in write_answer({"framework": "a"}, jobs=shares), "two studies share it"
    own = [make_job("run", "completed", 2.0, counted_by="job")]
    line = find_line(write_answer({"framework": "a"}, jobs=own), "Used")
    assert line.startswith("- Used: 4 device-hours (the machine file has no price), of which runs 4. Jobs: 1 as their")


def test_a_study_without_a_usable_run_is_explained():
    cannot = {"status": "unsupported", "reason": "mxnet_gluon has no build for cuda"}
    text = write_answer({"framework": "a"} | cannot, {"framework": "b"} | cannot)
    assert "- No run of this study can give an answer: mxnet_gluon has no build for cuda (2 runs)." in text.splitlines()
    assert "yet" not in text
    diverged = {"status": "diverged", "reason": "training loss is nan"}
    text = write_answer({"framework": "a"} | cannot, {"framework": "b"} | diverged)
    assert "All runs have ended, and none gave an answer: mxnet_gluon has no build for cuda (1 run); training" in text
    text = write_answer({"framework": "a"} | cannot, {"framework": "b", "status": "missing"})
    assert "No run has completed, so there is no answer yet." in text


def test_the_nodes_are_named():
    rows = [{"framework": "a", "nodes": "node2"}, {"framework": "a", "num_gpus": 2, "nodes": "node1 node3"}]
    assert "Devices: 1 and 2 x cpu (AMD EPYC; node1, node2, node3)." in write_answer(*rows)


@pytest.mark.parametrize(
    ("later", "said"),
    [
        ([0.8], " Its last evaluation no longer meets it."),
        ([0.8, 0.96, 0.89], " In 2 of 3 repeats the last evaluation no longer meets it."),
        ([0.9, 0.97, None], ""),
    ],
)
def test_the_answer_names_thresholds_that_were_lost_again(later, said):
    text = write_answer(*({"framework": "pytorch_ddp", "then": quality} for quality in later))
    assert ("no longer meets" in text) == bool(said) and said in text


def test_the_accuracy_is_named_also_if_it_is_below_all_thresholds():
    rows = [{"framework": "a", "quality": 0.31}, {"framework": "b", "quality": 0.42}]
    line = find_line(write_answer(*rows), "Best quality")
    assert line.startswith("- Best quality: b on 1 cpu device x 8 images. It ends at a test accuracy of 0.42 in one")
    assert "always naming the majority class gives 0.1" in line
    text = write_answer({"framework": "a"}, {"framework": "b", "train_s": 3.0, "quality": 0.93})
    assert ", ending at a test accuracy of 0.93" in find_line(text, "Next: b")
    assert ", ending at a test accuracy of 0.95" in find_line(text, "Cheapest to")


def test_of_configurations_with_the_same_quality_the_fastest_is_named():
    rows = [{"framework": name, "quality": 0.5, "train_s": train_s} for name, train_s in (("a", 5), ("b", 3), ("c", 4))]
    line = find_line(write_answer(*rows), "Best quality")
    assert line.startswith(
        "- Best quality: b on 1 cpu device x 8 images. It ends at a test accuracy of 0.5 in one repeat"
    )
    assert line.endswith("2 other configurations end at the same; this one trained fastest.")
    line = find_line(write_answer(*rows, {"framework": "d", "quality": 0.51, "train_s": 9}), "Best quality")
    assert line.startswith("- Best quality: d on 1") and "other configuration" not in line


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
    text = write_answer(row, metric=metric, thresholds=(0.05,) if metric == "test_loss" else (0.9,), guessed=guessed)
    for line in ("Best quality", "Highest throughput"):
        assert ("That is no better than a guess: compare labels, learning rate" in find_line(text, line)) == is_said


def test_unreached_thresholds_are_reported_once():
    text = write_answer({"framework": "a", "quality": 0.5}, thresholds=(0.8, 0.9))
    assert "No run reached accuracy 0.8, 0.9." in text and "No configuration reached" not in text
    rows = [{"framework": "a", "quality": 0.95}, {"framework": "a", "quality": 0.5}]
    assert "No configuration reached a threshold of accuracy in all its repeats." in write_answer(*rows)


def test_disturbed_runs_are_counted():
    rows = [{"framework": "a", "disturbed": disturbed} for disturbed in (True, False, False)]
    text = write_answer(*rows)
    first = "- 1 of 3 runs was disturbed by other work on the machine; figures mark it by a ring. To repeat it: "
    command = ".venv/bin/python workflow/scripts/retry_runs.py --disturbed --study s"
    command += ", and then the same call while nothing else"
    assert f"{first}{command} runs." in text and "chance" not in find_line(text, "1 of 3 runs")
    assert "1 of its 3 repeats was disturbed by other work." in find_line(text, "Highest throughput")
    text = write_answer({"framework": "a", "disturbed": True})
    assert "Its only repeat was disturbed by other work." in find_line(text, "Highest throughput")
    assert "- The only run was disturbed by other work on the machine; figures mark it by a ring." in text
    assert "- The only run was not disturbed by other work on the machine." in write_answer(
        {"framework": "a", "disturbed": False}
    )
    assert "disturbed" not in write_answer({"framework": "a"}), "nobody looked"


@pytest.mark.parametrize(("num_disturbed", "place"), [(1, "after"), (2, "before"), (3, "before")])
def test_disturbance_of_half_of_the_runs_stands_before_their_order(num_disturbed, place):
    rows = [{"framework": name, "disturbed": number < num_disturbed} for number, name in enumerate("abcd")]
    lines = write_answer(*rows).splitlines()
    said = next(line for line in lines if "disturbed by other work on the machine" in line)
    assert ("their order may be chance. To repeat" in said) == (place == "before")
    assert (lines.index(said) < lines.index(next(line for line in lines if "Fastest" in line))) == (place == "before")
    assert sum("disturbed by other work on the machine" in line for line in lines) == 1


def test_a_speedup_names_both_baselines_and_the_machinery_of_its_own():
    rows = [{"framework": "a"}, {"framework": "a", "num_gpus": 2, "images_per_s": 180.0}]
    text = write_answer(*rows, {"framework": "b", "images_per_s": 120.0}, machinery={"base": {"a": "DDP", "b": ""}})
    assert (
        "That is 1.80 times its own rate on 1 device (of 100 images/s; that run carries DDP), and 1.50 times the best "
        "rate on one device (of 120 images/s), of b." in text
    )
    alone = write_answer(*rows, machinery={"base": {"a": ""}})
    assert "; that run carries no collective machinery; no framework is faster there)" in alone


def test_the_answer_names_data_devices_and_dates():
    line = find_line(write_answer({"framework": "a"}, {"framework": "a", "num_gpus": 2}), "Trained on")
    assert says(line, "digits (arrays)", "1,437 training", "360 test", "8 x 8 pixels", "1 channel", "10 classes")
    assert says(line, "1 and 2 x cpu", "AMD EPYC", "vm", "2026-11-22 21:01", "2026-11-22 21:01", "UTC")


def test_the_answer_does_not_say_that_something_was_trained_if_no_run_started():
    text = write_answer({"framework": "a", "status": "unsupported", "started_at": None})
    assert "- To be trained on digits (arrays)" in text and "Trained on" not in text


def test_runs_whose_losses_leave_the_others_are_named():
    near, far = ({"trajectory": value, "trajectory_limit": 1e-3} for value in (1e-5, 1e-2))
    assert "coincide in all 1 runs" in write_answer({"framework": "a"} | near)
    text = write_answer({"framework": "a"} | near, {"framework": "b"} | far)
    assert "In 1 of 2 runs that can be compared" in text and "more than rounding explains (b)" in text


def test_the_answer_is_a_list_on_the_first_page():
    text = write_answer({"framework": "a"}, {"framework": "b"})
    page = publish_parts(text, writer="html")["body"]
    assert page.count("<li>") == text.count("\n- ") and "system-message" not in page


def test_a_guess_by_frequency_has_the_accuracy_of_the_majority_class_and_the_loss_of_the_frequencies():
    guessed = guess(pd.Series([0, 1, 1, 1]).to_numpy(), pd.Series([1, 1, 0, 2]).to_numpy(), 3)
    rank, loss = guessed.rank, guessed.loss
    assert rank.tolist() == [0, 0, 1, 2]
    assert loss[:3].tolist() == pytest.approx([0.28768, 0.28768, 1.38629], abs=1e-5)
    assert loss[3] == float("inf")


def test_a_user_program_is_labelled_with_its_unmeasured_quantities():
    program = {"framework": "mine", "model": "mine", "dataset": "own_data", "input": "program", "init_s": float("nan")}
    runs, evaluations = make_runs(program, program | {"num_gpus": 2, "images_per_s": 150.0})
    runs = runs.assign(**{key: program[key] for key in ("model", "dataset", "input")})
    evaluations = evaluations.assign(**{key: program[key] for key in ("model", "dataset", "input")})
    times = compute_time_to_accuracy(runs, evaluations, {"metric": "accuracy", "thresholds": [0.9]})
    datasets = pd.DataFrame([{"study": "s", "dataset": "own_data", "input": "program"}], columns=list(DATASETS))
    scaling = compute_scaling(runs, {"weak": [8]}, {})
    batches = compute_batch_sizes(runs, times, pd.DataFrame(columns=list(NOISE)))
    text = answer(runs, scaling, times, datasets, pd.DataFrame(columns=list(JOBS)), batches, NO_PROTOCOLS)
    assert text.startswith("s: the program mine, 2 runs planned: 2 completed.")
    assert "Trained by a program of the user on data of its own." in text
    assert "Not measured, and empty in the tables: parity with other programs" in text
    assert "150 images/s" in find_line(text, "Highest throughput: mine on 2 cpu devices")


def test_other_studies_do_not_say_that_something_is_not_measured():
    assert "Not measured" not in write_answer({"framework": "pytorch_ddp"})


def test_a_run_under_an_unfair_protocol_is_planned_and_not_the_best():
    unfair = {"framework": "b", "quality": 0.8, "protocol": "not comparable: evaluated otherwise"}
    text = write_answer({"framework": "a", "quality": 0.5}, unfair)
    assert find_line(text, "Best quality").startswith("- Best quality: a on 1 cpu device x 8 images.")
    assert "2 runs planned: 2 completed." in text


def test_the_answer_names_runs_without_a_verdict():
    off, passed = {"parity": "not_checked"}, {"parity": "passed"}
    said = 'checked by the parity gate (parity: "off"), so that their frameworks may have done different work.'
    assert f"- No run was {said}" in write_answer({"framework": "a"} | off, {"framework": "b"} | off)
    assert f"- 1 of 2 runs was not {said}" in write_answer({"framework": "a"} | off, {"framework": "b"} | passed)
    assert "checked by" not in write_answer({"framework": "a"} | passed, {"framework": "b", "status": "missing"} | off)

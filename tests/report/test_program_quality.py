"""What a program says about its quality is read as it means it, or its run and its answer say what is wrong."""

import importlib
import math
import os
import re

import pandas as pd
import pytest

from helpers.answers import find_doubt, make_facts
from howmanygpus.measure.program.process import read_lines
from howmanygpus.measure.program.reports import RANGES, ReportError, match_output, parse_json
from howmanygpus.report.answer.texts import render_answer
from howmanygpus.report.tables.datasets import COLUMNS as DATASETS
from howmanygpus.report.tables.evaluations import explain_missing, read_reported
from howmanygpus.study.config.metrics import list_metrics

PATTERNS = [
    re.compile(r"^step (?P<step>\d+)"),
    re.compile(r"^epoch (?P<epoch>\d+) top1 (?P<accuracy>[0-9.]+)$"),
    re.compile(r"Acc@1 (?P<epoch>\d+) (?P<accuracy_percent>[0-9.]+)"),
]


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[32mstep\x1b[0m \x1b[1m12\x1b[0m",
        "\x1b[38;5;196mstep 12\x1b[0m",
        "\x1b[38;2;1;2;3mstep\x1b[m 12",
        "\x1b[2K\x1b[1Gstep 12 of 20",
        "\x1b]0;training\x07step 12",
        "\x1b]8;;http://a.example\x1b\\step\x1b]8;;\x1b\\ 12",
        "\x1b(Bstep 12",
        "\x1b[?25lstep 12",
        "\x08\x08\x08step 12",
        "\x1b7step 12\x1b8",
    ],
)
def test_control_characters_hide_no_number(line):
    (report,) = match_output(PATTERNS, line, 1.0)
    assert report.step == 12


@pytest.mark.parametrize("back", ["\r", "\x08" * 30, "\x1b[2K\x1b[1G", "\x1b[1A\x1b[2K", "\x1b[F", "\x1b[3;1H"])
def test_a_line_that_a_progress_bar_overwrites_counts_at_once(back):
    reading, writing = os.pipe()
    with open(reading, "rb") as stream:
        lines = read_lines(stream)
        for step in (1, 2, 3):
            os.write(writing, f"\x1b[32mstep {step}\x1b[0m of 9{back}".encode())
            found = next(line for line, _ in lines if match_output(PATTERNS, line, 1.0))
            assert match_output(PATTERNS, found, 1.0)[0].step == step
        os.close(writing)


@pytest.mark.parametrize(
    ("metric", "value"), [("accuracy", 75), ("accuracy", -0.1), ("macro_auc", 1.5), ("test_loss", -1)]
)
def test_a_value_that_a_metric_cannot_have_is_refused_with_the_remedy(metric, value):
    line = f'{{"epoch": 1, "metric": {{"{metric}": {value}}}}}'
    with pytest.raises(ReportError, match=rf"{metric} {value:g}, which is not between 0 and .*{metric}_percent"):
        parse_json(line, 0.0)
    with pytest.raises(ReportError, match="accuracy 75"):
        match_output(PATTERNS, "epoch 1 top1 75.000", 0.0)


def test_a_metric_may_be_in_per_cent():
    assert parse_json('{"epoch": 1, "metric": {"accuracy_percent": 75}}', 0.0).metric == {"accuracy": 0.75}
    (report,) = match_output(PATTERNS, " * Acc@1 3 85.000", 0.0)
    assert (report.epoch, report.metric) == (3, {"accuracy": 0.85})


def test_a_metric_defined_by_a_program_has_any_value():
    assert parse_json('{"epoch": 1, "metric": {"bleu": 41.5}}', 0.0).metric == {"bleu": 41.5}


def test_the_planner_knows_the_ranges_of_the_metrics():
    found = {name: importlib.import_module(f"howmanygpus.report.metrics.{name}").RANGE for name in list_metrics()}
    assert {name: (low, math.inf if high is None else high) for name, (low, high) in found.items()} == RANGES


def test_an_impossible_stored_value_is_dropped():
    assert read_reported({"accuracy": 0.75}, "accuracy") == 0.75
    assert read_reported({"accuracy": 75.0}, "accuracy") is None
    assert read_reported({"acc": 0.75}, "accuracy") is None


@pytest.mark.parametrize(
    ("metrics", "told"),
    [([{"acc": 0.5, "f1": 0.4}], "acc and f1 and no accuracy"), ([{"accuracy": 75.0}], "accuracy 75"), ([], "")],
)
def test_a_metric_under_another_name_is_named(metrics, told):
    events = [{"event": "window"}, *({"event": "evaluation", "metric": metric} for metric in metrics)]
    found = explain_missing(events, "accuracy")
    assert told in found and bool(found) == bool(told)


def answer_program(*rows):
    program = {"framework": "mine", "model": "mine", "dataset": "own_data", "input": "program", "unit": "samples"}
    data = pd.DataFrame([{"study": "s", "dataset": "own_data", "input": "program"}], columns=list(DATASETS))
    return make_facts(*(program | row for row in rows), guessed=None, datasets=data)


def test_combinations_of_axes_are_decided_each_by_itself():
    facts = answer_program(
        {"variant": "model_small", "images_per_s": 900.0, "train_s": 1.0},
        {"variant": "model_large", "images_per_s": 100.0, "train_s": 9.0},
    )
    decided = {each["of"]: each["recommended"]["images_per_s"]["median"] for each in facts["decisions"]}
    assert decided == {"model_small": 900, "model_large": 100}
    text = render_answer(facts, "txt")
    assert "\nmodel_small:\nUse 1 x cpu, mine model_small, 8 samples" in text


def test_one_variant_needs_no_name():
    facts = answer_program({"variant": "base", "images_per_s": 900.0})
    assert [each["of"] for each in facts["decisions"]] == [""]


def test_the_answer_names_the_metric_that_was_reported_instead():
    reason = explain_missing([{"event": "evaluation", "metric": {"acc": 0.5}}], "accuracy")
    facts = answer_program({"variant": "base", "quality": None, "reason": reason, "run_dir": "r"})
    assert (
        "No accuracy is known of 1 x cpu mine batch 8 (the program reported acc and no accuracy; report"
        in find_doubt(facts, "no_quality")
    )

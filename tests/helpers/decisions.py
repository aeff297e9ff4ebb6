"""Decisions about constructed results, with the text of their first screen."""

import json

from helpers.answers import make_runs
from howmanygpus.report.answer.facts import Question, decide
from howmanygpus.report.answer.texts import HEIGHT, WIDTH, render_screen
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy

PRICE_PER_S = 0.001


def repeat(seconds, framework="a", num_gpus=1, **changes):
    """Return rows of runs that take these seconds of training each, at a rate of 1000 images in them."""
    row = {"framework": framework, "num_gpus": num_gpus, "run_dir": "r"}
    return [
        row | {"train_s": each, "wall_s": each, "wall_time_s": each, "images_per_s": 1000 / each} | changes
        for each in seconds
    ]


def around(seconds, spread=0.02):
    return [seconds * (1 - spread), seconds, seconds * (1 + spread)]


def priced(rows, devices_billed=None):
    """Add what each run was billed, by device and second until its only evaluation."""
    for row in rows:
        cost = PRICE_PER_S * row["train_s"] * (devices_billed or row["num_gpus"])
        row |= {"cost": cost, "currency": "EUR", "device_hours": row["wall_time_s"] * row["num_gpus"] / 3600}
    return rows


def answer(*groups, **asked):
    """Return the only decision about groups of runs, and the text of the first screen."""
    (decision,), text = answer_all(*groups, **asked)
    return decision, text


def answer_all(*groups, metric="accuracy", thresholds=(0.9,), **asked):
    """Return all decisions about groups of runs, and the text of the first screen."""
    runs, evaluations = make_runs(*[row for rows in groups for row in rows])
    if not thresholds:
        evaluations = evaluations.iloc[:0]
    times = compute_time_to_accuracy(runs, evaluations, {"metric": metric, "thresholds": list(thresholds)})
    facts = json.loads(json.dumps(decide(runs, times, Question(**asked)), allow_nan=False))
    text = render_screen(facts)
    lines = text.splitlines()
    assert len(lines) <= HEIGHT and all(len(line) <= WIDTH for line in lines), text
    return facts["decisions"], text


def find(decision, role):
    (found,) = [other for other in decision["alternatives"] if role in other["roles"]]
    return found


def find_facts(decision, kind):
    """Return the facts of the only doubt of a kind."""
    (found,) = [doubt["facts"] for doubt in decision["doubts"] if doubt["kind"] == kind]
    return found


def get_doubts(decision):
    return [doubt["kind"] for doubt in decision["doubts"]]

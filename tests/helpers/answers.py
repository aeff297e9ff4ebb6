"""Answers about small tables of runs, as facts and as texts."""

import json

import pandas as pd

from helpers.specs import make_spec
from helpers.stored_runs import FIXED
from howmanygpus.report.answer.details import describe
from howmanygpus.report.answer.facts import Question, decide
from howmanygpus.report.answer.texts import render_answer
from howmanygpus.report.answer.use import list_uses
from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.outcomes import identify
from howmanygpus.report.tables.batch_sizes import compute_batch_sizes
from howmanygpus.report.tables.datasets import COLUMNS as DATASETS
from howmanygpus.report.tables.evaluations import COLUMNS as EVALUATIONS
from howmanygpus.report.tables.explanations import COLUMNS as EXPLANATIONS
from howmanygpus.report.tables.gradient_noise import COLUMNS as NOISE
from howmanygpus.report.tables.jobs import COLUMNS as JOBS
from howmanygpus.report.tables.protocols import COLUMNS as PROTOCOLS
from howmanygpus.report.tables.runs import COLUMNS as RUNS
from howmanygpus.report.tables.scaling import compute_scaling
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy
from howmanygpus.report.tables.utilisation import COLUMNS as UTILISATION

DIGITS = {"study": "s", "dataset": "digits", "input": "arrays", "num_train": 1437, "num_test": 360}
DIGITS |= {"height": 8, "width": 8, "channels": 1, "num_classes": 10, "quality_of_guess": 0.1}
NO_PROTOCOLS = pd.DataFrame(columns=list(PROTOCOLS))
WHERE = {"device_model": "AMD EPYC", "hostname": "vm", "nodes": "vm"}


def make_runs(*rows):
    """Make the tables of runs and of evaluations. A row has a framework, and changes of an ordinary run.

    quality: that of the only evaluation, after train_s seconds of training; None if there is none. then: that of a
    second one, if there is one. wall_s: wall time until the first evaluation; then_wall_s: until the second one.
    """
    runs, evaluations, repeats = [], [], {}
    for changes in rows:
        names = {key: changes[key] for key in ("framework", "num_gpus") if key in changes}
        own = {key: changes[key] for key in IDENTITY if key in changes}
        repeat = repeats[str(own)] = repeats.get(str(own), 0) + 1
        spec = make_spec(repeat=repeat, global_batch_size=8 * changes.get("num_gpus", 1), **names)
        identity = identify(FIXED, vars(spec)) | own
        row = {"status": "completed", "init_s": 3.0, "compile_s": 1.0, "train_s": 2.0, "images_per_s": 100.0}
        row |= {"quality": 0.95, "quality_metric": "accuracy", "started_at": f"2026-11-22T21:{repeat:02}:00+00:00"}
        row |= WHERE | changes
        quality, then, wall_s = row.pop("quality"), row.pop("then", None), row.pop("wall_s", 9.0)
        then_wall_s = row.pop("then_wall_s", wall_s)
        if row["status"] != "completed":
            row |= {"images_per_s": None, "init_s": None, "compile_s": None}
            quality = None
        if quality is not None:
            row["quality_last"] = quality
            moment = {"epoch": 1, "images_seen": 80, "train_s": row["train_s"], "wall_s": wall_s, "quality": quality}
            evaluations.append(identity | moment)
            if then is not None:
                second = {"epoch": 2, "images_seen": 160, "train_s": 2 * row["train_s"], "wall_s": then_wall_s}
                evaluations.append(identity | moment | second | {"quality": then})
        runs.append(identity | row)
    return pd.DataFrame(runs, columns=list(RUNS)), pd.DataFrame(evaluations, columns=list(EVALUATIONS))


def complete(runs, times, datasets=None, scaling=None, jobs=(), utilisation=None, allreduce=None, **tables):
    """Return the facts of a study as answer.json has them. Tables that are not given are empty."""
    batches = compute_batch_sizes(runs, times, pd.DataFrame(columns=list(NOISE)))
    given = {"batch_sizes": batches, "protocols": NO_PROTOCOLS, "explanations": pd.DataFrame(columns=EXPLANATIONS)}
    given |= {"jobs": pd.DataFrame(jobs, columns=list(JOBS))} | tables
    data = pd.DataFrame([DIGITS], columns=list(DATASETS)) if datasets is None else datasets
    scaling = compute_scaling(runs, {"weak": [8]}, {}) if scaling is None else scaling
    facts = decide(runs, times, Question(), given["explanations"], allreduce=allreduce)
    facts["details"] = describe(runs, scaling, data, **given)
    used = pd.DataFrame(columns=list(UTILISATION)) if utilisation is None else utilisation
    facts["details"]["uses"] = list_uses(facts["decisions"], runs, used)
    return json.loads(json.dumps(facts, allow_nan=False))


def make_facts(*rows, metric="accuracy", thresholds=(0.9,), guessed=0.1, **tables):
    """Return the facts of the study that make_runs makes of some rows. guessed: the quality of a guess."""
    runs, evaluations = make_runs(*rows)
    runs["quality_of_guess"] = guessed
    times = compute_time_to_accuracy(runs, evaluations, {"metric": metric, "thresholds": list(thresholds)})
    return complete(runs, times, **tables)


def write_answer(*rows, **options):
    """Return the answer in Markdown, in which each statement is a line. See make_facts."""
    return render_answer(make_facts(*rows, **options), "md")


def find_line(text, start):
    (line,) = [line for line in text.splitlines() if line.startswith(f"- {start}")]
    return line


def find_doubt(facts, kind):
    """Return the text of the doubt of a kind in the only decision; empty if there is none."""
    (decision,) = facts["decisions"]
    return next((doubt["text"] for doubt in decision["doubts"] if doubt["kind"] == kind), "")

"""The table of epochs has training and validation apart, and the rate of what was measured."""

import json

import pandas as pd
import pytest

from helpers.specs import make_spec
from helpers.stored_runs import plan_of, store_run
from howmanygpus.report.tables import datasets, epochs
from howmanygpus.report.tables import evaluations as evaluations_table
from howmanygpus.report.tables.evaluations import COLUMNS as EVALUATIONS

NO_EVALUATIONS = pd.DataFrame(columns=list(EVALUATIONS))


def window(epoch, phase, num_steps, elapsed_s, loss, **more):
    event = {"event": "window", "wall_s": 10.0 * epoch, "epoch": epoch, "phase": phase, "first_step": 1}
    return (
        event | {"num_steps": num_steps, "elapsed_s": elapsed_s, "data_wait_s": 0.5, "steps_s": [], "loss": loss} | more
    )


def write_events(results, *events, name="run0"):
    (results / "results" / "runs" / name / "events.jsonl").write_text("\n".join(map(json.dumps, events)))


def test_an_epoch_has_its_own_seconds_of_training_and_of_validation(tmp_path):
    spec = make_spec(global_batch_size=8)
    store_run(tmp_path, "run0", spec, accuracies=(0.4, 0.8))
    write_events(
        tmp_path,
        window(1, "compile", 1, 7.0, 3.0),
        window(1, "warmup", 2, 4.0, 3.0),
        window(1, "train", 5, 2.0, 1.0),
        {"event": "evaluation", "wall_s": 14.0, "epoch": 1, "step": 8, "elapsed_s": 3.5, "train_s": 6.0},
        window(2, "train", 4, 1.0, 0.5, wall_s=16.0),
        window(2, "train", 4, 3.0, 0.25, wall_s=19.0),
        {"event": "gradient_noise", "wall_s": 19.5, "step": 16},
        {"event": "evaluation", "wall_s": 21.0, "epoch": 2, "step": 16, "elapsed_s": 1.5, "train_s": 10.0},
    )
    plan = plan_of(spec)
    found = evaluations_table.tabulate(plan, datasets.tabulate(plan, tmp_path), tmp_path)
    first, second = epochs.tabulate(plan, found, tmp_path).to_dict("records")
    assert (first["first_step_s"], first["train_s"], first["eval_s"], first["wall_s"]) == (7, 6, 3.5, 14)
    assert first["images_per_s"] == pytest.approx(5 * 8 / 2), "the warm-up is in no rate"
    assert first["loss"] == pytest.approx((3 * 3 + 5 * 1) / 8)
    assert (first["num_steps"], first["images"], first["quality"], first["metric"]) == (8, 64, 0.4, "accuracy")
    assert (second["train_s"], second["data_wait_s"], second["images_per_s"]) == (4, 1, 8 * 8 / 4)
    assert (second["quality"], second["eval_s"], second["loss"]) == (0.8, 1.5, 0.375)
    assert pd.isna(second["first_step_s"])


def test_what_an_epoch_lacks_is_empty(tmp_path):
    spec = make_spec(global_batch_size=8)
    store_run(tmp_path, "run0", spec, accuracies=())
    write_events(tmp_path, window(1, "warmup", 2, 4.0, None, data_wait_s=None))
    (row,) = epochs.tabulate(plan_of(spec), NO_EVALUATIONS, tmp_path).to_dict("records")
    assert all(pd.isna(row[name]) for name in ("images_per_s", "loss", "eval_s", "quality", "data_wait_s"))


def test_a_program_counts_its_own_samples_and_may_report_no_epoch(tmp_path):
    specs = [make_spec(global_batch_size=8), make_spec(global_batch_size=8, repeat=2)]
    for name, spec, epoch in (("run0", specs[0], 1), ("run1", specs[1], None)):
        store_run(tmp_path, name, spec, accuracies=())
        event = window(1, "train", 2, 4.0, None, samples=100) | {"epoch": epoch}
        write_events(tmp_path, event, name=name)
    (row,) = epochs.tabulate(plan_of(*specs), NO_EVALUATIONS, tmp_path).to_dict("records")
    assert (row["repeat"], row["images"], row["images_per_s"]) == (1, 100, 25)


def test_runs_that_were_not_trained_have_no_epochs(tmp_path):
    specs = [make_spec(), make_spec(repeat=2)]
    store_run(tmp_path, "run0", specs[0], accuracies=(), status="suspended")
    table = epochs.tabulate(plan_of(*specs), NO_EVALUATIONS, tmp_path)
    assert table.empty and list(table.columns) == list(epochs.COLUMNS)

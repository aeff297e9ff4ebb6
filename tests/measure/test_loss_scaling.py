"""Skipped steps of fp16 are counted for each window, and a run that only skips has diverged."""

import pytest

from helpers.fake_clock import Ticking, run_loop
from helpers.specs import make_spec
from helpers.stored_runs import collect, plan_of, store_run
from howmanygpus.measure.loop.loop import DivergedError
from howmanygpus.measure.loss_scaling import LossScale


class Skipping(Ticking):
    """Skip some steps, which are counted from 1. The scale begins at `scale` and is halved by each of them."""

    def __init__(self, skipped, scale=64.0):
        super().__init__()
        self.skipped, self.scale = skipped, scale

    def read_loss_scale(self):
        count = sum(step in self.skipped for step in range(1, self.steps + 1))
        return LossScale(count, self.scale / 2**count)


def test_each_window_has_its_skipped_steps_and_the_scale_after_it(tmp_path):
    backend = Skipping({1, 3, 6})
    loop, windows, _ = run_loop(tmp_path, backend, epochs=1, warmup_steps=4, window_steps=3)
    assert [(w["num_steps"], w["skipped_steps"], w["loss_scale"]) for w in windows] == [
        (1, 1, 32.0),
        (3, 1, 16.0),
        (3, 1, 8.0),
        (3, 0, 8.0),
    ]
    assert loop.loss_scale == LossScale(3, 8.0)
    assert loop.steps_done == 10 and backend.rates == list(range(10)), "a skipped step is a step"


def test_other_precisions_have_no_loss_scale(tmp_path):
    loop, windows, _ = run_loop(tmp_path, epochs=1)
    assert loop.loss_scale is None
    assert not {"skipped_steps", "loss_scale"} & set(windows[0])


def test_a_scale_below_one_has_diverged_at_the_window_edge(tmp_path):
    """Also if other steps were not skipped. A scale of one has not."""
    reason = "the loss scale fell to 0.5, below 1: .*; 7 of 9 steps were skipped"
    with pytest.raises(DivergedError, match=reason):
        run_loop(tmp_path, Skipping(range(3, 11)), epochs=1, warmup_steps=1, window_steps=4)
    run_loop(tmp_path / "..", Skipping(range(3, 9)), epochs=1, warmup_steps=1, window_steps=4)


def test_a_run_that_skipped_every_step_has_diverged_at_its_end(tmp_path):
    with pytest.raises(DivergedError, match=r"all 10 steps were skipped.*the loss scale is 64 in the end"):
        run_loop(tmp_path, Skipping(range(1, 11), scale=2.0**16), epochs=1)
    run_loop(tmp_path / "..", Skipping(range(1, 10), scale=2.0**16), epochs=1)


def test_the_table_of_runs_has_skipped_steps_of_fp16_only(tmp_path):
    scaled, usual = make_spec(precision="fp16"), make_spec()
    store_run(tmp_path, "run0", scaled, accuracies=(0.9,), loss_scaling={"skipped_steps": 3, "scale": 8192.0})
    store_run(tmp_path, "run1", usual, accuracies=(0.9,))
    runs, _ = collect(plan_of(scaled, usual), tmp_path)
    assert runs["skipped_steps"].tolist()[0] == 3 and runs["loss_scale"].tolist()[0] == 8192.0
    assert runs[["skipped_steps", "loss_scale"]].isna().all(axis=1).tolist() == [False, True]

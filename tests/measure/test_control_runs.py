"""Test what the loop leaves out in control runs, and each process's own seconds, on a backend with a fake clock."""

import math

import numpy as np
import pytest

from helpers.fake_clock import Ticking, run_loop
from helpers.specs import make_data, make_spec
from howmanygpus.measure.loop.loop import DivergedError, TrainingLoop
from howmanygpus.measure.spec import RESIDENT


def test_a_run_without_evaluation_takes_the_same_steps_and_predicts_nothing(tmp_path):
    loop, windows, evaluations = run_loop(tmp_path, epochs=2, evaluate=False)
    assert sum(window["num_steps"] for window in windows) == loop.steps_done == 20
    assert not evaluations and loop.clocks.eval_s == 0 and loop.evaluation.predictions.epochs == []


def test_replicas_that_train_alone_do_not_diverge(tmp_path):
    losses = {20: math.nan}
    with pytest.raises(DivergedError):
        run_loop(tmp_path, Ticking(losses=losses), epochs=2, evaluate=False)
    loop, windows, _ = run_loop(tmp_path, Ticking(losses=losses), epochs=2, evaluate=False, exchange="none")
    assert loop.steps_done == 20 and windows[-1]["loss"] is None


def test_a_process_keeps_its_own_seconds_beside_those_of_the_slowest(tmp_path):
    class Faster(Ticking):
        def max_over_ranks(self, value):
            return 3 * value

    loop, *_ = run_loop(tmp_path, Faster(), epochs=2, warmup_steps=4, evaluate=False)
    clocks = loop.clocks
    assert (clocks.measured_s, clocks.own_measured_s) == (48.0, 16.0), "the first 4 of 20 steps are not measured"
    assert clocks.own_data_wait_s == clocks.data_wait_s / 3


@pytest.mark.parametrize(("source", "measured"), [(RESIDENT, 18), ("arrays", 10)])
def test_a_resident_batch_has_no_cold_epoch(source, measured):
    backend, spec = Ticking(), make_spec(epochs=2, warmup_steps=2, input=source)
    rates = np.zeros(20, np.float32)
    with TrainingLoop(spec, make_data(num_train=80), backend, rates, None, is_cold=True, clock=backend.clock) as loop:
        backend.train(loop)
    assert loop.clocks.measured_steps == measured and loop.is_cold == (source != RESIDENT)

"""
Every framework's runs record the time for which their devices waited for batches that are late by a known time.

In test_clocks_of_loop.py the devices and the loader are simulated. Here each framework is fed as in any run.
"""

import pytest

from measure.asked import complete
from measure.late_batches import DELAY_S, LATE
from measure.launching import BACKENDS

MEASURED_STEPS, WARMUP_STEPS = 10, 8
"""The warm-up uses up the batches that were loaded ahead during the first step, so that each measured step waits."""
REQUEST = {
    **{"epochs": None, "steps": WARMUP_STEPS + MEASURED_STEPS, "warmup_steps": WARMUP_STEPS, "prefetch": 2},
    "data": {"num_train": 8 * (WARMUP_STEPS + MEASURED_STEPS), "num_test": 4},
}


@pytest.mark.parametrize("framework", BACKENDS)
def test_a_device_waits_for_batches_that_are_late(train_once, framework):
    """The next batch is delayed while a step runs, so that the step's own time is no wait.

    Frameworks wait for 0.90 to 0.98 of the delay, and in the other run not at all. The limits are wide, because steps
    are slow on a busy machine.
    """
    runs = train_once(framework, [complete(framework, 1, REQUEST | {"variant": name}) for name in (LATE, "base")])
    assert runs[0].exit_status == 0, runs[0].output[-3000:]
    late, usual = (run.record for run in runs)
    assert late["status"] == usual["status"] == "completed"
    assert late["measured_steps"] == usual["measured_steps"] == MEASURED_STEPS
    assert 0.5 * MEASURED_STEPS * DELAY_S <= late["data_wait_s"] <= late["measured_s"]
    assert usual["data_wait_s"] < 0.5 * late["data_wait_s"]

"""
pytorch_dp takes the same steps whether the first device computes the loss or each device its own.

On CPUs, DataParallel has one device; several need GPUs.
"""

import numpy as np

from measure.asked import two_epochs

FLOAT32_NOISE = 1e-6
"""Relative tolerance. On one device the arithmetic is the same."""


def test_the_loss_on_every_device_makes_the_same_updates(train_once):
    plain, each = train_once("pytorch_dp", [two_epochs("sgd"), two_epochs("sgd", loss_on_every_device=True)])
    for run in (plain, each):
        assert run.exit_status == 0, run.output[-3000:]
        assert run.record["status"] == "completed"
    assert each.record["spec"]["loss_on_every_device"] and not plain.record["spec"]["loss_on_every_device"]
    for name, update in plain.update.items():
        assert np.abs(each.update[name] - update).max() <= FLOAT32_NOISE * np.abs(update).max(), name

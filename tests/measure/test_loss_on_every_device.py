"""
A framework takes the same steps whether the first device computes the loss or each device its own.

On CPUs, PyTorch's DataParallel has one device; several need GPUs.
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


def test_gluon_makes_the_same_updates_if_the_first_device_computes_the_loss(train_once):
    """Its contexts gather their logits, whose gradients must come back to them."""
    asked = [two_epochs("sgd", num_gpus=2, global_batch_size=8)]
    asked.append(asked[0] | {"loss_on_first_device": True})
    plain, gathered = train_once("mxnet_gluon", asked)
    for run in (plain, gathered):
        assert run.exit_status == 0, run.output[-3000:]
        assert run.record["status"] == "completed"
    assert gathered.record["spec"]["loss_on_first_device"] and not plain.record["spec"]["loss_on_first_device"]
    for name, update in plain.update.items():
        assert np.abs(gathered.update[name] - update).max() <= 1e-5 * np.abs(update).max(), name
    losses = [[event["loss"] for event in run.events if event["event"] == "window"] for run in (plain, gathered)]
    assert np.allclose(*losses, rtol=1e-5)

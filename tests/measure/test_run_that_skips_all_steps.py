"""A run in fp16 whose gradients overflow in every step ends as diverged, with its skipped steps in the record."""

import numpy as np
import pytest

from howmanygpus.measure.models.initialization import is_trainable

STEPS, SCALE = 3, 2.0**100


@pytest.mark.parametrize("framework", ["pytorch_ddp", "keras_mirrored"])
def test_a_run_that_skips_every_step_has_diverged_and_kept_its_weights(framework, train_once):
    length = {"epochs": None, "steps": STEPS, "window_steps": 2}
    (run,) = train_once(framework, [{"precision": "fp16", "loss_scale": SCALE, **length}])
    assert run.exit_status == 0, run.output[-3000:]
    assert run.record["status"] == "diverged"
    assert run.record["reason"].startswith(f"all {STEPS} steps were skipped, because gradients were not finite in fp16")
    assert run.record["loss_scaling"] == {"skipped_steps": STEPS, "scale": SCALE / 2**STEPS}
    assert run.record["images_seen"] == STEPS * run.record["spec"]["global_batch_size"]
    windows = [event for event in run.events if event["event"] == "window"]
    assert [window["skipped_steps"] for window in windows] == [window["num_steps"] for window in windows]
    assert all(window["loss"] < 10 for window in windows), "the loss is not scaled"
    assert all(np.all(array == 0) for name, array in run.update.items() if is_trainable(name))
    described = run.record["settings"]["loss_scaling"]
    assert described.endswith(f"{SCALE:g} at first, x 2 after 2000 steps, x 0.5 after a skipped one")

"""The `best` tier of TensorFlow and Keras, which exists on GPUs only, compiled by XLA for the devices of a CPU."""

import pytest

from measure.asked import complete
from measure.launching import BACKENDS

COMPILED = {"tensorflow_mirrored": 2, "tensorflow_multiworker": 2, "keras_mirrored": 1}
"""How many devices each trains on."""
REQUEST = {"tier": "best", "model": "resnet44", "model_options": {"blocks": 1, "width": 4}, "epochs": 1}


def train(train_once, framework, num_gpus):
    assert framework in BACKENDS
    return train_once(framework, [complete(framework, num_gpus, REQUEST)])[0]


@pytest.mark.parametrize(("framework", "num_gpus"), COMPILED.items())
def test_a_compiled_step_trains(train_once, framework, num_gpus):
    finished = train(train_once, framework, num_gpus)
    assert finished.exit_status == 0, finished.output[-3000:]
    assert finished.record["status"] == "completed" and "XLA" in finished.record["settings"]["execution"]


def test_fit_cannot_compile_a_step_of_two_devices(train_once):
    """If this fails, Keras no longer needs `best_on_one` in the registry."""
    finished = train(train_once, "keras_mirrored", 2)
    assert finished.exit_status != 0 and "located in device" in finished.output

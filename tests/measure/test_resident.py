"""Test what the loop does with `resident` input, on a backend whose steps take one second."""

import numpy as np
import pytest

from helpers.fake_clock import Ticking, feeding_threads
from helpers.specs import make_data, make_spec
from howmanygpus.measure.loop.loop import TrainingLoop


@pytest.mark.parametrize("depth", [0, 2])
def test_a_resident_batch_is_put_there_once_before_the_clock_and_never_waited_for(depth):
    class Copying(Ticking):
        def put_on_device(self, images, labels):
            self.now += 100.0
            return super().put_on_device(images, labels)

    backend = Copying()
    spec, data = make_spec(epochs=2, warmup_steps=4, input="resident", prefetch=depth), make_data(num_train=80)
    loop = TrainingLoop(spec, data, backend, np.zeros(20, np.float32), None, clock=backend.clock)
    with loop:
        backend.train(loop)
    assert len(backend.put) == 1 and len(backend.trained) == 20
    assert all(images is backend.put[0] for images in backend.trained)
    clocks = loop.clocks
    assert (clocks.compile_s, clocks.warmup_s, clocks.measured_s, clocks.data_wait_s) == (1.0, 3.0, 16.0, 0.0)
    assert loop.evaluation.predictions.epochs == [], "random labels are not evaluated"
    assert not feeding_threads()

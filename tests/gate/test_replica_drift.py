"""Replicas may differ by the rounding of their updates, and by no more."""

import numpy as np
import pytest

from howmanygpus.gate.process import has_drifted


@pytest.mark.parametrize(
    ("difference", "drifted"), [(0.0, False), (2.0**-26, False), (1e-6, True), (np.nan, True), (np.inf, True)]
)
def test_a_replica_may_be_off_by_rounding_alone(difference, drifted):
    """Seen of TensorFlow on a busy CPU: 4e-9 in a few hundred of 2,359,296 elements of up to 0.1."""
    kernel = np.random.default_rng(0).uniform(-0.3, 0.3, (3, 3, 8, 8)).astype(np.float32)
    kernel[0, 0, 0, 0] = 0.3
    other = kernel.copy()
    other[1, 1, 1, 1] += difference
    assert has_drifted(other, kernel) == drifted

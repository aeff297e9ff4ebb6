"""Canonical parameters and initial weights."""

import math

import numpy as np

from howmanygpus.train.models.initialization import draw_weights, is_trainable
from howmanygpus.train.models.resnet44.parameters import parameters as resnet44
from howmanygpus.train.models.small_cnn.parameters import parameters as small_cnn


def count_trainable(weights):
    return sum(array.size for name, array in weights.items() if is_trainable(name))


def test_resnet44_on_cifar_has_the_published_number_of_parameters():
    assert count_trainable(draw_weights(resnet44((32, 32, 3), 10), seed=1)) == 658_586


def test_resnet44_has_44_weighted_layers():
    kernels = [name for name in resnet44((32, 32, 3), 10) if name.endswith(".kernel")]
    assert len(kernels) == 44


def test_parameters_do_not_depend_on_the_size_of_the_image():
    assert resnet44((8, 8, 1), 10).keys() == resnet44((264, 264, 1), 10).keys()
    first, second = (draw_weights(small_cnn((size, size, 1), 10), seed=3) for size in (8, 64))
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_weights_depend_on_seed_and_name_alone():
    draws = small_cnn((8, 8, 1), 10)
    backwards = dict(reversed(draws.items()))
    weights, again, other = draw_weights(draws, 5), draw_weights(backwards, 5), draw_weights(draws, 6)
    assert all(np.array_equal(weights[name], again[name]) for name in draws)
    assert not np.array_equal(weights["conv2.kernel"], other["conv2.kernel"])


def test_kernels_have_he_variance():
    kernel = draw_weights(resnet44((32, 32, 3), 10), seed=1)["stage3_block5_conv1.kernel"]
    assert kernel.dtype == np.float32
    assert math.isclose(kernel.std(), math.sqrt(2 / (9 * 64)), rel_tol=0.02)
